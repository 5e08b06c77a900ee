//! What makes a fit doubtful: kernels that no parameters explain, or that are impossible, and runs that no host explains.
//!
//! Kernels in another unit or of another GPU push a block's efficiencies to the ends of their ranges, and are still far off,
//! or faster than the datasheet allows.
//!
//! Runs move only the host's terms. If the GPU, the model or a flag is not the one that was stated, these terms run to the ends
//! of their ranges and the runs are still not met; such a fit must not look like a measured one. A run that is far off while
//! others are met is left out of the fit, and so is one that stands alone against the others; the fit is doubted all the same.

use super::Calibrated;
use super::ceiling::least_seconds;
use super::component::{BlockFit, errors};
use super::host::{HostFit, StandsAlone};
use super::observation::Observation;
use crate::cost::calibration::RunEvidence;
use crate::hardware::Device;
use crate::quantity::significant;
use crate::stats::quantile;

/// Factor between a run and its fit, either way, above which it is not of the server that was described.
const MISFIT: f64 = 1.25;
/// The same of all figures in the median, above which no host explains them: three times what runs repeat within.
const OFF: f64 = 1.1;
/// Median error of fitted kernels above which they are not of the GPU that was said, in percent.
const MISFIT_PCT: f64 = 25.0;
/// Width of an interval, relative to its middle, below which a parameter stands at the end of what is possible.
const STUCK: f64 = 1e-3;

/// Share of a block's rows that may be faster than the GPU allows: a few may be slips of the table.
const IMPOSSIBLE_SHARE: f64 = 0.1;
/// Shares of the peak and of the memory's bandwidth. Their ranges reach beyond 1, since clocks and caches may beat the datasheet a little.
const EFFICIENCIES: [&str; 3] = ["ec", "eb", "decode_eb"];
/// How near such an efficiency is to the end of what is sought when it stands there.
const AT_END: f64 = 0.98;
/// How near to a power of a thousand a ratio of times is that means another unit.
const UNIT_FACTOR: f64 = 4.0;

/// Doubts about a fit, in words: those of kernels, then those of runs, the gravest first.
#[must_use]
pub fn doubts(fitted: &Calibrated) -> Vec<String> {
    let of_blocks = fitted.blocks.iter().filter_map(|block| block.doubt.clone());
    of_blocks
        .chain(fitted.host.iter().flat_map(doubts_of_host))
        .collect()
}

/// Why a block's rows cannot be this GPU's, if they cannot.
#[must_use]
pub fn doubt_of_block(block: &BlockFit, rows: &[&Observation], device: &Device) -> Option<String> {
    let is_impossible = |row: &&&Observation| row.seconds < least_seconds(device, row.block, &row.kernel);
    let impossible = rows.iter().filter(is_impossible).count();
    let median = block.evidence.residual_median_pct;
    let mut reasons = Vec::new();
    if impossible as f64 > IMPOSSIBLE_SHARE * rows.len() as f64 {
        reasons.push(format!(
            "{impossible} of {} rows are faster than the GPU's peak allows",
            rows.len()
        ));
    }
    if median > MISFIT_PCT {
        reasons.push(format!("rows are {median:.0} % off in the median after the fit"));
    }
    let parameters = block.form.parameters.iter().zip(&block.values);
    reasons.extend(
        parameters
            .filter(|(parameter, value)| {
                EFFICIENCIES.contains(&parameter.name) && **value > AT_END * parameter.high
            })
            .map(|(parameter, value)| {
                format!("{} = {value} stands at the end of what is sought", parameter.name)
            }),
    );
    if reasons.is_empty() {
        return None;
    }
    let question = match unit(block, rows) {
        Some(unit) => format!("their times are as if they were {unit} and not µs"),
        None => "are they of this GPU, and in µs?".to_owned(),
    };
    Some(format!(
        "{}: {}; {question}; the block is marked prior and holds what is believed without these rows",
        block.block,
        reasons.join(", ")
    ))
}

