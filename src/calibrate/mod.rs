//! Parameters from measurements: kernel tables for the GPU's terms, end-to-end runs for the host's.
//!
//! The forms are those of [`crate::cost`]; here is only how their parameters are found ([`solve`]), how wide they are
//! ([`component`]), and what would narrow them ([`next`]). Law: the same inputs, options and version give the same
//! calibration to the last digit.

pub mod bench;
pub mod ceiling;
pub mod component;
pub mod doubts;
pub mod forms;
pub mod host;
pub mod interval;
pub mod jitter;
pub mod measured_file;
pub mod next;
pub mod observation;
pub mod plan;
pub mod runs;
pub mod serving;
pub mod solve;
pub mod tables;
pub mod trust;
mod words;

use std::collections::BTreeMap;

use crate::cost::Trust;
use crate::cost::calibration::{Calibration, Evidence, Input, Source};
use crate::hardware::Device;
use component::{BlockFit, Options};
use host::HostFit;
use jitter::JitterFit;
use observation::{Block, Observation};
use runs::Run;

/// What is to be fitted.
pub struct Request {
    /// The GPU that the calibration is for.
    pub device: Device,
    /// Priors, and what is not fitted.
    pub base: Calibration,
    /// Blocks that were measured on the card itself and stay where nothing is fitted to.
    pub kept: Option<Calibration>,
    /// Kernels.
    pub observations: Vec<Observation>,
    /// Where they came from; `used` is filled in here.
    pub inputs: Vec<Input>,
    /// End-to-end runs, on this GPU or others.
    pub runs: Vec<Run>,
    /// Whose host terms the runs decide.
    pub engine: String,
    /// Id of the card whose runs decide a factor on the bandwidth of products: this one, or a cousin of the same chip.
    pub bandwidth_of: Option<String>,
    /// Whether the result is for the server that was measured, or for everybody's ([`Source::PublicFit`]).
    pub source: Source,
    /// How to fit.
    pub options: Options,
    /// The command that does it again.
    pub command: String,
}

/// A fit.
pub struct Calibrated {
    /// What was fitted, and nothing else.
    pub calibration: Calibration,
    /// Block by block.
    pub blocks: Vec<BlockFit>,
    /// The host's terms, where runs were given.
    pub host: Option<HostFit>,
    /// Parameters that were sought.
    pub parameters: usize,
}

impl Calibrated {
    /// Parameters that the measurements decide. Terms of a host that explains none of its runs do not count; terms that runs
    /// determine only in combination count once per combination.
    #[must_use]
    pub fn identified(&self) -> usize {
        let evidence = self.calibration.evidence.as_ref();
        let open = evidence.map_or(0, |evidence| evidence.unidentified.len());
        let Some(host) = &self.host else {
            return self.parameters - open;
        };
        let apart = host.parameters - host.unidentified.len();
        let decided = match host.met.is_empty() {
            true => 0,
            false => apart.max(host.narrowed),
        };
        // What is named as open is not counted as decided, however many combinations are.
        let most = self.parameters - usize::from(open > 0);
        (self.parameters - open - apart + decided).min(most)
    }
}

/// Sorts what was measured, so that the order of files changes nothing: draws go by position, and sums by order.
///
/// Files are sorted by the least of their runs, then by checksum; within a file the order stays.
pub fn order(runs: &mut [Run], observations: &mut [Observation], inputs: &[Input]) {
    let checksum = |input: usize| inputs.get(input).map_or("", |input| input.crc32.as_str());
    let mut least: BTreeMap<usize, (String, String)> = BTreeMap::new();
    for run in runs.iter() {
        let own = (run.family.clone(), run.load.clone());
        let known = least.entry(run.input).or_insert_with(|| own.clone());
        *known = own.min(known.clone());
    }
    runs.sort_by(|one, other| {
        let key = |run: &Run| (&least[&run.input], checksum(run.input));
        key(one).cmp(&key(other))
    });
    observations.sort_by_key(|row| checksum(row.input));
}

/// Fits every block that has observations.
#[must_use]
pub fn calibrate(request: &Request) -> Calibrated {
    calibrate_while(request, &|| true).expect("nobody asks to stop")
}

