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

pub(super) fn put(said: &mut Said, args: &[String]) {
    read(said, args, &[FLAGS]);
    put_load(said, args);
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

/// How several loads are asked for: the same command with one of them, which is varied or searched over. GuideLLM sweeps rates of
/// constant gaps unless something else is said.
fn several(args: &[String], (flag, profile): (&str, &str), rates: Option<&str>) -> String {
    let profile = if profile == "sweep" { "constant" } else { profile };
    let (axis, rates) = match profile {
        "concurrent" => ("max-concurrency", rates.unwrap_or("1,2,4")),
        _ => ("request-rate", rates.unwrap_or("1,2,4")),
    };
    let of_load = ["--profile", "--rate-type", "--rate"];
    let mut words = vec!["guidellm", "benchmark"];
    let mut skips = false;
    for word in args {
        let name = word.split('=').next().unwrap_or(word).replace('_', "-");
        if skips {
            skips = false;
        } else if of_load.contains(&name.as_str()) {
            skips = !word.contains('=');
        } else {
            words.push(word);
        }
    }
    let first = rates.split(',').next().unwrap_or_default();
    words.extend([flag, profile, "--rate", first]);
    let quoted = shlex::try_join(words).and_then(|command| Ok(shlex::try_quote(&command)?.into_owned()));
    // What no shell takes was typed in none.
    let command = quoted.unwrap_or_default();
    format!(
        "a command here is one load: `plimsoll sweep` with `--bench-cmd {command} -L {axis} {rates}` runs several, and `plimsoll knee` with \
         `--bench-cmd {command}` finds the most within the SLO"
    )
}

/// When requests are sent.
fn put_load(said: &mut Said, args: &[String]) {
    let (flag, profile) = said
        .part(Part::Pattern)
        .unwrap_or(("--profile".to_owned(), "sweep".to_owned()));
    let rates = said.part(Part::Rate).map(|(_, rates)| rates);
    let rates = rates.filter(|rates| rates.contains(','));
    if profile == "sweep" || rates.is_some() {
        let help = several(args, (&flag, &profile), rates.as_deref());
        let (flag, what) = match rates {
            Some(_) => ("--rate".to_owned(), "has several rates"),
            None => (flag, "is sweep, which runs several loads"),
        };
        return said.wrong(&flag, what, &help);
    }
    let needs_rate = matches!(profile.as_str(), "constant" | "poisson" | "async" | "concurrent");
    let rate = match needs_rate {
        true => said.number(Part::Rate),
        false => None,
    };
    if let Some((flag, _)) = said.part(Part::Rate).filter(|_| !needs_rate) {
        said.idle(&flag, &format!("{profile} has none"));
    }
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

/// A length and how it scatters.
#[derive(Clone, Copy, Default)]
struct Length {
    mean: Option<f64>,
    stdev: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

impl Length {
    /// Mean and deviation: without one given, of an even law between the bounds (`IntegerRangeSampler`).
    fn moments(self) -> (Option<f64>, f64) {
        match (self.mean, self.stdev) {
            (Some(mean), None) => {
                let (low, high) = (self.min.unwrap_or(mean), self.max.unwrap_or(mean));
                (Some((low + high) / 2.0), (high - low).max(0.0) / 12f64.sqrt())
            }
            (mean, stdev) => (mean, stdev.unwrap_or(0.0)),
        }
    }
}

/// `prompt_tokens=256,output_tokens=128`, or the same as JSON.
fn put_data(said: &mut Said, flag: &str, data: &str) {
    let pairs: Vec<(String, String)> = match serde_json::from_str::<Value>(data) {
        Ok(Value::Object(keys)) => keys
            .into_iter()
            .map(|(key, value)| (key, value.to_string()))
            .collect(),
        _ => {
            let split = |pair: &str| {
                pair.split_once('=')
                    .map_or((pair.to_owned(), String::new()), of_pair)
            };
            data.split(',').map(split).collect()
        }
    };
    let mut lengths = [Length::default(); 2];
    for (key, value) in &pairs {
        let part = match key.as_str() {
            "prompt_tokens" => &mut lengths[0].mean,
            "prompt_tokens_stdev" => &mut lengths[0].stdev,
            "prompt_tokens_min" => &mut lengths[0].min,
            "prompt_tokens_max" => &mut lengths[0].max,
            "output_tokens" => &mut lengths[1].mean,
            "output_tokens_stdev" => &mut lengths[1].stdev,
            "output_tokens_min" => &mut lengths[1].min,
            "output_tokens_max" => &mut lengths[1].max,
            "samples" | "source" => {
                said.idle(&format!("{flag} {key}"), "prompts are all different here");
                continue;
            }
            _ => {
                let what = format!("has `{key}`, which is not read");
                return said.wrong(
                    flag,
                    &what,
                    "write --data 'prompt_tokens=256,output_tokens=128'; their _stdev, _min and _max are read, too, and lengths of a data set \
                     are not known here",
                );
            }
        };
        *part = value
            .parse()
            .ok()
            .filter(|tokens: &f64| tokens.is_finite() && *tokens >= 0.0);
        if part.is_none() {
            return said.wrong(
                flag,
                &format!("has {key} = `{value}`"),
                "write a number, 0 or more",
            );
        }
    }
    if lengths.iter().any(|length| length.mean.is_none()) {
        return said.wrong(
            flag,
            "has not both lengths",
            "write --data 'prompt_tokens=256,output_tokens=128'",
        );
    }
    if lengths
        .iter()
        .any(|length| length.stdev.is_some() && (length.min.is_some() || length.max.is_some()))
    {
        said.idle(
            &format!("{flag} _min and _max"),
            "lengths with a deviation are not cut here",
        );
    }
    let [prompt, answer] = lengths.map(Length::moments);
    said.put_lengths(prompt, answer);
}

fn of_pair((key, value): (&str, &str)) -> (String, String) {
    (key.trim().to_owned(), value.trim().to_owned())
}
