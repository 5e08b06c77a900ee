//! Every setting of an input under its key path: what tells two results of this program apart.
//!
//! Left out: promises and what is reported, on which no figure depends. A file stands by its place from the root: what lies in
//! two folders under one name may be two files, and a run and the scenario that spells it out say the same.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// The tables on which no figure depends.
const WITHOUT_FIGURES: [&str; 6] = ["assumed", "ignored", "notes", "report", "slo", "sweep"];

/// The settings of a table whose files are named from the root.
pub(super) fn of(table: &Table) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (key, value) in table {
        if !WITHOUT_FIGURES.contains(&key.as_str()) {
            put(key, value, &mut found);
        }
    }
    found
}

fn put(key: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) if !table.is_empty() => {
            for (name, value) in table {
                put(&format!("{key}.{name}"), value, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            for (index, value) in items.iter().enumerate() {
                put(&format!("{key}.{index}"), value, found);
            }
        }
        Value::String(text) => drop(found.insert(key.to_owned(), text.clone())),
        other => drop(found.insert(key.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_under_their_paths_and_files_by_their_places() {
        let table: Table = toml::from_str(
            r#"
            assumed = ["workload.seed = 0 (the first seed)"]
            [engine]
            enforce_eager = true
            gpu_memory_utilization = 0.9
            [[cluster.pools]]
            name = "prefill"
            [[cluster.pools]]
            name = "decode"
            [workload.arrivals.all_at_once]
            [workload.lengths.file]
            path = "/data/of/mine/lengths.csv"
            [slo]
            attainment = 0.99
            "#,
        )
        .unwrap();
        let found: Vec<String> = of(&table)
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        let expected = [
            "cluster.pools.0.name = prefill",
            "cluster.pools.1.name = decode",
            "engine.enforce_eager = true",
            "engine.gpu_memory_utilization = 0.9",
            "workload.arrivals.all_at_once = {}",
            "workload.lengths.file.path = /data/of/mine/lengths.csv",
        ];
        assert_eq!(found, expected);
    }
}