/// The same, as long as `goes_on`, which is asked before each fit, draw and simulation; `None` where it stopped.
#[must_use]
pub fn calibrate_while(request: &Request, goes_on: &(dyn Fn() -> bool + Sync)) -> Option<Calibrated> {
    let blocks = fit_blocks(request, goes_on)?;
    let mut calibration = request.kept.clone().unwrap_or_default();
    let kept = calibration.evidence.take();
    for block in &blocks {
        block.store(&mut calibration);
    }
    let mut evidence = evidence(request, &blocks);
    for (name, block) in kept.into_iter().flat_map(|kept| kept.blocks) {
        evidence.blocks.entry(name).or_insert(block);
    }
    let beside = with_host_of(&request.engine, calibration.clone().over(&request.base));
    let known = host::Known {
        device: &request.device,
        calibration: &beside,
        engine: &request.engine,
        bandwidth_of: request.bandwidth_of.as_deref(),
        is_of_server: request.source != Source::PublicFit,
        goes_on,
    };
    let host = host::fit(&request.runs, &known, &request.options);
    if !goes_on() {
        return None;
    }
    if let Some(fitted) = &host {
        store_host(request, fitted, &beside, &mut calibration, &mut evidence);
    }
    let met: Vec<&Run> = match &host {
        Some(host) => host.met.iter().map(|run| &request.runs[*run]).collect(),
        None => request.runs.iter().collect(),
    };
    let jitter = jitter::fit(&met, &calibration.clone().over(&beside), goes_on);
    if !goes_on() {
        return None;
    }
    if let Some(fitted) = &jitter {
        calibration.jitter.insert(request.engine.clone(), fitted.law);
        add_jitter(&mut evidence, fitted, &request.engine);
    }
    calibration.evidence = Some(evidence);
    let of_blocks: usize = blocks.iter().map(|block| block.values.len()).sum();
    let of_host = host.as_ref().map_or(0, |host| host.parameters);
    let of_jitter = jitter
        .as_ref()
        .map_or(0, |jitter| jitter.evidence.interval_90.len());
    Some(Calibrated {
        parameters: of_blocks + of_host + of_jitter,
        calibration,
        blocks,
        host,
    })
}

/// Every block that has observations; `None` once it does not go on.
fn fit_blocks(request: &Request, goes_on: &(dyn Fn() -> bool + Sync)) -> Option<Vec<BlockFit>> {
    let mut rows: BTreeMap<Block, Vec<&Observation>> = BTreeMap::new();
    for observation in &request.observations {
        rows.entry(observation.block).or_default().push(observation);
    }
    let mut blocks = Vec::new();
    for (block, rows) in &rows {
        if !goes_on() {
            return None;
        }
        let forms = forms::forms(*block, &request.device, &request.base);
        let Some(mut fitted) = component::fit(*block, forms, rows, &request.options, goes_on) else {
            continue;
        };
        fitted.doubt = doubts::doubt_of_block(&fitted, rows, &request.device);
        if fitted.doubt.is_some() {
            // It holds what is believed without these rows.
            fitted.unidentified = fitted.form.parameters.iter().map(|one| one.name).collect();
        }
        blocks.push(fitted);
    }
    goes_on().then_some(blocks)
}

/// A calibration with terms for an engine's host: without any of its own it starts from vLLM's, as a simulation of it does.
fn with_host_of(engine: &str, mut calibration: Calibration) -> Calibration {
    if let Some(vllm) = calibration.host.get("vllm").cloned() {
        calibration.host.entry(engine.to_owned()).or_insert(vllm);
    }
    calibration
}

