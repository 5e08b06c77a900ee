//! Pools in an input: tables of roles that become pools, flags that take their place, and each pool's input as if it were a
//! server's own.

use toml::Value;

use super::super::diagnostic::Diagnostic;
use super::{Document, Origin};

impl Document {
    /// Flags that say how replicas share the work replace a file that says it in the other way: `--prefill` and
    /// `--decode` its number of replicas, `--replicas` its prefill and decode pools and what is between them. What was
    /// replaced, in words.
    pub(in crate::config) fn roles_give_way(&mut self) -> Option<String> {
        let flag = |document: &Document, key: &str| match (document.get(key), document.origin(key)) {
            (Some(_), Some(Origin::Flag(name))) => Some(name.clone()),
            _ => None,
        };
        let by_flags = |keys: [&str; 2]| keys.into_iter().find_map(|key| flag(self, key));
        let apart = by_flags(["cluster.prefill.replicas", "cluster.decode.replicas"]);
        let together = flag(self, "cluster.replicas");
        match (apart, together) {
            (Some(apart), None) => {
                let replicas = self.get("cluster.replicas")?.to_string();
                self.remove("cluster.replicas");
                Some(format!("{apart} replaces the scenario's replicas = {replicas}"))
            }
            (None, Some(together)) => {
                self.get("cluster.prefill").or(self.get("cluster.decode"))?;
                for key in ["prefill", "decode", "link"] {
                    self.give_way(&format!("cluster.{key}"));
                }
                Some(format!(
                    "{together} replaces the scenario's prefill and decode pools and their link"
                ))
            }
            _ => None,
        }
    }

    /// `[cluster.prefill]` and `[cluster.decode]` become pools with those names and roles; every value keeps its origin.
    ///
    /// # Errors
    /// Where the input has pools, too.
    pub(in crate::config) fn roles_become_pools(&mut self) -> Result<(), Diagnostic> {
        let mut pools = Vec::new();
        for role in ["prefill", "decode"] {
            let from = format!("cluster.{role}");
            let Some(Value::Table(mut pool)) = self.get(&from).cloned() else {
                continue;
            };
            if self.get("cluster.pools").is_some() {
                let problem = Diagnostic::new(format!("`{from}` stands beside [[cluster.pools]]"));
                let help = format!("give one of the pools role = \"{role}\" instead");
                return Err(problem.at(self.place(&from)).help(help));
            }
            // Flags set what is in the table, and so the table.
            let given = self
                .first_given(&from)
                .filter(|_| !self.origins.contains_key(&from));
            let origin = self
                .origin(given.as_deref().unwrap_or(&from))
                .cloned()
                .unwrap_or(Origin::Default(String::new()));
            let root = format!("cluster.pools.{}", pools.len());
            for key in ["name", "role"] {
                pool.entry(key).or_insert_with(|| role.into());
                self.origins.insert(format!("{root}.{key}"), origin.clone());
            }
            let inside = format!("{from}.");
            let below = self.origins.range(inside.clone()..);
            let below = below.take_while(|(key, _)| key.starts_with(&inside));
            let moved: Vec<(String, Origin)> = below
                .map(|(key, origin)| {
                    let key = key.strip_prefix(&inside).unwrap_or(key);
                    (format!("{root}.{key}"), origin.clone())
                })
                .collect();
            self.remove(&from);
            self.origins.extend(moved);
            self.origins.insert(root, origin);
            pools.push(Value::Table(pool));
        }
        if let (false, Some(Value::Table(cluster))) = (pools.is_empty(), self.table.get_mut("cluster")) {
            cluster.insert("pools".to_string(), Value::Array(pools));
        }
        Ok(())
    }

    /// The input of one pool as if it were a server's own: its tables over those of the scenario. Every value keeps its
    /// origin, so problems point into the pool's table. A flag holds for every pool.
    pub(in crate::config) fn of_pool(&self, index: usize) -> Document {
        let mut own = self.clone();
        // What they hold was found in the scenario.
        own.replaced.clear();
        own.remove("cluster.pools");
        for whole in ["events", "admission", "rate_limits", "retries"] {
            own.remove(&format!("cluster.{whole}"));
        }
        let root = pool_root(index);
        let Some(pool) = self.get(&root).and_then(Value::as_table) else {
            return own;
        };
        for (key, value) in pool {
            match (key.as_str(), value) {
                (table @ ("model" | "engine" | "sglang" | "trtllm"), Value::Table(values)) => {
                    for (key, value) in values {
                        let (from, to) = (format!("{root}.{table}.{key}"), format!("{table}.{key}"));
                        self.override_in(&mut own, (&from, &to), value);
                    }
                }
                ("name" | "role" | "min_prompt_tokens" | "max_prompt_tokens", _) => {}
                _ => {
                    let (from, to) = (format!("{root}.{key}"), format!("cluster.{key}"));
                    self.override_in(&mut own, (&from, &to), value);
                }
            }
        }
        own
    }
}

fn pool_root(index: usize) -> String {
    format!("cluster.pools.{index}")
}

/// Where a pool's table has a key of a server's input.
pub(in crate::config) fn pool_key(index: usize, key: &str) -> String {
    format!(
        "{}.{}",
        pool_root(index),
        key.strip_prefix("cluster.").unwrap_or(key)
    )
}
