//! Intervals of runs and knees whose doubts are known.

use super::*;
use crate::analysis::{Experiment, simulate};
use crate::config::{Document, NoFiles, resolve};
use crate::cost::Trust;
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
    assert!(apart(&night) > 0.5, "{} {}", ttft(&whole), ttft(&night));
    // Where slow launches overload the busy hours, the quiet ones behind them share their wait, and those before them do not.
    assert!(apart(&turned) < 0.25, "{} {}", ttft(&whole), ttft(&turned));
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
    assert!(asked.into_inner() <= cases(&moves(&resolved)).len());
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
    let slow = under(&resolved, Some(&Moved::Component(Component::FrontEnd, 2.0)));
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
            let slow = Moved::Component(*component, (Z_90 * sigma).exp());
            let slow = under(&resolved, Some(&slow));
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

/// Hosts that the runs of one's own server allow stand for the terms that they name, and for no others.
#[test]
fn hosts_that_own_runs_allow_stand_for_their_terms() {
    let mut resolved = resolved(2.0);
    let components = |resolved: &Resolved| -> Vec<Component> {
        moves(resolved).iter().map(|(component, _)| *component).collect()
    };
    let before = components(&resolved);
    assert!(before.contains(&Component::Host) && before.contains(&Component::Launching));
    let server = &mut resolved.servers[0];
    let host = server.calibration.host.get_mut("vllm").unwrap();
    host.trust = Trust::Measured;
    let (gap, launch) = (host.async_gap_us, host.eager_launch_us);
    let end = |gap: f64, launch: f64| {
        let terms = [("async_gap_us", gap), ("eager_launch_us", launch)];
        terms.map(|(name, value)| (name.to_owned(), value)).into()
    };
    let pairs = vec![
        HostPair {
            less: end(gap, launch / 9.0),
            more: end(gap, 1.2 * launch),
        },
        HostPair {
            less: end(gap / 2.0, launch),
            more: end(2.0 * gap, launch),
        },
    ];
    let evidence = server.calibration.evidence.get_or_insert_default();
    let block = evidence.blocks.entry("host.vllm".to_owned()).or_default();
    block.directions = pairs;
    let after = components(&resolved);
    assert_eq!(after.len(), before.len());
    assert_eq!(after[after.len() - 2..], [Component::Launching, Component::Host]);
    assert!(after.contains(&Component::FrontEnd) && after.contains(&Component::Streaming));
    let host_of = |moved: &Moved| {
        let mut calibration = resolved.servers[0].calibration.clone();
        if let Moved::Host(terms) = moved {
            calibration = under_terms(&calibration, "vllm", terms);
        }
        calibration.host["vllm"].async_gap_us
    };
    let moves = moves(&resolved);
    let (_, ends) = moves.last().unwrap();
    assert_eq!(ends.each_ref().map(host_of), [gap / 2.0, 2.0 * gap]);
    // A calibration whose host is not measured holds to its components.
    resolved.servers[0]
        .calibration
        .host
        .get_mut("vllm")
        .unwrap()
        .trust = Trust::Prior;
    assert_eq!(components(&resolved), before);
}