/// The unit in which times would be as expected, if they are off by about a power of a thousand.
fn unit(block: &BlockFit, rows: &[&Observation]) -> Option<&'static str> {
    let expected: Vec<f64> = block
        .form
        .parameters
        .iter()
        .map(|parameter| parameter.prior)
        .collect();
    let ratio = quantile(&errors(&block.form, rows, &expected), 0.5)?;
    unit_of(ratio, &[(1e3, "ms"), (1e6, "s"), (1e-3, "ns")])
}

/// The unit whose factor to the right one is about that of what was expected, of the logarithm, to what was measured.
fn unit_of(ratio: f64, units: &[(f64, &'static str)]) -> Option<&'static str> {
    let found = units
        .iter()
        .find(|(factor, _)| (ratio - factor.ln()).abs() < UNIT_FACTOR.ln());
    found.map(|(_, unit)| *unit)
}

/// The unit in which the times of runs would be as the fit has them, if they are off by about a thousand; `in_seconds` is the field that
/// they are of, where that is no time in milliseconds.
fn unit_of_runs(runs: &[RunEvidence], in_seconds: Option<&str>) -> Option<String> {
    let times = runs.iter().filter(|run| run.figure.ends_with("_ms"));
    let ratios: Vec<f64> = times.map(|run| (run.predicted / run.measured).ln()).collect();
    let ratio = quantile(&ratios, 0.5)?;
    Some(match in_seconds {
        None => {
            let unit = unit_of(ratio, &[(1e3, "s"), (1e-3, "µs")])?;
            format!("their times are as if they were {unit} and not ms")
        }
        Some(field) => {
            let unit = unit_of(ratio, &[(1e-3, "ms"), (1e-6, "µs")])?;
            format!("`{field}` is read in s, and theirs are as if they were {unit}")
        }
    })
}

/// Why a host may not be that of the runs, the gravest reason first.
pub(super) fn doubts_of_host(host: &HostFit) -> Vec<String> {
    let factors: Vec<f64> = host.runs.iter().map(factor).collect();
    let median = quantile(&factors, 0.5).unwrap_or(1.0);
    let mut doubts: Vec<String> = doubt_of_runs(host, median).into_iter().collect();
    doubts.extend(doubt_of_card(host));
    if doubts.is_empty() && median > OFF && !host.is_unmoved {
        doubts.push(format!(
            "the runs are {:.0} % off in the median after the fit, and runs repeat within 3 %: no host explains them; is it this GPU, this \
             model, these flags, this engine?",
            100.0 * (median - 1.0)
        ));
    }
    if let Some(share) = host.over_bandwidth {
        doubts.push(format!(
            "with the factor that was found products read weights at {share:.2} of the card's bandwidth, which nothing does: is it this GPU, \
             this model, these flags?"
        ));
    }
    if host.is_unmoved && doubts.is_empty() {
        doubts.push(format!(
            "no term could be moved from what was believed, and the runs are a factor of {} off in the median with it: they decide \
             nothing; is it this GPU, this model, these flags, this engine?",
            significant(median)
        ));
    }
    doubts.extend(stuck(host).into_iter().map(|name| {
        format!(
            "{name} stands at the end of what is possible: something else than the host makes these runs slow or fast"
        )
    }));
    doubts
}

/// That runs are not met: most of them, one that stands alone, or a few.
fn doubt_of_runs(host: &HostFit, median: f64) -> Option<String> {
    if median > MISFIT && 2 * host.met.len() < host.given {
        let unit = unit_of_runs(&host.runs, host.in_seconds);
        return Some(format!(
            "no host explains these runs: they are a factor of {} off in the median after the fit; {}",
            significant(median),
            unit.unwrap_or_else(|| "is it this GPU, this model, these flags, this engine?".to_owned())
        ));
    }
    let worst = &host.runs[*furthest(&host.unexplained, &host.runs)?];
    if let Some(alone) = left_out(host) {
        return Some(against_the_others(alone, worst));
    }
    let count = host.unexplained.len();
    Some(format!(
        "{count} of {} runs {} off by more than a factor of {MISFIT} after the fit{}: {} measured {} {}, and the fit \
         has {}; is it this GPU, this model, these flags, this engine, and is the file whole?",
        host.given,
        if count == 1 { "is" } else { "are" },
        if host.is_of_fewer {
            " and left out of it"
        } else {
            ""
        },
        worst.run,
        worst.figure,
        significant(worst.measured),
        significant(worst.predicted)
    ))
}

/// The load that was left out for all others, if one was.
fn left_out(host: &HostFit) -> Option<&StandsAlone> {
    host.stands_alone.as_ref().filter(|alone| alone.is_left_out)
}

/// The run is that of the figure: of a load that was measured several times any may be the worst.
fn against_the_others(alone: &StandsAlone, worst: &RunEvidence) -> String {
    let with = alone.moved.map_or(String::new(), |moved| {
        let [with, without, believed] = [moved.with, moved.without, moved.believed].map(significant);
        format!(
            "; with it {} would be {with} and not {without} (believed beforehand: {believed})",
            moved.term
        )
    });
    format!(
        "{} stands alone against the other runs and is left out of the fit: it measured {} {}, and the fit has {}{with}; was it this server, \
         with these flags, lengths and clients, and nothing beside it? measured again, that load weighs more",
        worst.run,
        worst.figure,
        significant(worst.measured),
        significant(worst.predicted),
    )
}

/// What to know of a load that stayed in the fit, and decides a term alone.
pub(super) fn remark_on_one_load(host: &HostFit) -> Option<String> {
    let alone = host.stands_alone.as_ref().filter(|alone| !alone.is_left_out)?;
    let moved = alone.moved?;
    let [with, without, believed] = [moved.with, moved.without, moved.believed].map(significant);
    Some(format!(
        "{} = {with} is the word of {} alone: without it the other runs are met better, with {without} (believed beforehand: {believed}); the \
         host's intervals reach to both fits; measured again, that load would weigh more",
        moved.term, alone.run
    ))
}

/// That the runs are met with another bandwidth, and by no host without.
fn doubt_of_card(host: &HostFit) -> Option<String> {
    let card = host.slower_card.as_ref()?;
    let [without, with] = card.decided?;
    Some(format!(
        "with products that read weights at {:.2} of the bandwidth that they are known to have the runs are met within {with:.1} % in the \
         median, and without it no host does better than {without:.1} %: it is the card, and not its host, that is {}; --fit-bandwidth {} \
         seeks that factor",
        card.factor,
        if card.factor < 1.0 { "slower" } else { "faster" },
        card.gpu
    ))
}

/// That the card may be slow where the host was found to be.
pub(super) fn remark_on_card(host: &HostFit) -> Option<String> {
    let card = host.slower_card.as_ref().filter(|card| card.decided.is_none())?;
    let [found, believed] = card.values.map(significant);
    let apart = match card.has_several_models {
        true => "they are of several models, which tells a card from a host",
        false => "a run of a model of another size or `plimsoll probe` tells them apart",
    };
    Some(format!(
        "{} = {found} is far from what was believed ({believed}), and a card that reads weights at {:.2} of the bandwidth that its products \
         are known to have would explain these runs with less of a surprise: {apart}, and --fit-bandwidth {} seeks that factor; predictions \
         reach to both",
        card.term, card.factor, card.gpu
    ))
}

/// Which figures belong to runs that are met, and the worst figure of each run that is not; `runs_of` tells the run of each.
/// One that `is_alone` against the others is not met, however far off it is.
pub(super) fn explained(
    runs_of: &[usize],
    figures: &[RunEvidence],
    is_alone: &dyn Fn(usize) -> bool,
) -> (Vec<usize>, Vec<usize>) {
    let (mut met, mut not_met) = (Vec::new(), Vec::new());
    let mut all = 0..figures.len();
    while let Some(first) = all.next() {
        let mut own = vec![first];
        own.extend(
            all.clone()
                .take_while(|&figure| runs_of[figure] == runs_of[first]),
        );
        own[1..].iter().for_each(|_| _ = all.next());
        match furthest(&own, figures) {
            Some(&worst) if is_off(&figures[worst]) || is_alone(runs_of[first]) => not_met.push(worst),
            _ => met.extend(own),
        }
    }
    (met, not_met)
}

/// A figure that is no number is met by nothing.
fn is_off(figure: &RunEvidence) -> bool {
    factor(figure) > MISFIT || factor(figure).is_nan()
}

/// By how much a figure is too high or too low: 1.25 for a fourth more as for a fifth less.
fn factor(figure: &RunEvidence) -> f64 {
    (figure.predicted / figure.measured).ln().abs().exp()
}

/// The figure that is off by the largest factor, either way.
fn furthest<'a>(among: &'a [usize], figures: &[RunEvidence]) -> Option<&'a usize> {
    let factor = |index: &&usize| factor(&figures[**index]);
    among.iter().max_by(|a, b| factor(a).total_cmp(&factor(b)))
}

/// Parameters at an end of what is possible, and those that every draw puts at one place.
fn stuck(host: &HostFit) -> Vec<&str> {
    let intervals = host.evidence.interval_90.iter();
    let is_stuck = |(name, [low, high]): &(&String, &[f64; 2])| {
        high - low <= STUCK * (high + low) / 2.0 || host.at_ends.contains(&name.as_str())
    };
    intervals
        .filter(is_stuck)
        .map(|(name, _)| name.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_seconds_are_told_as_such() {
        let run = |figure: &str, measured: f64, predicted: f64| RunEvidence {
            run: String::new(),
            figure: figure.to_owned(),
            measured,
            predicted,
            is_left_out: false,
        };
        let seconds = [
            run("ttft_p50_ms", 0.0188, 22.0),
            run("tpot_mean_ms", 0.00716, 6.4),
        ];
        let unit = |runs: &[RunEvidence]| unit_of_runs(runs, None);
        assert!(unit(&seconds).is_some_and(|told| told.contains("were s and not ms")));
        assert_eq!(unit(&[run("tpot_mean_ms", 7.16, 6.4)]), None);
        assert_eq!(unit(&[run("request_throughput", 0.007, 7.0)]), None);
        // A file of seconds that holds milliseconds.
        let latency = [run("e2el_max_ms", 1_082_000.0, 1069.0)];
        let told = unit_of_runs(&latency, Some("avg_latency"));
        assert!(told.is_some_and(|told| {
            told.contains("`avg_latency` is read in s, and theirs are as if they were ms")
        }));
    }

    #[test]
    fn one_figure_that_is_off_makes_its_run_unexplained() {
        let figure = |measured: f64, predicted: f64| RunEvidence {
            run: String::new(),
            figure: String::new(),
            measured,
            predicted,
            is_left_out: false,
        };
        let figures = [
            figure(6.5, 6.4),
            figure(15.0, 14.0),
            figure(0.5, 10.1),
            figure(71.8, 73.3),
            figure(10.0, 7.4),
            figure(10.0, 12.6),
            figure(8.0, 9.0),
        ];
        let runs_of = [0, 0, 1, 1, 2, 2, 3];
        let explained = |runs_of: &[usize], figures: &[RunEvidence]| explained(runs_of, figures, &|_| false);
        assert_eq!(explained(&runs_of, &figures), (vec![0, 1, 6], vec![2, 4]));
        assert_eq!(furthest(&[2, 4], &figures), Some(&2));
        // A fourth more is as far as a fifth less, and the further figure is the one that is judged.
        let figures = [figure(100.0, 126.0), figure(100.0, 78.0)];
        assert_eq!(explained(&[0, 0], &figures), (vec![], vec![1]));
        let figures = [figure(100.0, 124.0), figure(100.0, 81.0)];
        assert_eq!(explained(&[0, 0], &figures), (vec![0, 1], vec![]));
    }
}
