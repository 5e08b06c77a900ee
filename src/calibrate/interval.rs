//! The model's own uncertainty of a run's figures, apart from sampling: what if each component were slower, or faster?
//!
//! Every component's time is moved to both ends of its own 90 % interval, the same traffic is simulated again, and the
//! ratios of the figures are that component's part. Near the knee a step that is 10 % slower makes far more than 10 % of
//! a TTFT, and far more up than down: both are what the simulation says, and the two ends of an interval are kept
//! apart. Parts add up as independent errors do, those that raise a figure and those that lower it by themselves.
//! Left out: interactions between components.

use rayon::prelude::*;

use crate::analysis::simulate_whole;
use crate::config::{Resolved, Server};
use crate::cost::calibration::Calibration;
use crate::cost::roofline::{RooflineCost, SharedExperts};
use crate::cost::uncertainty::Component;
use crate::metrics::Summary;
use crate::sim::{Frontend, Pool, Scenario};
use crate::stats::Z_90;
use crate::workload::{Arrivals, WorkloadSpec, short_day};

/// How far each figure may be off.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInterval {
    /// Figure by figure.
    pub figures: Vec<FigureInterval>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureInterval {
    /// As JSON spells it.
    pub name: &'static str,
    /// Half the width of ln(figure)'s 90 % interval as σ of a normal law.
    pub sigma_ln: f64,
    /// How far ln(figure) reaches down and up with 90 % confidence.
    pub reach_ln: (f64, f64),
    /// σ by component, signed: positive where a slower component makes the figure larger.
    pub parts: Vec<(Component, f64)>,
}

