//! How far a server is from what its parts add up to: the model's discrepancy, as σ of one factor on whole steps.
//!
//! A fit's residuals say how well its own runs are met, and its covariances how well they fix its terms. Neither says
//! how wrong one more server is. That is asked of the data themselves: each family of runs (one server, one tool) is
//! left out of the fit in turn and foretold by the others ([`FamilyEvidence`]). The root mean square of those errors is
//! taken for σ, widened by Student's t for as few families as there are. A card, a kind of weights, an engine or more than
//! one GPU that no run had adds what leaving out a whole card cost. All of a server's steps err alike, so nothing averages out over them.
//!
//! Kernels' own errors are in these errors, too, and are counted twice: with four to six families the share that is
//! theirs cannot be told. Left out: whatever a scenario assumes about a server (flags, links, neighbours).
//! Law: nothing here may rest on a measurement that predictions are judged by.

use std::collections::{BTreeMap, BTreeSet};

use super::calibration::{Calibration, FamilyEvidence, Source};
use super::operators::{experts, linears};
use super::roofline::Placement;
use super::uncertainty::key;
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::stats::{Z_90, student_t};

/// σ of ln(request delay) before any server was seen, and, as long as only one was, of the next one: what a front end
/// adds differs between machines, HTTP stacks and clients by a factor of e either way.
pub const REQUEST_SD_LN: f64 = 1.0;

/// σ of a whole step where a calibration holds no families of its own: all families of the shipped ones together.
/// A test derives it from them.
pub const UNSEEN_SERVER: f64 = 0.083;

/// What a card without any run adds: the four cards of the course, each foretold by the others and its kernel table.
/// The same is taken for a kind of weights, for an engine and for tensor parallelism without any run. A test derives it.
pub const UNSEEN_CARD: f64 = 0.08;

/// Runs of one server repeat within 2 to 3 %, whatever is known about it.
pub const REPEAT_SIGMA: f64 = 0.03;

impl Calibration {
    /// σ of ln(time) of whole steps on this card with these weights.
    pub(super) fn step_sigma(&self, device: &Device, model: &ModelShape, placement: &Placement) -> f64 {
        let families = self.families();
        let server = self
            .own_runs(device, &placement.engine)
            .or_else(|| pooled(families.iter().filter_map(|family| family.step_ln)))
            .unwrap_or(UNSEEN_SERVER);
        let is_own = self.is_of(device);
        let has_run_card = is_own || families.iter().any(|family| family.gpu == device.id);
        let seen: BTreeSet<&str> = families
            .iter()
            .flat_map(|family| family.weights.iter().map(String::as_str))
            .collect();
        let kinds = kinds_of_weights(device, model, placement);
        let has_run_weights = is_own || kinds.iter().all(|kind| seen.contains(kind.as_str()));
        let has_run_engine = self.has_fitted_host(&placement.engine) || (is_own && !self.has_fitted_hosts());
        let ranks = families.iter().map(|family| family.ranks).max().unwrap_or(1);
        let has_run_ranks = is_own || placement.tensor_parallel == 1 || ranks > 1;
        // No published run that a calibration was fitted to has stages.
        let has_run_stages = placement.stages() == 1;
        let unseen = [
            has_run_card,
            has_run_weights,
            has_run_engine,
            has_run_ranks,
            has_run_stages,
        ];
        let unseen = unseen.into_iter().filter(|seen| !seen);
        unseen.fold(server, |sigma, _| sigma.hypot(UNSEEN_CARD))
    }

    /// σ of ln(delay) of the front end: this server's own where its runs decided it, else another server's.
    pub(super) fn front_end_sigma(&self, device: &Device, placement: &Placement) -> f64 {
        let blocks = self.evidence.as_ref().map(|evidence| &evidence.blocks);
        let own = blocks
            .filter(|_| self.is_of(device))
            .and_then(|blocks| blocks.get(&format!("host.{}", placement.engine)))
            .and_then(|block| block.interval_90.get("request_ms"));
        if let Some([low, high]) = own {
            return ((high / low).ln() / (2.0 * Z_90)).max(REPEAT_SIGMA);
        }
        let servers: Vec<f64> = self
            .families()
            .iter()
            .filter_map(|family| family.ttft_ln)
            .collect();
        if servers.len() < 2 {
            return REQUEST_SD_LN;
        }
        pooled(servers.into_iter()).unwrap_or(REQUEST_SD_LN)
    }

    /// Whether runs decided what this engine's host takes.
    fn has_fitted_host(&self, engine: &str) -> bool {
        let blocks = self.evidence.as_ref().map(|evidence| &evidence.blocks);
        blocks.is_some_and(|blocks| blocks.contains_key(&format!("host.{engine}")))
    }

    /// Whether they decided that of some engine.
    fn has_fitted_hosts(&self) -> bool {
        let mut blocks = self.evidence.iter().flat_map(|evidence| evidence.blocks.keys());
        blocks.any(|name| name.starts_with("host."))
    }

    fn families(&self) -> &[FamilyEvidence] {
        self.evidence.as_ref().map_or(&[], |evidence| &evidence.families)
    }

