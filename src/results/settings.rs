//! The settings that a result was run with by its own word, and those in which two results differ.
//!
//! Plimsoll's own results hold every setting of their scenario under its key path, so what stands in one of them alone is set in
//! that one alone. Of a client's file only what somebody added as `--metadata` under a flag's name is known; what only one of two
//! says is no difference then.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::json::Fields;
use crate::model::{is_other_type, parse_kv_cache_dtype};

/// Flags of engines that move figures and that people add to a client's result.
const FLAGS: [&str; 17] = [
    "async_scheduling",
    "block_size",
    "cudagraph_mode",
    "disable_cuda_graph",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "mem_fraction_static",
    "num_speculative_tokens",
    "quantization",
    "scheduling_policy",
    "stream_interval",
];

/// What a result says of the settings of its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    known: BTreeMap<String, String>,
    /// The version of Plimsoll by which they are all that there are; `None` where they are some.
    all_by: Option<String>,
}

/// A setting in which two results differ; `None` in the one that has it not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSetting {
    /// `engine.enforce_eager`, or the flag's name alone.
    pub key: String,
    /// Its value in both.
    pub values: [Option<String>; 2],
}

impl OtherSetting {
    /// Whether both name a file of one name in two folders: it may be one file that was moved or copied.
    #[must_use]
    pub fn may_be_one_file(&self) -> bool {
        let [Some(one), Some(other)] = &self.values else {
            return false;
        };
        is_from_root(one) && is_from_root(other) && last_part(one) == last_part(other)
    }
}

impl Settings {
    /// Some settings by their flags' names.
    #[must_use]
    pub fn some(known: BTreeMap<String, String>) -> Settings {
        Settings { known, all_by: None }
    }

    /// All settings of a simulation by their key paths.
    #[must_use]
    pub fn all(known: BTreeMap<String, String>, version: &str) -> Settings {
        Settings {
            known,
            all_by: Some(version.to_owned()),
        }
    }

    /// Whether nothing but these decides what both results are: simulations by one version of this program.
    #[must_use]
    pub fn decide_both(&self, other: &Settings) -> bool {
        self.all_by.is_some() && self.all_by == other.all_by
    }

    /// Those in which the two differ, in the order of their keys.
    #[must_use]
    pub fn unlike(&self, other: &Settings) -> Vec<OtherSetting> {
        let is_unset_told = self.decide_both(other);
        let differs = |key: String| {
            let values = [self, other].map(|one| one.value(&key).map(str::to_owned));
            let is_other = match &values {
                [Some(one), Some(other)] if name(&key) == "kv_cache_dtype" => {
                    is_other_type(one, other) || is_unset_told && is_own_choice(one) != is_own_choice(other)
                }
                [Some(one), Some(other)] => !is_same(one, other),
                [None, None] => false,
                _ => is_unset_told,
            };
            is_other.then_some(OtherSetting { key, values })
        };
        self.keys_beside(other).into_iter().filter_map(differs).collect()
    }

    /// The keys to look for in both: where one of them knows names alone, names.
    fn keys_beside(&self, other: &Settings) -> BTreeSet<String> {
        let by_path = self.all_by.is_some() && other.all_by.is_some();
        let keys = self.known.keys().chain(other.known.keys());
        keys.map(|key| if by_path { key } else { name(key) }.to_owned())
            .collect()
    }

    /// The value under a key, or under a name that has one value on all paths.
    fn value(&self, key: &str) -> Option<&str> {
        if let Some(value) = self.known.get(key) {
            return Some(value);
        }
        let is_of_name = |(path, _): &(&String, &String)| !key.contains('.') && name(path) == key;
        let mut values = self.known.iter().filter(is_of_name).map(|(_, value)| value);
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)
    }
}

/// The settings that somebody added to a client's result.
pub(super) fn of_client(fields: &Fields<'_>) -> Settings {
    let told = |name: &&str| Some(((*name).to_owned(), plain(fields.value(name)?)?));
    Settings::some(FLAGS.iter().filter_map(told).collect())
}

/// The settings that Plimsoll writes; `None` where an earlier version wrote none.
pub(super) fn of_own(judged: &Fields<'_>) -> Option<Settings> {
    let told = judged.object("settings")?.own().iter();
    let known = told.filter_map(|(key, value)| Some((key.clone(), plain(value)?)));
    Some(Settings::all(known.collect(), &judged.text("version")?))
}

