//! The settings in which two runs differ by their files' own word, in words.
//!
//! Left out: what is told of machines, models, engines and loads under names of their own, and what makes another run of the
//! same system. Law: two simulations by one version are what their settings make them, so a difference there explains all.

use crate::results::{OtherSetting, Settings, Setup};

/// Settings that make another run of the same, longer or by other chance. How many requests come at once is part of a load
/// ([`super::said::other_burst`]).
const SAME_SYSTEM: [&str; 4] = [
    "workload.duration",
    "workload.num_prompts",
    "workload.precision",
    SEED,
];
const SEED: &str = "workload.seed";
/// Settings for which a [`Setup`] has a name of its own.
const NAMED: [&str; 8] = [
    "cluster.data_parallel_size",
    "cluster.gpu",
    "cluster.pipeline_parallel_size",
    "cluster.replicas",
    "cluster.router",
    "cluster.tensor_parallel_size",
    "engine.profile",
    "model.name",
];
/// Part of how requests are sent, where that is told.
pub(super) const MAX_CONCURRENCY: &str = "workload.client.max_concurrency";
/// More of them are counted and not named.
const SHOWN: usize = 6;
/// Characters of a value that are shown.
const VALUE_SHOWN: usize = 40;

/// Whether both are simulations by one version whose settings differ: nothing else can be the cause of any move. A file in
/// another folder may be the same.
pub(super) fn decide_all(a: &Setup, b: &Setup) -> bool {
    let is_sure = |other: &OtherSetting| !other.may_be_one_file();
    a.settings.decide_both(&b.settings) && unlike(&a.settings, &b.settings).iter().any(is_sure)
}

/// Whether both are simulations by one version of the same settings, with another seed or none.
pub(super) fn differ_in_seed_alone(a: &Setup, b: &Setup) -> bool {
    let is_seed = |other: &OtherSetting| other.key == SEED;
    a.settings.decide_both(&b.settings) && a.settings.unlike(&b.settings).iter().all(is_seed)
}

/// What is told of a difference under a name of its own, of which settings need not tell again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// How requests were sent.
    pub(super) load: bool,
    /// Their lengths.
    pub(super) lengths: bool,
    /// The card, which has a calibration of its own.
    pub(super) gpu: bool,
    /// What the weights are stored in.
    pub(super) precision: bool,
}

impl Told {
    fn has(self, key: &str) -> bool {
        self.load && (key.starts_with("workload.arrivals") || key == MAX_CONCURRENCY)
            || self.lengths && key.starts_with("workload.lengths")
            || self.gpu && key == "cluster.calibration"
            || self.precision && key == "model.quantization"
            || NAMED.contains(&key)
    }
}

/// What differs, beyond what is told already.
pub(super) fn differences(a: &Setup, b: &Setup, told: Told) -> Vec<String> {
    // Another engine has other settings, and so have pools beside one server: only what both have is a difference then.
    let is_of_one_kind = a.engine == b.engine && a.pools == b.pools;
    let is_new = |other: &OtherSetting| {
        !told.has(&other.key) && (is_of_one_kind || other.values.iter().all(Option::is_some))
    };
    let mut found = unlike(&a.settings, &b.settings);
    found.retain(is_new);
    let rest = found.len().saturating_sub(SHOWN);
    let more = (rest > 0).then(|| format!("{rest} more settings"));
    found.iter().take(SHOWN).map(words).chain(more).collect()
}

/// The settings in which two systems differ.
fn unlike(one: &Settings, other: &Settings) -> Vec<OtherSetting> {
    let mut found = one.unlike(other);
    found.retain(|setting| !SAME_SYSTEM.contains(&setting.key.as_str()));
    found
}

fn words(other: &OtherSetting) -> String {
    let name = ["cluster.", "engine."]
        .iter()
        .find_map(|table| other.key.strip_prefix(table))
        .unwrap_or(&other.key);
    match &other.values {
        [Some(one), Some(two)] if other.may_be_one_file() => {
            format!("{name} {one} against {two}, which may be one file")
        }
        [Some(one), Some(other)] => format!("{name} {} against {}", short(one), short(other)),
        [Some(one), None] => format!("{name} = {} in the first alone", short(one)),
        [None, Some(other)] => format!("{name} = {} in the second alone", short(other)),
        [None, None] => name.to_owned(),
    }
}