/// Writes the host's terms and their evidence into a calibration; `known` is the calibration that they were fitted beside.
fn store_host(
    request: &Request,
    fitted: &HostFit,
    known: &Calibration,
    calibration: &mut Calibration,
    evidence: &mut Evidence,
) {
    if let Some(factor) = fitted.bandwidth {
        if calibration.gemm.is_empty() {
            // Without a table of its own the card keeps the base's products, at the base's trust.
            calibration.gemm = known.gemm.clone();
        }
        host::scale_bandwidth(calibration, factor);
    }
    let mut own = fitted.host.clone();
    let is_for_everybody = request.source == Source::PublicFit;
    if is_for_everybody {
        let before = known.host[&request.engine].request_ms;
        own.request_ms = host::next_front_end(before, own.request_ms, &request.runs);
    }
    if own.request_ms != fitted.host.request_ms {
        evidence.remarks.push(format!(
            "request_ms is between the {:.1} ms that these runs' server took and the {:.1} ms prior: the next front end may differ by a factor of e either way",
            fitted.host.request_ms, known.host[&request.engine].request_ms
        ));
    }
    // Terms from other cards' runs are another server's.
    let is_own = |run: &Run| run.resolved.device.id == request.device.id;
    let is_measured = request.runs.iter().any(is_own);
    let doubts = doubts::doubts_of_host(fitted);
    own.trust = match (!doubts.is_empty(), is_measured) {
        // What is expected of the next server is no more than that where some of those seen do not agree.
        (true, _) if is_for_everybody => Trust::Prior,
        (true, _) => Trust::Doubtful,
        (false, true) => Trust::Calibrated,
        (false, false) => Trust::Prior,
    };
    calibration.host.insert(request.engine.clone(), own);
    add_host(evidence, fitted, &request.engine, doubts);
    if is_for_everybody {
        evidence.remarks.append(&mut evidence.doubts);
    }
}

fn add_host(evidence: &mut Evidence, fitted: &HostFit, engine: &str, doubts: Vec<String>) {
    let name = format!("host.{engine}");
    for parameter in &fitted.unidentified {
        evidence.unidentified.push(format!("{name}.{parameter}"));
    }
    if let Some(factor) = fitted.bandwidth {
        evidence.remarks.push(format!(
            "the bandwidth of products (eb) is the kernel table's times {factor:.3}, which end-to-end runs need; residuals are against the table without it"
        ));
    }
    for left_out in &fitted.families {
        evidence.remarks.push(format!(
            "host terms fitted without {} miss it by {:.1} % in the median",
            left_out.family, left_out.miss_median_pct
        ));
    }
    if fitted.scattered > 0 {
        evidence.remarks.push(format!(
            "lengths were taken to be equal in {} of {} runs, of which nobody says how they were drawn: the host's intervals reach to \
             the fit to lengths that scatter",
            fitted.scattered, fitted.given
        ));
    }
    evidence.remarks.extend(doubts::remark_on_one_load(fitted));
    evidence.remarks.extend(doubts::remark_on_card(fitted));
    // What a doubtful fit says of its own precision is worth nothing.
    let of_host = fitted.next.clone().filter(|_| doubts.is_empty());
    evidence.doubts.extend(doubts);
    evidence.families.clone_from(&fitted.families);
    let next = evidence.next_measurement.take().into_iter();
    let all: Vec<String> = next.chain(of_host).collect();
    evidence.next_measurement = (!all.is_empty()).then(|| all.join("; "));
    evidence.blocks.insert(name, fitted.evidence.clone());
    evidence.runs = fitted.runs.clone();
}

fn add_jitter(evidence: &mut Evidence, fitted: &JitterFit, engine: &str) {
    let name = format!("jitter.{engine}");
    let unidentified = fitted.unidentified.iter();
    evidence
        .unidentified
        .extend(unidentified.map(|parameter| format!("{name}.{parameter}")));
    evidence.remarks.extend(fitted.remark.clone());
    evidence.blocks.insert(name, fitted.evidence.clone());
}

fn evidence(request: &Request, blocks: &[BlockFit]) -> Evidence {
    let mut inputs = request.inputs.clone();
    for observation in &request.observations {
        if let Some(input) = inputs.get_mut(observation.input) {
            input.used += 1;
        }
    }
    for run in &request.runs {
        if let Some(input) = inputs.get_mut(run.input) {
            input.used += 1;
        }
    }
    let names = |block: &BlockFit| {
        let name = block.block.to_string();
        let full = move |parameter: &&str| format!("{name}.{parameter}");
        block.unidentified.iter().map(full).collect::<Vec<_>>()
    };
    Evidence {
        command: request.command.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        hold_out: request.options.hold_out,
        seed: request.options.seed,
        unidentified: blocks.iter().flat_map(names).collect(),
        next_measurement: next::measurement(blocks),
        doubts: blocks.iter().filter_map(|block| block.doubt.clone()).collect(),
        remarks: Vec::new(),
        inputs,
        blocks: blocks
            .iter()
            .map(|block| (block.block.to_string(), block.evidence.clone()))
            .collect(),
        families: Vec::new(),
        runs: Vec::new(),
    }
}

/// A number of a TOML file, whole or not.
fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|whole| whole as f64))
}
