//! The input of one class of requests as if it were a whole workload's, so that one judge judges both.

use toml::Value;

use super::document::{Document, Source};

/// What is said of all clients together, or of the one whose requests classes share out.
const OF_ALL: [&str; 5] = [
    "arrivals",
    "num_prompts",
    "duration",
    "request_rate",
    "client.max_concurrency",
];

impl Document {
    /// Whether a class has arrivals of its own, as far as anybody can tell before the input is judged.
    fn sends_alone(&self, index: usize) -> bool {
        self.get(&format!("workload.classes.{index}.arrivals")).is_some()
    }

    /// Whether any class has.
    #[must_use]
    pub fn has_several_clients(&self) -> bool {
        let classes = self.get("workload.classes").and_then(Value::as_array);
        (0..classes.map_or(0, Vec::len)).any(|index| self.sends_alone(index))
    }

    /// The input of a class: its tables over those of the workload. Every value keeps its origin, so problems point into
    /// the class's table; a flag holds for every class.
    pub(super) fn of_class(&self, index: usize) -> Document {
        let mut own = self.clone();
        own.remove("workload.classes");
        let root = format!("workload.classes.{index}");
        if self.sends_alone(index) {
            for key in OF_ALL {
                own.remove(&format!("workload.{key}"));
            }
            if self.get(&format!("{root}.arrivals.trace")).is_some() {
                // Lengths and sharing of the others are not meant for a trace; a flag's are, and contradict it.
                for key in ["workload.lengths", "workload.prefix"] {
                    if own.set_by_flag(key).is_none() {
                        own.remove(key);
                    }
                }
            }
            for key in ["arrivals", "num_prompts", "duration", "prefix"] {
                self.override_key(&mut own, &root, key);
            }
            let client = self.get(&format!("{root}.client")).and_then(Value::as_table);
            for key in client.into_iter().flat_map(toml::Table::keys) {
                self.override_key(&mut own, &root, &format!("client.{key}"));
            }
        }
        self.override_key(&mut own, &root, "lengths");
        own
    }

    /// A key by which a flag made a choice or set one of its values.
    pub(super) fn set_by_flag(&self, choice: &str) -> Option<String> {
        let is_flag = |key: &String| matches!(self.source(key), Some(Source::Flag(_)));
        let mut keys = vec![choice.to_owned()];
        for (law, values) in self.get(choice).and_then(Value::as_table).into_iter().flatten() {
            let values = values.as_table().into_iter().flat_map(toml::Table::keys);
            keys.extend(values.map(|value| format!("{choice}.{law}.{value}")));
        }
        keys.into_iter().find(is_flag)
    }

    fn override_key(&self, own: &mut Document, root: &str, key: &str) {
        let from = format!("{root}.{key}");
        if let Some(value) = self.get(&from) {
            self.override_in(own, (&from, &format!("workload.{key}")), value);
        }
    }
}
