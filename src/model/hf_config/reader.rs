//! The keys of a config one by one: what is absent is looked for outside and in the family's defaults, and what is wrong is
//! written down, so that all of it is told at once.

use serde_json::{Map, Value};

use super::super::families::{Family, unmodelled};
use crate::nearest::{slips, squash};

/// A config while it is read.
pub(super) struct Reader<'a> {
    /// Where the language model is described.
    pub(super) inner: &'a Map<String, Value>,
    /// The whole file.
    pub(super) outer: &'a Map<String, Value>,
    /// The `hf_quant_config.json` beside it, if there is one.
    pub(super) beside: Option<&'a Result<Value, String>>,
    pub(super) architecture: String,
    pub(super) family: &'static Family,
    pub(super) problems: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(outer: &'a Map<String, Value>) -> Result<Reader<'a>, String> {
        let inner = ["text_config", "llm_config", "language_config"]
            .iter()
            .find_map(|key| outer.get(*key)?.as_object())
            .unwrap_or(outer);
        let architecture_of = |map: &'a Map<String, Value>| map.get("architectures")?.get(0)?.as_str();
        let type_of = |map: &'a Map<String, Value>| map.get("model_type")?.as_str();
        let architecture = architecture_of(outer).or_else(|| architecture_of(inner));
        let family = Family::find(architecture, type_of(inner).or_else(|| type_of(outer)));
        let Some(family) = family else {
            return Err(unknown_architecture(architecture.or_else(|| type_of(inner))));
        };
        Ok(Reader {
            inner,
            outer,
            beside: None,
            architecture: architecture.unwrap_or(family.architectures[0]).to_string(),
            family,
            problems: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// The value of a key; an explicit `null` is none.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        let key = self.written(key);
        let value = at(self.inner, key).or_else(|| at(self.outer, key))?;
        (!value.is_null()).then_some(value)
    }

    /// Notes that a key is not there at all, not even as null, and what stands in for it.
    pub(super) fn told_if_absent(&mut self, key: &str, instead: &str) {
        if !self.has(self.written(key)) && self.family.default(key).is_none() {
            self.notes
                .push(format!("`{key}` is not given: {instead} assumed"));
        }
    }

    /// How the file writes a key: as it is called here, or else as in its family.
    fn written<'k>(&self, key: &'k str) -> &'k str {
        match self.family.spelling(key) {
            Some(own) if !self.has(key) && self.has(own) => own,
            _ => key,
        }
    }

    fn has(&self, key: &str) -> bool {
        at(self.inner, key).is_some() || at(self.outer, key).is_some()
    }

    pub(super) fn problem<T>(&mut self, problem: String) -> Option<T> {
        self.problems.push(problem);
        None
    }

    /// A whole number between `least` and `most`; `None` where the key is absent or wrong, which is written down.
    pub(super) fn number(&mut self, key: &str, least: u32, most: u32) -> Option<u32> {
        let Some(value) = self.get(key) else {
            // An explicit null switches a default off.
            let said = self.has(self.written(key));
            return if said { None } else { self.family.default(key) };
        };
        let key = self.written(key);
        let value = same_for_all(value).unwrap_or(value);
        let number = value.as_u64().or_else(|| whole(value.as_f64()?));
        match number {
            Some(number) if (u64::from(least)..=u64::from(most)).contains(&number) => Some(number as u32),
            _ => self.problem(format!(
                "`{key}` is {} and must be a whole number from {least} to {most}",
                shortened(value)
            )),
        }
    }

    /// As [`Reader::number`], but absence is a problem too.
    pub(super) fn required(&mut self, key: &str, most: u32) -> Option<u32> {
        let before = self.problems.len();
        let number = self.number(key, 1, most);
        if number.is_none() && self.problems.len() == before {
            let key = self.family.spelling(key).unwrap_or(key);
            return self.problem(format!("`{key}` is missing"));
        }
        number
    }

    pub(super) fn flag(&mut self, key: &str, default: bool) -> bool {
        match self.get(key) {
            None => default,
            Some(Value::Bool(flag)) => *flag,
            Some(value) => {
                let key = self.written(key);
                let problem = format!("`{key}` is {} and must be true or false", shortened(value));
                self.problem::<()>(problem);
                default
            }
        }
    }
}

/// What lies under a key, which may be one of an object within, behind a dot: `ffn_config.moe_top_k`.
fn at<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        Some((outer, inner)) => map.get(outer)?.get(inner),
        None => map.get(key),
    }
}

fn unknown_architecture(name: Option<&str>) -> String {
    let mut known: Vec<&str> = Family::all()
        .flat_map(|family| family.architectures.iter().copied())
        .collect();
    known.sort_unstable();
    let all = || format!("known are {}", known.join(", "));
    let Some(name) = name else {
        return format!("`architectures` is missing; {}", all());
    };
    if let Some(what) = unmodelled(name) {
        return format!("the architecture {name} has {what}: that is not modelled");
    }
    match misspelt(name, &known) {
        Some(near) => format!("the architecture {name} is not known; did you mean {near}?"),
        None => format!("the architecture {name} is not known; {}", all()),
    }
}

/// The architecture that a name is a slip of the finger from. Other numbers are another generation, and what all names
/// have in common tells nothing.
fn misspelt<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let stem = |name: &str| {
        let cut = ["ForCausalLM", "ForConditionalGeneration", "LMHeadModel"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        squash(cut.unwrap_or(name))
    };
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    let own = stem(name);
    let near = known
        .iter()
        .copied()
        .filter(|known| digits(known) == digits(name));
    near.filter_map(|known| Some((slips(&own, [stem(known).as_str()])?, known)))
        .min()
        .map(|(_, known)| known)
}

/// What a list of one value for each layer says of all of them.
fn same_for_all(value: &Value) -> Option<&Value> {
    let (first, others) = value.as_array()?.split_first()?;
    others.iter().all(|other| other == first).then_some(first)
}

/// A float that is a whole number.
fn whole(value: f64) -> Option<u64> {
    (value.fract() == 0.0 && (0.0..1e15).contains(&value)).then_some(value as u64)
}

/// A JSON value for a message, cut where it is long.
pub(super) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
