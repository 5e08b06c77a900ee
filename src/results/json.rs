//! JSON as benchmark tools write it: several documents in one file, bare `Infinity` and `NaN`, numbers as strings.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::error::Problems;
use super::measured::Stats;
use crate::python::quote_bare_numbers;

/// Larger counts of anything are mistakes, and their sums could overflow.
const COUNT_MAX: f64 = 1e15;

/// Every JSON document of a text with the line on which it begins. What is not JSON is told with its line and column.
pub(super) fn documents(text: &str, problems: &Problems) -> Vec<(usize, Value)> {
    let text = quote_bare_numbers(text);
    let mut found = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(&text).into_iter::<Single>();
    let (mut line, mut seen) = (1, 0);
    loop {
        let rest = &text[stream.byte_offset()..];
        let start = stream.byte_offset() + (rest.len() - rest.trim_start().len());
        line += text[seen..start].bytes().filter(|byte| *byte == b'\n').count();
        seen = start;
        match stream.next() {
            Some(Ok(Single(value))) => found.push((line, value)),
            Some(Err(error)) => {
                let place = format!("line {}, column {}", error.line(), error.column());
                let what = match error.classify() {
                    serde_json::error::Category::Data => reason(&error),
                    _ => format!("is not JSON: {}", reason(&error)),
                };
                problems.push(place, what);
                return found;
            }
            None => return found,
        }
    }
}

/// A document in whose objects no key has two values; the parser's own type would keep the last of them in silence.
struct Single(Value);

impl<'de> Deserialize<'de> for Single {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Single, D::Error> {
        from.deserialize_any(Build).map(Single)
    }
}

struct Build;

impl<'de> Visitor<'de> for Build {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Single(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Single(value))) = entries.next_entry::<String, Single>()? {
            if map.get(&key).is_some_and(|known| *known != value) {
                return Err(A::Error::custom(format!(
                    "`{key}` stands twice in one object, with two values"
                )));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// The parser's words without its own position.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// An object of a file that is read key by key; what is wrong with a key is told with its place.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    place: &'a str,
    map: &'a Map<String, Value>,
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    pub(super) fn new(place: &'a str, map: &'a Map<String, Value>, problems: &'a Problems) -> Fields<'a> {
        Fields { place, map, problems }
    }

    /// Another object of the same file.
    pub(super) fn within<'b>(&self, place: &'b str, map: &'b Map<String, Value>) -> Fields<'b>
    where
        'a: 'b,
    {
        Fields {
            place,
            map,
            problems: self.problems,
        }
    }

    /// The object itself, to look into without demanding anything of it.
    pub(super) fn own(&self) -> &'a Map<String, Value> {
        self.map
    }

    pub(super) fn problem(&self, key: &str, what: impl Into<String>) {
        let place = match self.place {
            "" => format!("`{key}`"),
            place => format!("{place}: `{key}`"),
        };
        self.problems.push(place, what);
    }

    /// A value that is there and not null.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The keys whose value is `NaN`: nothing was measured.
    pub(super) fn not_numbers(&self) -> impl Iterator<Item = &'a str> {
        let is_nan = |value: &Value| {
            value
                .as_str()
                .is_some_and(|text| text.eq_ignore_ascii_case("nan"))
        };
        let found = self.map.iter().filter(move |(_, value)| is_nan(value));
        found.map(|(key, _)| key.as_str())
    }