/// As much of a value as a line bears.
fn short(value: &str) -> String {
    match value.char_indices().nth(VALUE_SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::super::tests::{moved, run};
    use super::*;
    use crate::results::Measured;

    /// A simulation with settings of its own, whose steps and first tokens take so many times as long.
    fn simulated(settings: &[(&str, &str)], factor: f64) -> Measured {
        let mut row = run();
        let shared = [("engine.profile", "vllm@0.33"), ("workload.seed", "0")];
        let all = shared.iter().chain(settings);
        let all = all.map(|&(key, value)| (key.to_owned(), value.to_owned()));
        row.setup.settings = Settings::all(all.collect(), "0.1.0");
        for stats in [&mut row.ttft, &mut row.tpot, &mut row.itl, &mut row.e2el] {
            moved(stats, |time| time * factor);
        }
        row
    }

    fn kinds(one: &Measured, other: &Measured) -> Vec<&'static str> {
        let causes = compare(one, other).causes;
        causes.iter().map(|cause| cause.kind).collect()
    }

    #[test]
    fn a_setting_that_differs_is_the_cause_and_nothing_is_guessed() {
        let graphs = simulated(&[("engine.cudagraph_mode", "full_and_piecewise")], 1.0);
        let eager = simulated(&[("engine.enforce_eager", "true")], 1.5);
        let compared = compare(&graphs, &eager);
        let words: Vec<&str> = compared.causes.iter().map(|cause| cause.words.as_str()).collect();
        assert_eq!(
            words,
            [
                "not the same run, as the files themselves say: cudagraph_mode = full_and_piecewise in the first alone; \
              enforce_eager = true in the second alone"
            ]
        );
        assert_eq!(compared.unlike, Vec::<String>::new());
        // Nothing moved, and they were not run alike all the same.
        let same = compare(&graphs, &simulated(&[("engine.enforce_eager", "true")], 1.0));
        assert_eq!((same.causes.len(), same.unlike.len()), (0, 2));
    }

    #[test]
    fn what_another_seed_or_version_moves_has_its_pattern() {
        let one = simulated(&[("engine.max_num_seqs", "8")], 1.0);
        let mut other = simulated(
            &[("engine.max_num_seqs", "8"), ("workload.num_prompts", "9")],
            1.5,
        );
        assert_eq!(kinds(&one, &other)[0], "bandwidth");
        let settings = [("engine.max_num_seqs".to_owned(), "16".to_owned())];
        other.setup.settings = Settings::all(settings.into(), "0.2.0");
        assert_eq!(kinds(&one, &other)[..2], ["setup", "bandwidth"]);
    }

    /// What a limit in flight, a card and a storage format are told by is not told again by the settings that make them.
    #[test]
    fn one_difference_is_told_once() {
        let of = |clients: u64, gpu: &str, calibration: &str, stored: &str| {
            let number = clients.to_string();
            let settings = [
                ("workload.client.max_concurrency", number.as_str()),
                ("cluster.calibration", calibration),
                ("model.quantization", stored),
            ];
            let mut row = simulated(&settings, clients as f64);
            row.setup.load = crate::results::Load::Closed { clients };
            row.setup.max_concurrency = Some(clients);
            (row.setup.gpu, row.setup.precision) = (Some(gpu.to_owned()), Some(stored.to_owned()));
            (row.setup.n_gpus, row.setup.tensor_parallel) = (Some(clients as u32), Some(clients as u32));
            row
        };
        let one = of(1, "H100-SXM-80GB", "h100", "bfloat16");
        let compared = compare(&one, &of(2, "H200-SXM-141GB", "h200", "fp8"));
        let words: Vec<&str> = compared.causes.iter().map(|cause| cause.words.as_str()).collect();
        assert_eq!(
            words,
            [
                "not the same run, as the files themselves say: GPU H100-SXM-80GB against H200-SXM-141GB; \
                 1 against 2 tensor-parallel ranks; precision bfloat16 against fp8",
                "not the same load: 1 in flight against 2 in flight"
            ]
        );
        let compared = compare(&one, &of(2, "H100-SXM-80GB", "h100", "bfloat16"));
        assert_eq!(compared.unlike, Vec::<String>::new());
        let mut open = one.clone();
        open.setup.load = crate::results::Load::Open { rate: 5.0 };
        let mut other = open.clone();
        other.setup.max_concurrency = Some(8);
        let settings = [(MAX_CONCURRENCY.to_owned(), "8".to_owned())];
        other.setup.settings = Settings::all(settings.into(), "0.1.0");
        let unlike = compare(&open, &other).unlike;
        let of_limit = unlike.iter().filter(|what| what.contains("8"));
        assert_eq!(of_limit.count(), 1, "{unlike:?}");
    }

    #[test]
    fn a_file_in_another_folder_is_said_and_decides_nothing() {
        let key = "workload.arrivals.trace.path";
        let of = |path: &str, factor: f64| simulated(&[(key, path)], factor);
        let causes = compare(&of("/a/it.csv", 1.0), &of("/b/it.csv", 1.5)).causes;
        assert_eq!(causes.len(), 3, "{causes:?}");
        assert!(
            causes[0]
                .words
                .ends_with("workload.arrivals.trace.path /a/it.csv against /b/it.csv, which may be one file"),
            "{causes:?}"
        );
        assert_eq!(causes[1].kind, "bandwidth");
        let told = kinds(&of("/a/it.csv", 1.0), &of("/a/other.csv", 1.5));
        assert_eq!(told, ["setup"]);
    }

    #[test]
    fn how_many_come_at_once_is_the_load_and_how_many_are_sent_at_a_rate_is_not() {
        let of = |requests: u64, is_burst: bool, factor: f64| {
            let number = requests.to_string();
            let mut row = simulated(&[("workload.num_prompts", &number)], factor);
            row.setup.num_prompts = Some(requests);
            if is_burst {
                row.setup.load = crate::results::Load::Burst;
            }
            row
        };
        let causes = compare(&of(500, true, 1.0), &of(1000, true, 1.5)).causes;
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert_eq!(
            causes[0].words,
            "not the same load: 500 against 1000 requests at once"
        );
        let same = compare(&of(500, true, 1.0), &of(1000, true, 1.0));
        assert_eq!(same.unlike, ["load: 500 against 1000 requests at once"]);
        assert_eq!(kinds(&of(500, false, 1.0), &of(1000, false, 1.5))[0], "bandwidth");
    }

    #[test]
    fn a_flag_beside_a_measurement_is_said_before_any_pattern() {
        let one = simulated(&[("engine.enforce_eager", "true")], 1.0);
        let mut other = run();
        moved(&mut other.itl, |gap| gap * 0.5);
        moved(&mut other.tpot, |step| step * 0.5);
        moved(&mut other.e2el, |whole| whole * 0.52);
        let flag = [("enforce_eager".to_owned(), "False".to_owned())];
        other.setup.settings = Settings::some(flag.into());
        let causes = compare(&one, &other).causes;
        assert!(
            causes[0].words.ends_with("enforce_eager true against False"),
            "{causes:?}"
        );
        assert_eq!(causes[1].kind, "bandwidth");
    }

    #[test]
    fn another_engine_has_other_settings_and_many_are_counted() {
        let of = |engine: &str, first: &str, numbers: std::ops::Range<usize>| {
            let keys: Vec<String> = numbers.map(|at| format!("{engine}.key{at}")).collect();
            let mut settings: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), first)).collect();
            settings.push(("cluster.step_jitter", first));
            let mut row = simulated(&settings, 1.0);
            row.setup.engine = Some(engine.to_owned());
            row
        };
        let told = |one: Measured, other: Measured| differences(&one.setup, &other.setup, Told::default());
        let (one, other) = (of("engine", "1", 0..8), of("sglang", "2", 0..8));
        assert_eq!(told(one.clone(), other), ["step_jitter 1 against 2"]);
        let many = told(one, of("engine", "2", 0..8));
        assert_eq!((many.len(), many[6].as_str()), (7, "3 more settings"));
    }
}