    /// Whether it was measured on the user's own card.
    fn is_of(&self, device: &Device) -> bool {
        let is_own = matches!(self.provenance.source, Source::Probe | Source::Benchmark);
        is_own && self.provenance.gpu.eq_ignore_ascii_case(&device.id)
    }

    /// What runs of the very server under this engine leave unexplained; no family of theirs can be left out.
    ///
    /// A fit meets few runs whatever the server is: one run has no scatter. So what one more server would be off by counts as one
    /// run beside them, as it does in what is known of a front end. Runs that the fit left out decide nothing here either.
    fn own_runs(&self, device: &Device, engine: &str) -> Option<f64> {
        let is_told = self.is_of(device) && self.has_fitted_host(engine);
        let evidence = self.evidence.as_ref().filter(|_| is_told)?;
        let fitted = evidence.runs.iter().filter(|run| !run.is_left_out);
        let steps = fitted.filter(|run| !run.figure.starts_with("ttft"));
        let mut squares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for run in steps {
            squares
                .entry(&run.run)
                .or_default()
                .push(run.error().ln_1p().powi(2));
        }
        let of_run = |figures: &Vec<f64>| figures.iter().sum::<f64>() / figures.len() as f64;
        let runs: Vec<f64> = squares.values().map(of_run).collect();
        let sum: f64 = UNSEEN_SERVER.powi(2) + runs.iter().sum::<f64>();
        let sigma = (sum / (1.0 + runs.len() as f64)).sqrt();
        (!runs.is_empty()).then(|| sigma.max(REPEAT_SIGMA))
    }
}

/// Root mean square, widened so that the normal law's 90 % is Student's.
fn pooled(errors: impl Iterator<Item = f64>) -> Option<f64> {
    let squares: Vec<f64> = errors.map(|error| error * error).collect();
    let number = squares.len() as f64;
    let mean = squares.iter().sum::<f64>() / number;
    (!squares.is_empty()).then(|| mean.sqrt() * student_t(0.9, number) / Z_90)
}