/// The last part of a key path.
fn name(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// A simple value as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// `0.90` is `0.9`, and `True` is `true`; of files whose folders are known names are not enough.
fn is_same(one: &str, other: &str) -> bool {
    let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
    let is_same_text = match is_from_root(one) && is_from_root(other) {
        true => one == other,
        false => one.eq_ignore_ascii_case(other) || is_file_of(one, other) || is_file_of(other, one),
    };
    is_same_text || numbers.is_some_and(|(one, other)| one == other)
}

/// Whether a type is left to the model; between simulations of one version that is another setting than a named one.
fn is_own_choice(word: &str) -> bool {
    parse_kv_cache_dtype(word) == Ok(None)
}

/// Whether a text names a file by its place from the root, in Unix or in Windows.
fn is_from_root(text: &str) -> bool {
    let has_drive = text
        .get(1..3)
        .is_some_and(|start| start == ":\\" || start == ":/");
    text.starts_with('/') || has_drive
}

/// Whether a path ends in a file's name, which is all that older results say.
fn is_file_of(path: &str, name: &str) -> bool {
    is_from_root(path) && !is_from_root(name) && last_part(path) == name
}

fn last_part(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter().map(|&(key, value)| (key.into(), value.into()));
        pairs.collect()
    }

    fn check(one: &Settings, other: &Settings, expected: &[&str]) {
        let said = |value: &Option<String>| value.clone().unwrap_or("–".into());
        let found: Vec<String> = (one.unlike(other).iter())
            .map(|set| format!("{} {} {}", set.key, said(&set.values[0]), said(&set.values[1])))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_one_simulation_has_set_alone_is_a_difference() {
        let graphs = table(&[("engine.cudagraph_mode", "full"), ("engine.max_num_seqs", "8")]);
        let eager = table(&[("engine.enforce_eager", "true"), ("engine.max_num_seqs", "8.0")]);
        let (one, other) = (
            Settings::all(graphs.clone(), "0.1.0"),
            Settings::all(eager.clone(), "0.1.0"),
        );
        assert!(one.decide_both(&other));
        check(
            &one,
            &other,
            &["engine.cudagraph_mode full –", "engine.enforce_eager – true"],
        );
        // Another version may have another default, and have no name for it.
        let older = Settings::all(eager, "0.0.9");
        assert!(!one.decide_both(&older));
        check(&one, &older, &[]);
        check(&one, &Settings::default(), &[]);
    }

    #[test]
    fn a_flag_that_somebody_added_is_held_against_its_path() {
        let own = table(&[
            ("cluster.pools.0.engine.max_num_seqs", "8"),
            ("cluster.pools.1.engine.max_num_seqs", "16"),
            ("engine.enforce_eager", "true"),
            ("engine.gpu_memory_utilization", "0.9"),
        ]);
        let own = Settings::all(own, "0.1.0");
        let client = [
            ("enforce_eager", "False"),
            ("gpu_memory_utilization", "0.90"),
            ("max_num_seqs", "8"),
        ];
        let client = Settings::some(table(&client));
        check(&own, &client, &["enforce_eager true False"]);
        check(&client, &own, &["enforce_eager False true"]);
    }

    #[test]
    fn formats_of_a_cache_are_read_and_not_spelt() {
        let of = |word: &str| table(&[("kv_cache_dtype", word)]);
        for (one, other, is_told) in [
            ("fp8", "fp8_e4m3", false),
            ("bf16", "bfloat16", false),
            ("torch.float8_e4m3fn", "FP8", false),
            ("fp8", "bfloat16", true),
            ("fp8", "int8", true),
        ] {
            let expected = format!("kv_cache_dtype {one} {other}");
            let expected = [expected.as_str()];
            let expected = if is_told { &expected[..] } else { &[] };
            check(&Settings::some(of(one)), &Settings::some(of(other)), expected);
            check(
                &Settings::all(of(one), "1"),
                &Settings::all(of(other), "1"),
                expected,
            );
        }
        // What a server makes of `auto` its checkpoint says. One simulation that names a type is another than one that does not.
        check(&Settings::some(of("auto")), &Settings::some(of("fp8")), &[]);
        check(
            &Settings::all(of("auto"), "1"),
            &Settings::all(of("fp8"), "1"),
            &["kv_cache_dtype auto fp8"],
        );
    }

    #[test]
    fn files_of_one_name_in_two_folders_are_two() {
        let of = |path: &str| Settings::all(table(&[("workload.lengths.file.path", path)]), "1");
        let differ = |one: &str, other: &str| {
            let found = of(one).unlike(&of(other));
            found.first().map(OtherSetting::may_be_one_file)
        };
        assert_eq!(differ("/a/it.csv", "/a/it.csv"), None);
        assert_eq!(differ("/a/it.csv", "/b/it.csv"), Some(true));
        assert_eq!(differ("C:\\a\\it.csv", "C:\\b\\it.csv"), Some(true));
        assert_eq!(differ("/a/it.csv", "/A/it.csv"), Some(true));
        assert_eq!(differ("/a/it.csv", "/a/other.csv"), Some(false));
        // Results that were written without folders say no more than a name.
        assert_eq!(differ("it.csv", "/a/it.csv"), None);
        assert_eq!(differ("/a/it.csv", "other.csv"), Some(false));
    }

    #[test]
    fn settings_are_read_from_metadata_and_from_one_s_own_scenario() {
        let of = |told: &str| {
            let text = format!(
                r#"{{"backend": "vllm", "request_rate": 8.0, "duration": 10.0, "completed": 100, "total_input_tokens": 1000,
                    "total_output_tokens": 1000, "request_throughput": 10.0, "output_throughput": 100.0, {told}}}"#
            );
            let mut rows = crate::results::read(text.as_bytes(), "told.json").unwrap().rows;
            rows.remove(0).setup.settings
        };
        let table = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let flag = of(r#""enforce_eager": "True", "run_id": "17""#);
        assert_eq!(flag, Settings::some(table("enforce_eager", "True")));
        let own = of(r#""plimsoll": {"version": "0.1.0", "settings": {"engine.max_num_seqs": "8"}}"#);
        assert_eq!(own, Settings::all(table("engine.max_num_seqs", "8"), "0.1.0"));
        // An earlier version wrote none, and others may have a key of that name.
        assert_eq!(of(r#""plimsoll": {"version": "0.1.0"}"#), Settings::default());
        assert_eq!(
            of(r#""block_size": [16], "max_num_seqs": null"#),
            Settings::default()
        );
    }
}