    /// A number that is not negative; strings that hold one count, `NaN` is nothing.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        let value = self.value(key)?;
        let number = match value {
            Value::String(text) => text.trim().parse::<f64>().ok(),
            other => other.as_f64(),
        };
        match number {
            Some(number) if number.is_nan() => None,
            Some(number) if number >= 0.0 && number.is_finite() => Some(number),
            Some(number) => {
                self.problem(
                    key,
                    format!("{number} must be a finite number that is not negative"),
                );
                None
            }
            None => {
                self.problem(key, format!("must be a number, not {}", kind(value)));
                None
            }
        }
    }

    /// A whole number.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        let number = self.number(key)?;
        if number.fract() != 0.0 || number > COUNT_MAX {
            self.problem(key, format!("{number} must be a whole number"));
            return None;
        }
        Some(number as u64)
    }

    /// A text; other simple values as they are written.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A rate of requests, which may be infinite: `"inf"`, `Infinity`.
    pub(super) fn rate(&self, key: &str) -> Option<f64> {
        match self.value(key) {
            Some(Value::String(text)) if ["inf", "infinity"].contains(&text.to_lowercase().as_str()) => {
                Some(f64::INFINITY)
            }
            _ => self.number(key),
        }
    }

    /// An object.
    pub(super) fn object(&self, key: &str) -> Option<Fields<'a>> {
        match self.value(key)? {
            Value::Object(map) => Some(Fields { map, ..*self }),
            other => {
                self.problem(key, format!("must be an object, not {}", kind(other)));
                None
            }
        }
    }

    /// An object at the end of a path of keys; nothing where one of them is missing.
    pub(super) fn at(&self, path: &[&str]) -> Option<Fields<'a>> {
        path.iter().try_fold(*self, |fields, key| fields.object(key))
    }

    /// A list.
    pub(super) fn list(&self, key: &str) -> Option<&'a [Value]> {
        match self.value(key)? {
            Value::Array(list) => Some(list),
            other => {
                self.problem(key, format!("must be a list, not {}", kind(other)));
                None
            }
        }
    }

    /// A list of numbers that are not negative.
    pub(super) fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        let list = self.list(key)?;
        let numbers: Vec<f64> = list.iter().filter_map(plain_number).collect();
        if numbers.len() < list.len() {
            let wrong = list.len() - numbers.len();
            self.problem(
                key,
                format!("{wrong} of {} values are no numbers of at least 0", list.len()),
            );
            return None;
        }
        Some(numbers)
    }

    /// Statistics whose keys are `prefix` + `mean`, `median`, `p99` … + `suffix`, in units of `seconds`.
    pub(super) fn stats(&self, prefix: &str, suffix: &str, seconds: f64) -> Stats {
        let scaled = |name: &str| {
            let key = format!("{prefix}{name}{suffix}");
            self.number(&key).map(|number| number / seconds)
        };
        let first = |names: &[&str]| names.iter().find_map(|name| scaled(name));
        let mut stats = Stats {
            mean: first(&["mean", "avg"]),
            median: first(&["median", "p50"]),
            std: first(&["std", "std_dev", "stddev"]),
            min: scaled("min"),
            max: scaled("max"),
            ..Stats::default()
        };
        for key in self.map.keys() {
            let name = key.strip_prefix(prefix).and_then(|key| key.strip_suffix(suffix));
            let Some(name) = name else { continue };
            if let Some((percent, value)) = percent(name).and_then(|percent| Some((percent, scaled(name)?))) {
                stats.put_percentile(percent, value);
            }
        }
        stats
    }
}

/// The percentile that a key such as `p99`, `p99.9` or GuideLLM's `p999` names.
fn percent(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    // GuideLLM writes `p001` for 0.1 and `p999` for 99.9.
    let value = match digits {
        "001" => 0.1,
        "999" => 99.9,
        digits => digits.parse::<f64>().ok()?,
    };
    (0.0..=100.0).contains(&value).then_some(value)
}

/// A count that a tool wrote as any number; nothing where it is too large to be one.
pub(super) fn whole(number: f64) -> Option<u64> {
    (0.0..=COUNT_MAX).contains(&number).then(|| number.round() as u64)
}

/// A JSON number that is finite and not negative.
pub(super) fn plain_number(value: &Value) -> Option<f64> {
    value
        .as_f64()
        .filter(|number| number.is_finite() && *number >= 0.0)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_infinity_is_read_and_words_in_strings_stay() {
        let problems = Problems::default();
        let text =
            "{\"a\": Infinity, \"b\": -Infinity}\n{\"c\": \"NaN \\\" Infinity\", \"d\": NaN, \"e\": -3}";
        let found = documents(text, &problems);
        assert!(problems.is_empty());
        assert_eq!(found[0].1["a"], "Infinity");
        assert_eq!(found[1].1["c"], "NaN \" Infinity");
        assert_eq!((found[0].0, found[1].0), (1, 2));
        assert_eq!(found[1].1["e"], -3);
    }

    #[test]
    fn a_key_with_two_values_is_told_and_one_written_twice_is_one() {
        let problems = Problems::default();
        let same = documents(
            "{\"a\": 1, \"b\": [{\"c\": 2.5, \"c\": 2.5}], \"a\": 1}",
            &problems,
        );
        assert!(problems.is_empty());
        let plain: Value = serde_json::from_str("{\"a\": 1, \"b\": [{\"c\": 2.5}]}").unwrap();
        assert_eq!(same[0].1, plain);
        documents("{\"a\": {\"c\": 2.5,\n\"c\": null}}", &problems);
        let file = crate::results::ResultFile {
            name: "it".to_owned(),
            rows: Vec::new(),
        };
        let told = problems.into_result(file).unwrap_err();
        assert_eq!(
            told.problems[0].what,
            "`c` stands twice in one object, with two values"
        );
        assert!(told.problems[0].place.starts_with("line 2"), "{told}");
    }

    #[test]
    fn percentile_keys_are_told_from_other_names() {
        assert_eq!(percent("p99"), Some(99.0));
        assert_eq!(percent("p99.9"), Some(99.9));
        assert_eq!(percent("p999"), Some(99.9));
        assert_eq!(percent("pdf"), None);
        assert_eq!(percent("p101"), None);
    }
}