/// Kinds of kernels that a model's weights take on a device: `gemm.bf16`, `moe.mxfp4`.
#[must_use]
pub fn kinds_of_weights(device: &Device, model: &ModelShape, placement: &Placement) -> BTreeSet<String> {
    let tp = placement.tensor_parallel;
    let products = linears(model, &device.peaks, tp);
    let routed = experts(model, &device.peaks, tp);
    let products = products
        .iter()
        .map(|one| format!("gemm.{}", key(one.format.kernel)));
    let routed = routed.iter().map(|one| format!("moe.{}", key(one.format.kernel)));
    products.chain(routed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Trust;
    use crate::cost::calibration::{for_device, prior, shipped, shipped_names};
    use crate::cost::testing::{device, llama_8b, placement};
    use crate::cost::uncertainty::Component;
    use crate::model::Quantization;

    /// Every family that some shipped file left out, its errors over the files.
    fn left_out() -> BTreeMap<String, Vec<FamilyEvidence>> {
        let mut all: BTreeMap<String, Vec<FamilyEvidence>> = BTreeMap::new();
        for family in shipped_names()
            .filter_map(|name| shipped(name)?.evidence)
            .flat_map(|evidence| evidence.families)
        {
            all.entry(family.family.clone()).or_default().push(family);
        }
        all
    }

    fn root_mean_square(families: &[FamilyEvidence]) -> f64 {
        let squares: Vec<f64> = families
            .iter()
            .filter_map(|family| family.step_ln)
            .map(|x| x * x)
            .collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    }

    #[test]
    fn the_constants_are_what_the_shipped_files_say() {
        let left_out = left_out();
        let servers = pooled(left_out.values().map(|families| root_mean_square(families))).unwrap();
        assert!((servers - UNSEEN_SERVER).abs() < 0.005, "{servers}");
        let cards = left_out.iter().filter(|(name, _)| name.starts_with("course"));
        let cards = pooled(cards.map(|(_, families)| root_mean_square(families))).unwrap();
        assert!((cards - UNSEEN_CARD).abs() < 0.005, "{cards}");
    }

    #[test]
    fn intervals_are_never_narrower_than_the_discrepancy() {
        for short in ["h100", "h200", "a100", "a100-pcie", "l40s", "b200"] {
            let device = device(short);
            let calibration = for_device(&device, "vllm").calibration;
            let sigmas = calibration.sigmas(&device, &llama_8b(), &placement());
            let (_, step) = sigmas
                .iter()
                .find(|(component, _)| *component == Component::Step)
                .unwrap();
            let families = calibration.evidence.unwrap().families;
            assert!(families.len() >= 4, "{short}");
            assert!(*step >= root_mean_square(&families), "{short}: {step}");
        }
    }

    /// Each family's errors lie within the interval that the other families make, for about nine in ten.
    #[test]
    fn families_lie_within_what_the_others_say() {
        let (mut inside, mut all) = (0, 0);
        for name in shipped_names() {
            let Some(evidence) = shipped(name).and_then(|calibration| calibration.evidence) else {
                continue;
            };
            for (index, family) in evidence.families.iter().enumerate() {
                let others = evidence
                    .families
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != index);
                let others: Vec<FamilyEvidence> = others.map(|(_, family)| family.clone()).collect();
                let own_card = others.iter().any(|other| other.gpu == family.gpu);
                let sigma = pooled(others.iter().filter_map(|family| family.step_ln)).unwrap();
                let sigma = if own_card { sigma } else { sigma.hypot(UNSEEN_CARD) };
                all += 1;
                inside += u32::from(family.step_ln.unwrap() < Z_90 * sigma);
            }
        }
        let share = f64::from(inside) / f64::from(all);
        assert!((0.75..=1.0).contains(&share), "{inside} of {all}");
    }

    #[test]
    fn runs_of_the_very_server_replace_what_others_say() {
        let (device, model) = (device("h100"), llama_8b());
        let shipped = for_device(&device, "vllm").calibration;
        let mut own = shipped.clone();
        own.provenance.source = Source::Benchmark;
        own.provenance.gpu = "h100-sxm-80gb".to_owned();
        let evidence = own.evidence.as_mut().unwrap();
        evidence.families.clear();
        for run in &mut evidence.runs {
            (run.predicted, run.is_left_out) = (1.02 * run.measured, false);
        }
        assert_eq!(own.step_sigma(&device, &model, &placement()), REPEAT_SIGMA);
        assert!(own.front_end_sigma(&device, &placement()) < 0.3);
        // Few runs say less: what other servers miss by counts as one of them.
        let names: BTreeSet<String> = (own.evidence.iter().flat_map(|evidence| &evidence.runs))
            .map(|run| run.run.clone())
            .collect();
        let widths = [1, 4, 12].map(|count| {
            let mut few = own.clone();
            let kept: BTreeSet<&String> = names.iter().take(count).collect();
            let runs = &mut few.evidence.as_mut().unwrap().runs;
            runs.retain(|run| kept.contains(&run.run));
            few.step_sigma(&device, &model, &placement())
        });
        assert!(
            (widths[0] - UNSEEN_SERVER / 2_f64.sqrt()).abs() < 0.003,
            "{widths:?}"
        );
        assert!(
            (widths[1] - UNSEEN_SERVER / 5_f64.sqrt()).abs() < 0.006,
            "{widths:?}"
        );
        assert!(widths[2] == REPEAT_SIGMA, "{widths:?}");
        // A run that the fit left out is none of them; one that it could not meet is.
        for (factor, is_left_out) in [(10.0, true), (1.2, true), (1.2, false)] {
            let mut with_far = own.clone();
            let first = &mut with_far.evidence.as_mut().unwrap().runs[0];
            (first.predicted, first.is_left_out) = (factor * first.measured, is_left_out);
            let sigma = with_far.step_sigma(&device, &model, &placement());
            assert_eq!(sigma < 0.035, is_left_out, "{factor}: {sigma}");
        }
        // Errors of its own runs are its discrepancy.
        for run in &mut own.evidence.as_mut().unwrap().runs {
            run.predicted = 1.1 * run.measured;
        }
        let sigma = own.step_sigma(&device, &model, &placement());
        assert!((0.09..0.11).contains(&sigma), "{sigma}");
        // Runs of vLLM say nothing of another engine on the same card.
        let other = crate::cost::roofline::Placement {
            engine: "sglang".to_owned(),
            ..placement()
        };
        let sigma = own.step_sigma(&device, &model, &other);
        assert!(
            (sigma - UNSEEN_SERVER.hypot(UNSEEN_CARD)).abs() < 1e-12,
            "{sigma}"
        );
        // Another card's measurements are not this one's.
        own.provenance.gpu = "H200-SXM-141GB".to_owned();
        assert!(own.step_sigma(&device, &model, &placement()) > UNSEEN_SERVER);
    }

    #[test]
    fn what_no_run_had_is_less_certain() {
        let (seen, model) = (device("h100"), llama_8b());
        let calibration = for_device(&seen, "vllm").calibration;
        let known = calibration.step_sigma(&seen, &model, &placement());
        let other_card = for_device(&device("b200"), "vllm").calibration;
        assert!(other_card.step_sigma(&device("b200"), &model, &placement()) > known);
        let mut narrow = llama_8b();
        narrow.quantization = Quantization::Fp8;
        assert!(calibration.step_sigma(&seen, &narrow, &placement()) > known);
        let mut split = placement();
        split.tensor_parallel = 2;
        let step = |placement: &Placement| calibration.step_sigma(&seen, &model, placement);
        assert!((step(&split) - known.hypot(UNSEEN_CARD)).abs() < 1e-12);
        split.engine = "sglang".to_owned();
        assert!((step(&split) - known.hypot(UNSEEN_CARD).hypot(UNSEEN_CARD)).abs() < 1e-12);
        let unknown = prior(&seen).distrusted(Trust::Prior);
        assert!(unknown.step_sigma(&seen, &narrow, &placement()) > UNSEEN_SERVER);
        assert_eq!(calibration.front_end_sigma(&seen, &placement()), REQUEST_SD_LN);
    }
}