impl FigureInterval {
    /// From ln(figure/figure as predicted) with each component fast and slow.
    fn new(name: &'static str, moved: &[(Component, [f64; 2])]) -> FigureInterval {
        let reach = |sign: f64| {
            let furthest = |[fast, slow]: &[f64; 2]| (sign * fast).max(sign * slow).max(0.0);
            let squares = moved.iter().map(|(_, ends)| furthest(ends).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let (down, up) = (reach(-1.0), reach(1.0));
        FigureInterval {
            name,
            sigma_ln: (down + up) / (2.0 * Z_90),
            reach_ln: (down, up),
            parts: moved
                .iter()
                .map(|(component, [fast, slow])| (*component, (slow - fast) / (2.0 * Z_90)))
                .collect(),
        }
    }

    /// The factors that the figure lies within with 90 % confidence.
    #[must_use]
    pub fn factors_90(&self) -> (f64, f64) {
        let (down, up) = self.reach_ln;
        ((-down).exp(), up.exp())
    }

    /// The component that contributes most.
    #[must_use]
    pub fn worst(&self) -> Option<Component> {
        let by_size = |a: &&(Component, f64), b: &&(Component, f64)| a.1.abs().total_cmp(&b.1.abs());
        self.parts.iter().max_by(by_size).map(|(component, _)| *component)
    }
}

/// Requests of each of the runs: ratios of runs with the same traffic need far fewer than the figures themselves.
const REQUESTS_MAX: u64 = 2000;

/// The same of several clients of whom some have an end: their first requests tell how they begin together, and not how the run
/// goes on and ends.
const REQUESTS_MAX_TO_AN_END: u64 = 20_000;

/// Names of the figures, in order.
const FIGURES: [&str; 5] = [
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "mean_e2el_ms",
    "output_throughput",
];

fn figures(summary: &Summary) -> [f64; 5] {
    let some = |value: Option<f64>| value.unwrap_or(f64::NAN);
    [
        some(summary.ttft.mean_s()),
        some(summary.ttft.quantile_s(0.99)),
        some(summary.tpot.mean_s()),
        some(summary.e2el.mean_s()),
        summary.output_tokens as f64 / summary.duration_s,
    ]
}

/// The model interval of a knee: for each component the rate that still meets the promise when it is slower, and when it
/// is faster. `meets` simulates one scenario at one rate, always with the same traffic.
///
/// # Errors
/// What `meets` says is the highest rate as predicted, where that is another than the knee by more than a factor of
/// `NEAR`, or none: a ratio to it says nothing of the knee.
pub fn knee_interval(
    resolved: &Resolved,
    knee: f64,
    meets: &(dyn Fn(&Scenario, f64) -> bool + Sync),
) -> Result<FigureInterval, Option<f64>> {
    let sigmas = sigmas(resolved);
    // The promise is judged here over one traffic, by the search over many: their own difference is no uncertainty. So the
    // knee as predicted is looked for here again.
    let cases = cases(&sigmas);
    let highest = |moved: &Option<(Component, f64)>| {
        let scenario = under(resolved, *moved);
        highest(knee, |rate| meets(&scenario, rate))
    };
    let here = highest(&cases[0]);
    let is_inside = here > rung(knee, 0) && here < rung(knee, LADDER - 1);
    if !is_inside || (here / knee).max(knee / here) > NEAR {
        return Err(is_inside.then_some(here));
    }
    let found: Vec<f64> = cases[1..].par_iter().map(highest).collect();
    let moved: Vec<(Component, [f64; 2])> = sigmas
        .iter()
        .zip(found.chunks_exact(2))
        .map(|((component, _), pair)| (*component, [(pair[0] / here).ln(), (pair[1] / here).ln()]))
        .collect();
    Ok(FigureInterval::new("knee", &moved))
}

/// What is simulated: the step as predicted, then both ends of each component's interval.
fn cases(sigmas: &[(Component, f64)]) -> Vec<Option<(Component, f64)>> {
    let ends = |&(component, sigma): &(Component, f64)| ends(sigma).map(|factor| Some((component, factor)));
    std::iter::once(None)
        .chain(sigmas.iter().flat_map(ends))
        .collect()
}

/// The factors at the two ends of a component's 90 % interval: fast, then slow.
fn ends(sigma: f64) -> [f64; 2] {
    [-Z_90, Z_90].map(|z| (z * sigma).exp())
}

/// The highest rate that meets a promise, by bisection on a ladder around the known one.
fn highest(knee: f64, meets: impl Fn(f64) -> bool) -> f64 {
    let rate = |step: u32| rung(knee, step);
    let (mut low, mut high) = (0, LADDER);
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if meets(rate(middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    rate(low)
}

/// The rate of a rung of the ladder around the knee.
fn rung(knee: f64, step: u32) -> f64 {
    knee * (f64::from(step) / f64::from(LADDER) * SPAN.ln()).exp() / SPAN.sqrt()
}

/// How far the knee of short runs may be from the knee, as a factor.
const NEAR: f64 = std::f64::consts::SQRT_2;

/// Rungs of the ladder, and its top rate over its bottom one: rungs are 0.5 % apart. A knee that moves further than to
/// a quarter or to four times is told as that.
const LADDER: u32 = 512;
const SPAN: f64 = 16.0;

/// The model interval of a run: two short simulations for each component of its step, and one as predicted.
///
/// # Panics
/// Never: nothing stops it.
#[must_use]
pub fn model_interval(resolved: &Resolved) -> ModelInterval {
    model_interval_while(resolved, &|| true).expect("nothing stops it")
}

/// The same; `None` once `goes_on`, which is asked before each simulation, says no.
#[must_use]
pub fn model_interval_while(
    resolved: &Resolved,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<ModelInterval> {
    let sigmas = sigmas(resolved);
    let cases = cases(&sigmas);
    let simulated: Vec<[f64; FIGURES.len()]> = cases
        .par_iter()
        .map(|one| goes_on().then(|| simulated(resolved, *one)))
        .collect::<Option<_>>()?;
    let (predicted, moved) = simulated
        .split_first()
        .expect("the run as predicted is the first case");
    let figure = |(index, name): (usize, &&'static str)| {
        let ln = |values: &[f64; FIGURES.len()]| {
            let ratio = (values[index] / predicted[index]).ln();
            // A figure that does not exist, or is zero, has no relative error.
            if ratio.is_finite() { ratio } else { 0.0 }
        };
        let pairs = sigmas.iter().zip(moved.chunks_exact(2));
        let moved: Vec<(Component, [f64; 2])> = pairs
            .map(|((component, _), pair)| (*component, [ln(&pair[0]), ln(&pair[1])]))
            .collect();
        FigureInterval::new(name, &moved)
    };
    Some(ModelInterval {
        figures: FIGURES.iter().enumerate().map(figure).collect(),
    })
}

/// The components of every pool's steps; where pools differ, the one that is known least.
fn sigmas(resolved: &Resolved) -> Vec<(Component, f64)> {
    let mut all: Vec<(Component, f64)> = Vec::new();
    for server in &resolved.servers {
        let sigmas = server
            .calibration
            .sigmas(&server.device, &server.model, &server.placement);
        for (component, sigma) in sigmas {
            match all.iter_mut().find(|(known, _)| *known == component) {
                Some((_, largest)) => *largest = largest.max(sigma),
                None => all.push((component, sigma)),
            }
        }
    }
    all
}

/// The scenario of a run with one component of every pool slower, or faster: its steps and its front ends.
fn under(resolved: &Resolved, moved: Option<(Component, f64)>) -> Scenario {
    let mut scenario = resolved.scenario.clone();
    for (pool, server) in scenario.pools.iter_mut().zip(&resolved.servers) {
        let calibration = match moved {
            Some((component, factor)) => server.calibration.scaled(component, factor),
            None => server.calibration.clone(),
        };
        recalibrate(pool, server, &calibration);
        if let Some(ranks) = &mut scenario.lock_step {
            let placement = &server.placement;
            let shared = SharedExperts::maker(&server.device, &server.model, &calibration, placement);
            ranks.shared = shared.expect("a scaled calibration has the blocks of its original");
        }
    }
    scenario
}

fn recalibrate(pool: &mut Pool, server: &Server, calibration: &Calibration) {
    let placement = &server.placement;
    pool.frontend = Frontend::under(calibration, &placement.engine, pool.frontend.servers);
    let cost = RooflineCost::maker(&server.device, &server.model, calibration, placement);
    pool.cost = std::sync::Arc::new(cost.expect("a scaled calibration has the blocks of its original"));
}

/// The traffic of a day curve in fewer requests, and how many: its first ones tell of the night alone. `None` where there is no
/// such, or replicas come, go or fail at times that are not the curve's.
#[must_use]
pub fn short_day_of(scenario: &Scenario) -> Option<(WorkloadSpec, u64)> {
    let cluster = &scenario.cluster;
    let keeps_its_clock =
        cluster.outages.is_some() || !cluster.changes.is_empty() || !cluster.scalers.is_empty();
    short_day(&scenario.workload).filter(|_| !keeps_its_clock)
}

fn simulated(resolved: &Resolved, moved: Option<(Component, f64)>) -> [f64; FIGURES.len()] {
    let mut scenario = under(resolved, moved);
    if let Some((day, _)) = short_day_of(&scenario) {
        scenario.workload = day;
        return figures(&simulate_whole(&scenario, None));
    }
    let workload = &mut scenario.workload;
    let mut sent_max = None;
    if matches!(workload.arrivals, Arrivals::Superposed { .. }) {
        // A number of requests would let those without an end go on when the others are through.
        let has_end = workload.has_end() || workload.parts().iter().any(|part| part.has_end());
        sent_max = Some(if has_end {
            REQUESTS_MAX_TO_AN_END
        } else {
            REQUESTS_MAX
        });
    } else {
        let own = workload.num_prompts.unwrap_or(REQUESTS_MAX);
        workload.num_prompts = Some(own.min(REQUESTS_MAX));
    }
    figures(&simulate_whole(&scenario, sent_max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Experiment, simulate};
    use crate::config::{Document, NoFiles, resolve};
    use crate::metrics::Records;
    use crate::units::Picos;

    fn resolved(rate: f64) -> Resolved {
        let text = format!(
            "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n\
             [engine]\nprofile = \"vllm@0.11\"\nmax_num_seqs = 32\n[workload]\nnum_prompts = 600\n\
             [workload.arrivals.poisson]\nrequest_rate = {rate:?}\n\
             [workload.lengths.fixed]\ninput_len = 200\noutput_len = 64\n"
        );
        resolve(Document::parse("test", &text).unwrap(), &NoFiles).unwrap()
    }

    fn sigma(resolved: &Resolved, wanted: Component) -> f64 {
        let (device, model, placement) = (&resolved.device, &resolved.model, &resolved.placement);
        let sigmas = resolved.parameters.sigmas(device, model, placement);
        sigmas
            .iter()
            .find(|(component, _)| *component == wanted)
            .unwrap()
            .1
    }

    fn figure<'a>(interval: &'a ModelInterval, name: &str) -> &'a FigureInterval {
        interval
            .figures
            .iter()
            .find(|figure| figure.name == name)
            .unwrap()
    }

    /// The first requests of a day come at night, when nobody waits.
    #[test]
    fn the_interval_of_a_day_is_of_all_its_hours() {
        let mut resolved = resolved(1.0);
        let workload = &mut resolved.scenario.workload;
        let day = |rates: [f64; 2]| Arrivals::Profile {
            piece: Picos::from_seconds(3000.0),
            rates: rates.into(),
            burstiness: 1.0,
        };
        (workload.arrivals, workload.num_prompts) = (day([1.0, 30.0]), None);
        workload.duration = Some(Picos::from_seconds(6000.0));
        let whole = model_interval(&resolved);
        resolved.scenario.workload.arrivals = day([30.0, 1.0]);
        let turned = model_interval(&resolved);
        resolved.scenario.workload.arrivals = day([1.0, 1.0]);
        let night = model_interval(&resolved);
        let ttft = |interval: &ModelInterval| figure(interval, "mean_ttft_ms").sigma_ln;
        let apart = |other: &ModelInterval| (ttft(&whole) / ttft(other) - 1.0).abs();
        assert!(apart(&night) > 0.1, "{} {}", ttft(&whole), ttft(&night));
        assert!(apart(&turned) < 0.1, "{} {}", ttft(&whole), ttft(&turned));
    }

    #[test]
    fn both_ends_add_by_themselves_and_what_does_not_move_a_figure_adds_nothing() {
        let moved = [
            (Component::Step, [-0.2, 0.3]),
            (Component::Host, [0.0, 0.4]),
            (Component::Small, [0.0, 0.0]),
        ];
        let interval = FigureInterval::new("x", &moved);
        let (down, up) = interval.reach_ln;
        assert!((down - 0.2).abs() < 1e-12 && (up - 0.5).abs() < 1e-12);
        assert_eq!(interval.worst(), Some(Component::Step));
    }

    #[test]
    fn a_run_in_one_stretch_has_the_figures_of_one_in_batches() {
        for rate in [2.0, 40.0] {
            let scenario = resolved(rate).scenario;
            let judged = Experiment::of_whole_run(Records::None);
            let in_batches = simulate(&scenario, &judged, |_| true).result.whole;
            let in_one = simulate_whole(&scenario, None);
            assert_eq!(figures(&in_one), figures(&in_batches));
            assert_eq!(in_one.itl, in_batches.itl);
            assert_eq!(in_one.occupancy, in_batches.occupancy);
            assert_eq!(in_one.work, in_batches.work);
        }
    }

    #[test]
    fn nothing_is_simulated_once_it_is_stopped() {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let ends = || {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            false
        };
        let resolved = resolved(1.0);
        assert!(model_interval_while(&resolved, &ends).is_none());
        assert!(asked.into_inner() <= cases(&sigmas(&resolved)).len());
        assert!(model_interval_while(&resolved, &|| true).is_some());
    }

    #[test]
    fn gaps_are_as_uncertain_as_steps_and_the_front_end_is_of_no_matter_to_them() {
        let resolved = resolved(2.0);
        let interval = model_interval(&resolved);
        let tpot = figure(&interval, "mean_tpot_ms");
        let least = Z_90 * sigma(&resolved, Component::Step);
        assert!(
            tpot.reach_ln.0 > 0.95 * least && tpot.reach_ln.1 > 0.95 * least,
            "{tpot:?}"
        );
        let part = |figure: &FigureInterval, wanted: Component| {
            figure
                .parts
                .iter()
                .find(|(component, _)| *component == wanted)
                .unwrap()
                .1
        };
        assert!(part(tpot, Component::FrontEnd).abs() < 0.01);
        let ttft = figure(&interval, "mean_ttft_ms");
        assert!(part(ttft, Component::FrontEnd) > 0.2, "{ttft:?}");
    }

    #[test]
    fn the_interval_of_several_clients_is_that_of_the_run_that_they_end_together() {
        // Three hundred in five seconds beside a loop that goes on as long as they do: the same run by its number of requests.
        let of = |count: &str| {
            let text = format!(
                "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n\
                 [engine]\nmax_model_len = 16384\n[workload]\n{count}\n\
                 [workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n\
                 [[workload.classes]]\nname = \"burst\"\nnum_prompts = 300\narrivals.poisson.request_rate = 55.0\n\
                 [[workload.classes]]\nname = \"loop\"\narrivals.closed.max_concurrency = 2\n"
            );
            resolve(Document::parse("test", &text).unwrap(), &NoFiles).unwrap()
        };
        let own = of("");
        let experiment = Experiment::of_whole_run(Records::None);
        let sent = simulate(&own.scenario, &experiment, |_| true).counts.sent;
        assert!((301..400).contains(&sent), "{sent}");
        let (own, counted) = (
            model_interval(&own),
            model_interval(&of(&format!("num_prompts = {sent}"))),
        );
        for name in ["mean_ttft_ms", "mean_tpot_ms"] {
            let reach = |interval| figure(interval, name).reach_ln.1;
            let (own, counted) = (reach(&own), reach(&counted));
            // The loop sends one more or less where steps are slower.
            assert!((own / counted - 1.0).abs() < 0.1, "{name}: {own} and {counted}");
        }
    }

    #[test]
    fn an_engine_without_a_host_block_has_a_front_end_that_is_as_uncertain() {
        let mut resolved = resolved(2.0);
        resolved.servers[0].placement.engine = "own".to_owned();
        let slow = under(&resolved, Some((Component::FrontEnd, 2.0)));
        let time = |scenario: &Scenario| {
            let frontend = scenario.first_pool().frontend;
            (frontend.request_service + frontend.request_delay).seconds()
        };
        let ratio = time(&slow) / time(&resolved.scenario);
        assert!((ratio - 2.0).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn near_the_knee_a_time_to_first_token_reaches_further_up_than_its_steps() {
        let (idle, busy) = (resolved(2.0), resolved(42.0));
        let reach = |resolved: &Resolved| figure(&model_interval(resolved), "mean_ttft_ms").reach_ln;
        let ((_, idle_up), (busy_down, busy_up)) = (reach(&idle), reach(&busy));
        assert!(
            busy_up > idle_up && busy_up > 1.5 * busy_down,
            "{idle_up} {busy_down} {busy_up}"
        );
        assert!(busy_up > 4.0 * Z_90 * sigma(&busy, Component::Step), "{busy_up}");
    }

    /// A server whose knee is the rate at which steps of 32 sequences fill its time: a step that is slower by a factor
    /// lowers that rate by the same factor, so the interval is known beforehand.
    #[test]
    fn the_knees_interval_is_what_its_steps_are_uncertain_by() {
        let resolved = resolved(2.0);
        let step_s = |scenario: &Scenario| {
            let mut cost = (scenario.first_pool().cost)();
            cost.decode(32).at(32 * 232, 232).seconds()
        };
        let here = step_s(&resolved.scenario);
        let meets = |scenario: &Scenario, rate: f64| rate * step_s(scenario) < 10.0 * here;
        let interval = knee_interval(&resolved, 10.0, &meets).unwrap();
        let expected: f64 = resolved
            .parameters
            .sigmas(&resolved.device, &resolved.model, &resolved.placement)
            .iter()
            .map(|(component, sigma)| {
                let slow = under(&resolved, Some((*component, (Z_90 * sigma).exp())));
                (step_s(&slow) / here).ln().powi(2)
            })
            .sum();
        let (down, _) = interval.reach_ln;
        assert!(
            (down - expected.sqrt()).abs() < 0.01,
            "{down} {}",
            expected.sqrt()
        );
        assert!(down > Z_90 * sigma(&resolved, Component::Step) - 0.006);
        assert!(
            interval.parts.iter().all(|(_, part)| *part < 0.003),
            "slower never helps: {interval:?}"
        );
    }

    #[test]
    fn short_runs_whose_knee_is_another_tell_nothing_of_it() {
        let resolved = resolved(2.0);
        let up_to = |highest: f64| {
            let meets = move |_: &Scenario, rate: f64| rate <= highest;
            knee_interval(&resolved, 10.0, &meets)
        };
        assert!(up_to(9.5).is_ok());
        let other = up_to(6.0).unwrap_err().unwrap();
        assert!((other - 6.0).abs() < 0.05, "{other}");
        // Neither where nothing is kept in them, nor where nothing is broken.
        assert_eq!(up_to(0.0).unwrap_err(), None);
        assert_eq!(up_to(1e9).unwrap_err(), None);
    }
}
