//! `guidellm benchmark`.

use serde_json::Value;

use super::Means::{Flag, Idle, Refused};
use super::Takes::{Many, Nothing, One};
use super::{CLIENT, Means, Part, Row, SCREEN, Said, TOKENS, read};

#[rustfmt::skip]
const FLAGS: &[Row] = &[
    (&["model"], One, Flag("--model")),
    (&["profile", "rate-type"], One, Means::Part(Part::Pattern)),
    (&["rate"], One, Means::Part(Part::Rate)),
    (&["data"], One, Means::Part(Part::Data)),
    (&["max-seconds"], One, Means::Part(Part::Seconds)),
    (&["max-requests"], One, Flag("--num-prompts")),
    (&["random-seed"], One, Flag("--seed")),
    (&["target"], One, Idle(CLIENT)),
    (&["backend", "backend-type", "backend-kwargs", "backend-args", "request-type", "request-formatter-kwargs"], One, Idle(CLIENT)),
    (&["processor", "processor-args", "data-args", "data-samples", "data-column-mapper", "data-sampler", "data-num-workers", "dataloader-kwargs"], One, Idle(TOKENS)),
    (&["output-dir", "outputs", "output-path", "output-extras", "sample-requests", "output-sampling"], One, Idle(SCREEN)),
    (&["disable-console", "disable-console-outputs", "disable-console-interactive", "disable-progress", "display-scheduler-stats"], Nothing, Idle(SCREEN)),
    (&["warmup", "warmup-percent", "cooldown", "cooldown-percent"], One, Idle("warm-up and drain are cut by the run itself")),
    (&["max-errors", "max-error-rate", "max-global-error-rate", "over-saturation", "per-constraints"], One, Idle("no request fails, and overload is told")),
    (&["detect-saturation", "default-over-saturation"], Nothing, Idle("overload is told in any case")),
    (&["scenario", "c"], One, Refused("write what the scenario holds as flags: --profile, --rate, --data")),
    (&["rampup"], One, Refused("leave it out")),
    (&["header"], Many, Idle(CLIENT)),
];

const SEVERAL: &str = "a command here is one load: `plimsoll sweep -L request-rate 1,2,4` or `-L max-concurrency 1,2,4` runs several, and `plimsoll knee` \
                       searches for the highest";

pub(super) fn put(said: &mut Said, args: &[String]) {
    read(said, args, &[FLAGS]);
    put_load(said);
    if let Some(seconds) = said.number(Part::Seconds) {
        said.put("--duration", format!("{seconds}s"));
    }
    match said.part(Part::Data) {
        Some((flag, data)) => put_data(said, &flag, &data),
        None => said.wrong(
            "--data",
            "is not given",
            "write --data 'prompt_tokens=256,output_tokens=128'",
        ),
    }
}

/// When requests are sent.
fn put_load(said: &mut Said) {
    let (flag, profile) = said
        .part(Part::Pattern)
        .unwrap_or(("--profile".to_owned(), "sweep".to_owned()));
    let is_several = said.part(Part::Rate).is_some_and(|(_, rate)| rate.contains(','));
    if profile == "sweep" || is_several {
        let (flag, what) = match is_several {
            true => ("--rate".to_owned(), "has several rates"),
            false => (flag, "is sweep, which runs several loads"),
        };
        return said.wrong(&flag, what, SEVERAL);
    }
    let needs_rate = matches!(profile.as_str(), "constant" | "poisson" | "async" | "concurrent");
    let rate = match needs_rate {
        true => said.number(Part::Rate),
        false => None,
    };
    match (profile.as_str(), rate) {
        ("constant" | "async", Some(rate)) => {
            said.put("--request-rate", rate);
            said.put("--burstiness", "inf");
        }
        ("poisson", Some(rate)) => said.put("--request-rate", rate),
        ("concurrent", Some(clients)) => said.put("--max-concurrency", clients),
        ("synchronous", _) => said.put("--max-concurrency", 1),
        ("throughput", _) => said.put("--request-rate", "inf"),
        (_, None) if needs_rate => {
            if said.part(Part::Rate).is_none() {
                said.wrong(
                    "--rate",
                    "is not given",
                    "it says how many a second, or of concurrent how many at once",
                );
            }
        }
        _ => {
            let what = format!("is `{profile}`");
            said.wrong(
                &flag,
                &what,
                "synchronous, throughput, concurrent, constant and poisson are read",
            );
        }
    }
}

/// `prompt_tokens=256,output_tokens=128`, or the same as JSON.
fn put_data(said: &mut Said, flag: &str, data: &str) {
    let mut pairs: Vec<(String, String)> = match serde_json::from_str::<Value>(data) {
        Ok(Value::Object(keys)) => keys
            .into_iter()
            .map(|(key, value)| (key, value.to_string()))
            .collect(),
        _ => {
            let pairs = data.split(',').filter_map(|pair| pair.split_once('='));
            pairs
                .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
                .collect()
        }
    };
    let mut take = |key: &str| {
        let at = pairs.iter().position(|(name, _)| name == key)?;
        pairs.remove(at).1.parse::<f64>().ok()
    };
    let (prompt, answer) = (take("prompt_tokens"), take("output_tokens"));
    let stdev = ["prompt_tokens_stdev", "output_tokens_stdev"].map(|key| take(key).unwrap_or(0.0));
    // The bounds of a law without deviation are the mean.
    for key in [
        "prompt_tokens_min",
        "prompt_tokens_max",
        "output_tokens_min",
        "output_tokens_max",
        "samples",
        "source",
    ] {
        take(key);
    }
    let (Some(prompt), Some(answer)) = (prompt, answer) else {
        let what = "has not both lengths, or is a data set, of which the lengths are not known here";
        return said.wrong(flag, what, "write --data 'prompt_tokens=256,output_tokens=128'");
    };
    if !pairs.is_empty() {
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        let what = format!("has {}, which is not read", names.join(", "));
        return said.wrong(
            flag,
            &what,
            "prompt_tokens, output_tokens and their _stdev are; leave the rest out",
        );
    }
    said.put_lengths((Some(prompt), stdev[0]), (Some(answer), stdev[1]));
}
