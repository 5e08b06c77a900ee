//! Which linear layers a quantized checkpoint leaves as they were, by the names of its modules.
//!
//! Law: a fused product (Q, K and V; gate and up) is quantized as a whole or not at all, as vLLM demands. Left out: the
//! LM head, which is never quantized here; the numbers of experts, since one kernel computes all of them.

use std::collections::BTreeSet;

use regex::Regex;

use super::super::{Attention, Mlp};
use super::Reader;
use super::products::EXPERTS;

/// How an entry of a list names modules.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// The whole name, `model.layers.0.self_attn.q_proj`.
    Exact(String),
    /// A part of it, `self_attn` or `model.layers.0`, where a number at the end is a whole one.
    Within(String),
    /// Any letters of it, by which `model.layers.1` is in layer 10, too. It is looked for in the parts of a fused product, as
    /// the file has them, and not in the product's own name: `v_proj` is no part of `q_proj`, though it is one of `qkv_proj`.
    Letters(String),
    /// Whole words between its dots, or all of them from the first on.
    Words(String),
    /// A pattern that matches from its beginning, and how the checkpoint writes it.
    Pattern(Regex, String),
    /// A part of the name of vLLM's class, `Linear`.
    Class(String),
}

/// Which modules are quantized.
#[derive(Clone, Debug, Default)]
pub(super) struct Stays {
    /// Those alone; `None` for all.
    pub(super) targets: Option<Vec<Rule>>,
    /// Less these.
    pub(super) except: Vec<Rule>,
    /// Less these, by their whole names, of which there may be thousands.
    pub(super) names: BTreeSet<String>,
    /// The key that says so, for messages.
    pub(super) key: &'static str,
}

/// All names that modules of the model may go by.
#[derive(Default)]
pub(super) struct Named {
    /// Linear layers that a checkpoint may quantize.
    linear: BTreeSet<String>,
    /// Routers and gates of shared experts, which stay in 16 bits in any case.
    routers: BTreeSet<String>,
}

impl Rule {
    fn names(&self, name: &str, class: &str) -> bool {
        match self {
            Rule::Exact(whole) => whole == name,
            Rule::Within(part) => is_within(part, name),
            Rule::Letters(part) => name.contains(part.as_str()),
            Rule::Words(words) => {
                let rest = name.strip_prefix(words.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                    || name.split('.').any(|word| word == words)
            }
            Rule::Pattern(pattern, _) => pattern.is_match(name),
            Rule::Class(part) => class.to_lowercase().contains(part),
        }
    }

    /// Whether it names a part of a product, `own`, or the product, `fused`.
    fn names_either(&self, own: &[String], fused: &[String], class: &str) -> bool {
        let among = |names: &[String]| names.iter().any(|name| self.names(name, class));
        match self {
            // Of experts vLLM knows the product's name alone.
            Rule::Letters(part) if class == EXPERTS && !part.contains("experts.") => among(fused),
            Rule::Letters(_) => among(own),
            _ => among(own) || among(fused),
        }
    }

    /// As the checkpoint writes it; `None` of a class.
    fn written(&self) -> Option<&str> {
        match self {
            Rule::Exact(text) | Rule::Within(text) | Rule::Letters(text) | Rule::Words(text) => Some(text),
            Rule::Pattern(_, written) => Some(written),
            Rule::Class(_) => None,
        }
    }
}

/// Whether `part` is in `name`, where a number at its end is a whole one: vLLM would take layer 1 of ModelOpt's for layer 10,
/// too, and then not find the weights of a checkpoint that does not.
fn is_within(part: &str, name: &str) -> bool {
    let ends_in_digit = part.ends_with(|last: char| last.is_ascii_digit());
    name.match_indices(part).any(|(at, _)| {
        let next = name[at + part.len()..].chars().next();
        !(ends_in_digit && next.is_some_and(|next| next.is_ascii_digit()))
    })
}

impl Stays {
    /// Whether one part of a product is left as it was, by any of its own names or the product's.
    fn leaves(&self, own: &[String], fused: &[String], class: &str) -> bool {
        let by = |rules: &[Rule]| rules.iter().any(|rule| rule.names_either(own, fused, class));
        self.targets.as_ref().is_some_and(|targets| !by(targets))
            || own.iter().chain(fused).any(|name| self.names.contains(name))
            || by(&self.except)
    }

