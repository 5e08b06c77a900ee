//! `--step-jitter cv=0.05,stall-rate=0.1,stall=20ms`, or `calibrated`: how steps scatter.

use super::judge::Judge;
use crate::cost::calibration::Calibration;
use crate::cost::jitter::JitterLaw;
use crate::quantity::parse_duration;
use crate::units::{PICOS_PER_SECOND, Picos};

/// The widest scatter that is taken for one of steps.
const CV_MAX: f64 = 2.0;
/// More pauses a second than this are no rare pauses.
const STALLS_MAX: f64 = 1000.0;

/// How steps are asked to scatter.
pub(super) enum Asked {
    /// By this law.
    Law(JitterLaw),
    /// By the law that the calibration was fitted with.
    Calibrated,
}

/// What `cluster.step_jitter` asks for; `None` where it is not given, or was reported.
pub(super) fn step_jitter(judge: &mut Judge, asked: Option<&String>) -> Option<Asked> {
    let text = asked?;
    judge.given(KEY, text);
    if text.trim() == "calibrated" {
        return Some(Asked::Calibrated);
    }
    match parse(text) {
        Ok(law) => Some(Asked::Law(law)),
        Err(problem) => {
            let help =
                "write it like cv=0.05,stall-rate=0.1,stall=20ms, what is left out is 0; or calibrated";
            judge.wrong_help(KEY, "is no law of step times", problem, help);
            None
        }
    }
}

const KEY: &str = "cluster.step_jitter";
/// A longer pause is an outage.
const STALL_MAX: Picos = Picos(3600 * PICOS_PER_SECOND);

fn stall(text: &str) -> Result<Picos, String> {
    let stall = parse_duration(text).map_err(|error| error.to_string())?;
    if stall > STALL_MAX {
        return Err(format!("`stall` must be at most 1 h, not `{text}`"));
    }
    Ok(stall)
}

impl Asked {
    /// The law of a pool, once its calibration is known; `None` where that has none, which is reported.
    pub(super) fn law(
        &self,
        judge: &mut Judge,
        calibration: &Calibration,
        engine: &str,
    ) -> Option<JitterLaw> {
        let law = match self {
            Asked::Law(law) => Some(*law),
            Asked::Calibrated => calibration.jitter.get(engine).copied(),
        };
        if law.is_none() {
            let problem = format!("the calibration {} has no law for {engine}", calibration.name);
            let help = "give a law, cv=0.05, or a calibration that `plimsoll calibrate` fitted to results with \
                        percentiles of ITL";
            judge.wrong_help(KEY, "is not calibrated", problem, help);
        }
        law
    }
}

fn parse(text: &str) -> Result<JitterLaw, String> {
    let mut law = JitterLaw {
        cv: 0.0,
        stalls_per_s: 0.0,
        stall: Picos::ZERO,
        stalls_in_mean: false,
    };
    let mut given: Vec<&str> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` is no NAME=VALUE"))?;
        let name = name.trim();
        if given.contains(&name) {
            return Err(format!("`{name}` is given twice"));
        }
        given.push(name);
        let number = |most: f64| match value.trim().parse::<f64>() {
            Ok(number) if (0.0..=most).contains(&number) => Ok(number),
            _ => Err(format!(
                "`{name}` must be a number from 0 to {most}, not `{value}`"
            )),
        };
        match name {
            "cv" => law.cv = number(CV_MAX)?,
            "stall-rate" => law.stalls_per_s = number(STALLS_MAX)?,
            "stall" => law.stall = stall(value.trim())?,
            other => return Err(format!("there is no `{other}`: cv, stall-rate and stall are")),
        }
    }
    if (law.stalls_per_s > 0.0) != (law.stall > Picos::ZERO) {
        return Err("stall-rate and stall say nothing without each other".to_owned());
    }
    Ok(law)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Experiment, simulate};
    use crate::config::{Document, NoFiles, resolve};
    use crate::metrics::{Records, Summary};

    #[test]
    fn a_law_is_read_in_any_order_and_what_is_left_out_is_zero() {
        let law = parse("stall = 20ms, cv = 0.05, stall-rate = 0.1").unwrap();
        assert_eq!((law.cv, law.stalls_per_s), (0.05, 0.1));
        assert_eq!(law.stall, Picos::from_seconds(0.02));
        assert_eq!(parse("cv=0.1").unwrap().stall, Picos::ZERO);
    }

    #[test]
    fn a_part_of_a_law_that_is_given_twice_is_an_error_whatever_its_values() {
        for twice in [
            "cv=0.1,cv=0.2",
            "cv=0.1, cv = 0.1",
            "stall=1ms,stall-rate=1,stall=1ms",
        ] {
            let told = parse(twice).unwrap_err();
            assert!(told.ends_with("is given twice"), "{twice}: {told}");
        }
    }

    #[test]
    fn a_jittery_server_has_the_same_traffic_and_mean_and_a_longer_tail() {
        let run = |law: &str| {
            let text = format!(
                "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n{law}\n\
                 [workload]\nnum_prompts = 400\n[workload.arrivals.poisson]\nrequest_rate = 4.0\n\
                 [workload.lengths.fixed]\ninput_len = 128\noutput_len = 128\n"
            );
            let resolved = resolve(Document::parse("test", &text).unwrap(), &NoFiles).unwrap();
            let experiment = Experiment::of_whole_run(Records::None);
            simulate(&resolved.scenario, &experiment, |_| true).result.whole
        };
        let (plain, none) = (run(""), run("step_jitter = \"cv=0\""));
        let law = "step_jitter = \"cv=0.1,stall-rate=0.5,stall=50ms\"";
        let (jittery, again) = (run(law), run(law));
        // Steps one by one are the same steps.
        assert_eq!(plain.tpot.mean_s(), none.tpot.mean_s());
        assert_eq!(jittery.e2el.quantile_s(0.99), again.e2el.quantile_s(0.99));
        assert_eq!(plain.sent, jittery.sent);
        let mean = |summary: &Summary| summary.tpot.mean_s().unwrap();
        // 0.5 stalls a second of 50 ms are 2.5 %.
        let ratio = mean(&jittery) / mean(&plain);
        assert!((1.0..1.06).contains(&ratio), "{ratio}");
        let tail = |summary: &Summary| summary.itl.quantile_s(0.999).unwrap();
        assert!(tail(&jittery) > 2.0 * tail(&plain));
    }

    #[test]
    fn what_is_no_law_is_said() {
        for (text, problem) in [
            ("0.05", "NAME=VALUE"),
            ("cv=-1", "from 0 to 2"),
            ("cv=NaN", "from 0 to 2"),
            ("cv=0.1,stalls=3", "there is no `stalls`"),
            ("stall=20ms", "without each other"),
            ("cv=0.1,stall-rate=1", "without each other"),
        ] {
            let told = parse(text).unwrap_err();
            assert!(told.contains(problem), "{text}: {told}");
        }
    }
}
