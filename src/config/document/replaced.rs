//! Tables that something else took the place of. Nobody reads their values, but a misspelt key in one is a mistake all the same.

use super::{Document, Origin};

impl Document {
    /// Removes a table that something else takes the place of, and keeps it for [`Document::replaced`].
    pub(in crate::config) fn give_way(&mut self, key: &str) {
        if let Some(value) = self.get(key).cloned() {
            let mut own = Document::default();
            self.override_in(&mut own, (key, key), &value);
            self.replaced.push(own);
        }
        self.remove(key);
    }

    /// What was replaced, each table as an input of its own.
    pub(in crate::config) fn replaced(&self) -> &[Document] {
        &self.replaced
    }

    /// Hands on what a flag said of a law of arrivals that was not known yet. A rate beside arrivals that were chosen since then
    /// says nothing.
    pub(in crate::config) fn settle_rate(&mut self, are_of_base: bool) {
        let key = "workload.request_rate";
        let Some(value) = self.get(key).cloned().filter(|_| !self.has_several_clients()) else {
            return;
        };
        let is_by_flag = matches!(self.origin(key), Some(Origin::Flag(_)));
        if !are_of_base && !is_by_flag {
            return;
        }
        if are_of_base {
            let chosen = self.get("workload.arrivals").and_then(toml::Value::as_table);
            let law = chosen.and_then(|laws| laws.keys().next()).map(String::as_str);
            let to = match law {
                Some(law) if has_rate(law) => format!("workload.arrivals.{law}.request_rate"),
                _ => "workload.arrivals.poisson.request_rate".to_owned(),
            };
            let origin = self.origin(key).cloned().expect("it has a value");
            self.put(&to, value, origin);
        }
        self.remove(key);
    }
}

/// Whether arrivals of this law keep their shape at any rate, which is then a key of the law.
fn has_rate(law: &str) -> bool {
    matches!(
        law,
        "poisson" | "gamma" | "constant" | "ramp" | "mmpp" | "profile" | "trace"
    )
}