    fn is_nothing(&self) -> bool {
        self.targets.is_none() && self.except.is_empty() && self.names.is_empty()
    }
}

impl Reader<'_> {
    /// The matrices of a layer that are left as they were; `None` if a product is quantized in part.
    pub(super) fn kept(
        &mut self,
        layer: usize,
        attention: &Attention,
        mlp: &Mlp,
        stays: &Stays,
        named: &mut Named,
    ) -> Option<Vec<&'static str>> {
        if stays.is_nothing() {
            return Some(Vec::new());
        }
        let prefixes = self.prefixes(layer);
        for (prefix, name) in prefixes
            .iter()
            .flat_map(|prefix| ROUTERS.map(|name| (prefix, name)))
        {
            named
                .routers
                .insert(format!("{prefix}{}.{name}", self.feed_forward(true)));
        }
        let mut kept = Vec::new();
        for product in self.products(attention, mlp) {
            let under = |suffix: &String| -> Vec<String> {
                prefixes
                    .iter()
                    .map(|prefix| format!("{prefix}{suffix}"))
                    .collect()
            };
            // What names the product means each of its parts.
            let fused = under(&product.fused);
            let parts: Vec<Vec<String>> = product.parts.iter().map(under).collect();
            named.linear.extend(parts.iter().flatten().cloned());
            let left: Vec<bool> = parts
                .iter()
                .map(|own| stays.leaves(own, &fused, product.class))
                .collect();
            named.linear.extend(fused);
            if left.iter().all(|&left| left) {
                kept.extend_from_slice(product.matrices);
            } else if left.contains(&true) {
                return self.problem(format!(
                    "`{}` keeps some of {} of layer {layer} and not all: engines multiply them as one and refuse that",
                    stays.key,
                    product.parts.join(", ")
                ));
            }
        }
        Some(kept)
    }

    /// Notes entries that name no linear layer of the model, but for those of what is never quantized or not counted, and
    /// those that name more than they seem to.
    pub(super) fn note_strangers(&mut self, stays: &Stays, named: &Named) {
        let is_uncounted = |entry: &str| UNCOUNTED.iter().any(|part| entry.to_lowercase().contains(part));
        let is_router = |entry: &str| {
            let last = entry.rsplit('.').next().unwrap_or(entry);
            ROUTERS.contains(&last)
        };
        let of_names = stays
            .names
            .iter()
            .filter(|name| !named.linear.contains(*name))
            .map(String::as_str);
        let of_rules = stays.except.iter().filter_map(|rule| {
            let mut all = named.linear.iter().chain(&named.routers);
            let is_found = all.any(|name| rule.names(name, ""));
            rule.written().filter(|_| !is_found)
        });
        let strangers: Vec<&str> = of_names
            .chain(of_rules)
            .filter(|entry| !is_uncounted(entry) && !is_router(entry))
            .collect();
        if let Some(listed) = first_and_more(&strangers) {
            self.notes.push(format!(
                "`{}` of the checkpoint names {listed}, which is no linear layer known here and counts for nothing",
                stays.key,
            ));
        }
        let reach_further: Vec<&str> = stays
            .except
            .iter()
            .filter_map(|rule| match rule {
                Rule::Letters(part) => Some(part.as_str()),
                _ => None,
            })
            .filter(|part| {
                named
                    .linear
                    .iter()
                    .any(|name| name.contains(part) && !is_within(part, name))
            })
            .collect();
        if let Some(listed) = first_and_more(&reach_further) {
            self.notes.push(format!(
                "`{}` of the checkpoint names {listed}, which leaves every layer in 16 bits whose number begins so: vLLM looks \
                 for the letters in names, and a dot behind the number ends it",
                stays.key,
            ));
        }
    }
}

/// `a and 2 more`; `None` of nothing.
fn first_and_more(entries: &[&str]) -> Option<String> {
    match entries {
        [] => None,
        [first] => Some((*first).to_string()),
        [first, more @ ..] => Some(format!("{first} and {} more", more.len())),
    }
}

/// Parts of names of what is in 16 bits here in any case, or not counted at all.
const UNCOUNTED: [&str; 13] = [
    "lm_head",
    "conv1d",
    "embed",
    "norm",
    "router",
    "vision",
    "visual",
    "vit",
    "audio",
    "projector",
    "mtp",
    "nextn",
    "e_score_correction_bias",
];

/// What routers and the gates of shared experts are called in a layer.
const ROUTERS: [&str; 3] = ["gate", "router", "shared_expert_gate"];
