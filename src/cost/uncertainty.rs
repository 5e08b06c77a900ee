//! How far a step time may be off because its parameters are: per component, apart from any sampling.
//!
//! A component's error is one factor on all of its time, `exp(N(0, σ))`: shapes of one layer err together, and what
//! averages out between them is already left out of σ ([`super::calibration::BlockEvidence::sigma_ln`]). Components
//! are taken to err independently. What no component explains (another server's clocks and software, other tenants)
//! is a component of its own, the whole step, whose σ is [`super::discrepancy`]'s.

use super::Trust;
use super::calibration::{Calibration, Host, KernelFormat};
use super::operators::{Experts, OPERATORS, experts, linears};
use super::roofline::Placement;
use crate::hardware::Device;
use crate::model::{Dtype, ModelShape};
use crate::stats::Z_90;

/// A part of a step whose time errs as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Products with weights, LM head and router included.
    Linear,
    /// Attention of decoding sequences.
    DecodeAttention,
    /// Attention of chunks.
    PrefillAttention,
    /// What picks the tokens that sparse attention reads, projections left out.
    Indexer,
    /// Layers of constant state, projections left out.
    Recurrence,
    /// Routed experts.
    Experts,
    /// Norms, activations, sampling.
    Small,
    /// Traffic between ranks.
    Collectives,
    /// What drafts for the next step.
    Drafting,
    /// What the engine's CPU adds to a step.
    Host,
    /// Launching the kernels of steps that replay no CUDA graph.
    Launching,
    /// What the API server adds around the engine.
    FrontEnd,
    /// Its time for each output token.
    Streaming,
    /// All of a step at once: how far one server is from what its parts add up to.
    Step,
}

impl Component {
    /// In the order of a breakdown.
    pub const ALL: [Component; 14] = [
        Component::Linear,
        Component::DecodeAttention,
        Component::PrefillAttention,
        Component::Indexer,
        Component::Recurrence,
        Component::Experts,
        Component::Small,
        Component::Collectives,
        Component::Drafting,
        Component::Host,
        Component::Launching,
        Component::FrontEnd,
        Component::Streaming,
        Component::Step,
    ];

    /// For people and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Component::Linear => "linear",
            Component::DecodeAttention => "decode_attention",
            Component::PrefillAttention => "prefill_attention",
            Component::Indexer => "indexer",
            Component::Recurrence => "recurrence",
            Component::Experts => "experts",
            Component::Small => "elementwise",
            Component::Collectives => "collectives",
            Component::Drafting => "drafting",
            Component::Host => "host",
            Component::Launching => "launching",
            Component::FrontEnd => "front_end",
            Component::Streaming => "streaming",
            Component::Step => "whole_step",
        }
    }

    /// Which component an operator's time belongs to.
    fn of(operator: &str) -> Component {
        match operator {
            "decode_attention" => Component::DecodeAttention,
            "prefill_attention" => Component::PrefillAttention,
            "indexer" => Component::Indexer,
            "recurrent_decode" | "recurrent_prefill" => Component::Recurrence,
            "experts" => Component::Experts,
            "elementwise" | "sampling" => Component::Small,
            "all_reduce" | "logits_gather" => Component::Collectives,
            "drafter" => Component::Drafting,
            _ => Component::Linear,
        }
    }

    fn operators(self) -> impl Iterator<Item = &'static str> {
        OPERATORS
            .into_iter()
            .filter(move |operator| self == Component::Step || Component::of(operator) == self)
    }
}

impl Calibration {
    /// The calibration under which one component takes `factor` times as long.
    #[must_use]
    pub fn scaled(&self, component: Component, factor: f64) -> Calibration {
        let mut scaled = self.clone();
        for operator in component.operators() {
            *scaled.scale.entry((*operator).to_owned()).or_insert(1.0) *= factor;
        }
        for host in scaled.host.values_mut() {
            match component {
                Component::Host => scale_step(host, factor),
                Component::Launching => scale_launches(host, factor),
                Component::Step => {
                    scale_step(host, factor);
                    scale_launches(host, factor);
                }
                Component::FrontEnd => scale_front_end(host, factor),
                Component::Streaming => host.per_output_token_us *= factor,
                _ => {}
            }
        }
        scaled
    }

    /// σ of ln(time) of every component that a step of this model has, in the order of [`Component::ALL`].
    #[must_use]
    pub fn sigmas(
        &self,
        device: &Device,
        model: &ModelShape,
        placement: &Placement,
    ) -> Vec<(Component, f64)> {
        let one = |component: Component| {
            let sigma = self.sigma(component, device, model, placement)?;
            Some((component, sigma))
        };
        Component::ALL.into_iter().filter_map(one).collect()
    }

    fn sigma(
        &self,
        component: Component,
        device: &Device,
        model: &ModelShape,
        placement: &Placement,
    ) -> Option<f64> {
        let tp = placement.tensor_parallel;
        let attention = |part: &str| {
            // No table has latent attention.
            let trust = match model.has_latent_cache() {
                true => Trust::Prior,
                false => self.attention.as_ref()?.trust,
            };
            Some(self.block_sigma(&format!("attention.{part}"), trust))
        };
        // Of a cache in two formats, the less certain kernels'.
        let of_formats = |[narrow, wide]: [&str; 2]| {
            let format = placement.kv_format;
            let part = |dtype: Dtype| if dtype == Dtype::Fp8 { narrow } else { wide };
            let sigma = |dtype: Dtype| attention(part(dtype));
            Some(sigma(format.dtype)?.max(sigma(format.windowed)?))
        };
        match component {
            Component::Linear => {
                let formats = linears(model, &device.peaks, tp);
                let sigma = |format: KernelFormat| {
                    let own = self.gemm.get(&format);
                    let trust = own.map_or(Trust::Prior, |gemm| gemm.trust);
                    self.block_sigma(&format!("gemm.{}", key(format)), trust)
                };
                formats
                    .iter()
                    .map(|linear| sigma(linear.format.kernel))
                    .reduce(f64::max)
            }
            Component::Experts => {
                let formats = experts(model, &device.peaks, tp);
                let sigma = |experts: &Experts| {
                    let format = placement.kernels_of(experts);
                    let own = self.moe.get(&format).filter(|_| experts.are_gated());
                    let trust = own.map_or(Trust::Prior, |moe| moe.trust);
                    self.block_sigma(&format!("moe.{}", key(format)), trust)
                };
                formats.iter().map(sigma).reduce(f64::max)
            }
            Component::DecodeAttention | Component::PrefillAttention if model.indexer().is_some() => {
                Some(without_evidence(Trust::RooflineOnly))
            }
            Component::DecodeAttention => of_formats(["fp8_kv", "decode"]),
            Component::PrefillAttention => of_formats(["prefill_fp8_kv", "prefill"]),
            Component::Indexer => model.indexer().map(|_| without_evidence(Trust::RooflineOnly)),
            Component::Recurrence => model.recurrence().map(|_| without_evidence(Trust::RooflineOnly)),
            Component::Small => Some(without_evidence(self.elementwise.as_ref()?.trust)),
            Component::Collectives => (tp > 1).then(|| {
                let own = self.allreduce.iter().find(|link| link.gpus == tp);
                if own.is_none() && tp > 2 && device.nvlink_of(tp).is_none() {
                    return UNKNOWN_HOST_BRIDGE;
                }
                let trust = own.map_or(Trust::Prior, |link| link.trust);
                self.block_sigma(&format!("allreduce.{tp}"), trust)
            }),
            Component::Drafting => {
                let drafter = placement.drafting.as_ref()?.drafter.as_ref();
                drafter.map(|_| without_evidence(Trust::Prior))
            }
            Component::FrontEnd => self
                .host_of(&placement.engine)
                .map(|_| self.front_end_sigma(device, placement)),
            Component::Step => Some(self.step_sigma(device, model, placement)),
            Component::Launching => self
                .host_of(&placement.engine)
                .map(|_| self.open_sigma(&placement.engine, "eager_launch_us", UNKNOWN_LAUNCHES)),
            Component::Streaming => self
                .host_of(&placement.engine)
                .filter(|host| host.per_output_token_us > 0.0)
                .map(|_| self.open_sigma(&placement.engine, "per_output_token_us", UNKNOWN_STREAMING)),
            Component::Host => {
                let engine = &placement.engine;
                let host = self.host_of(&placement.engine)?;
                let name = format!("host.{engine}");
                // What overlaps with the GPU was hardly ever fitted, and hosts differ by more than kernels do. Another
                // engine's terms are its CPU code, measured or not, and say little of this one's.
                let is_overlapped = placement.asynchronous && !self.has_measured_overlap(engine);
                let is_borrowed = !self.host.contains_key(engine);
                Some(if is_overlapped || is_borrowed || host.trust >= Trust::Prior {
                    UNKNOWN_HOST
                } else {
                    self.block_sigma(&name, host.trust)
                })
            }
        }
    }

    /// Of one term: what the runs of this engine left open, or what is known of hosts in general.
    fn open_sigma(&self, engine: &str, term: &str, unknown: f64) -> f64 {
        let name = format!("host.{engine}");
        let evidence = self.evidence.as_ref();
        let open = evidence.is_some_and(|evidence| {
            let term = format!("{name}.{term}");
            evidence.unidentified.contains(&term)
        });
        let block = evidence.and_then(|evidence| evidence.blocks.get(&name));
        let interval = block.and_then(|block| block.interval_90.get(term));
        match interval {
            Some([low, high]) if !open && *low > 0.0 => ((high / low).ln() / (2.0 * Z_90)).max(0.05),
            _ => unknown,
        }
    }

    /// By evidence where the block is the one that was fitted; by trust alone elsewhere.
    fn block_sigma(&self, name: &str, trust: Trust) -> f64 {
        let fitted = matches!(trust, Trust::Measured | Trust::Calibrated);
        let evidence = self.evidence.as_ref().filter(|_| fitted);
        let block = evidence.and_then(|evidence| evidence.blocks.get(name));
        block.map_or_else(|| without_evidence(trust), |block| block.sigma_ln)
    }
}

/// What the host adds to steps.
fn scale_step(host: &mut Host, factor: f64) {
    for term in [
        &mut host.step_us,
        &mut host.per_seq_us,
        &mut host.async_gap_us,
        &mut host.async_gap_per_seq_us,
        &mut host.async_floor_us,
        &mut host.async_floor_per_seq_us,
    ] {
        *term *= factor;
    }
}

/// What a step that replays no graph cannot be faster than.
fn scale_launches(host: &mut Host, factor: f64) {
    for term in [
        &mut host.eager_launch_us,
        &mut host.eager_dispatch_us,
        &mut host.piecewise_us_per_layer,
    ] {
        *term *= factor;
    }
}

fn scale_front_end(host: &mut Host, factor: f64) {
    for term in [
        &mut host.request_ms,
        &mut host.request_serial_ms,
        &mut host.per_prompt_token_us,
        &mut host.response_ms,
    ] {
        *term *= factor;
    }
}

/// σ of a host whose terms were not measured.
const UNKNOWN_HOST: f64 = 0.5;

/// σ of launches where no run speaks about them: 0.13 ms a layer by what calls of the driver take, 0.94 ms on the one server that
/// was measured (docs/probe.md).
pub(crate) const UNKNOWN_LAUNCHES: f64 = 0.8;

/// σ of an API server's time for a token. Seen were 62 and 70 µs with an A100 (vllm-project/vllm#12287) and 85 to 93 on a slow host
/// (docs/probe.md); the TTFT of kubecon/vllm, by which one may fit, asks for 11 to 75 (28 in the middle). The prior is near their
/// geometric middle.
pub(crate) const UNKNOWN_STREAMING: f64 = 0.5;

/// σ of an all-reduce of more than two GPUs that speak through the host: on the one server of four and eight L40S whose tables are known its
/// bus carries 3.6 to 5.2 and 1.1 to 2.7 GB/s, where two carry 18 to 20.
const UNKNOWN_HOST_BRIDGE: f64 = 0.7;

/// σ where no fit says it: a probe of this card; published fits without intervals; cards of the family (10 % in the
/// median, 31 to 41 % at the 95th percentile); datasheets alone (27 to 82 % in the median).
fn without_evidence(trust: Trust) -> f64 {
    match trust {
        Trust::Measured => 0.05,
        Trust::Calibrated => 0.08,
        Trust::Prior => 0.16,
        Trust::RooflineOnly | Trust::Doubtful => 0.35,
    }
}

pub(super) fn key(format: KernelFormat) -> &'static str {
    let known = KernelFormat::ALL.iter().find(|(known, _)| *known == format);
    known.expect("ALL holds every format").1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::for_device;
    use crate::cost::testing::{device, llama_8b, placement};

    #[test]
    fn launches_are_as_open_as_the_runs_leave_them() {
        let sigma = |name: &str| {
            crate::cost::calibration::shipped(name).unwrap().open_sigma(
                "vllm",
                "eager_launch_us",
                UNKNOWN_LAUNCHES,
            )
        };
        assert_eq!(
            sigma("h100-sxm-80gb-vllm"),
            UNKNOWN_LAUNCHES,
            "no run speaks about them"
        );
        assert_eq!(sigma("datasheet"), UNKNOWN_LAUNCHES);
        let served = sigma("h100-served");
        assert!((0.05..UNKNOWN_LAUNCHES).contains(&served), "{served}");
    }

    #[test]
    fn a_part_scales_its_own_terms() {
        let base = crate::cost::calibration::shipped("datasheet").unwrap();
        let host = |component: Component| base.scaled(component, 2.0).host["vllm"].clone();
        let own = &base.host["vllm"];
        let slow = host(Component::Launching);
        assert_eq!(
            (slow.eager_launch_us, slow.step_us),
            (2.0 * own.eager_launch_us, own.step_us)
        );
        let slow = host(Component::Host);
        assert_eq!(
            (slow.eager_launch_us, slow.step_us),
            (own.eager_launch_us, 2.0 * own.step_us)
        );
        let slow = host(Component::Step);
        assert_eq!(
            (slow.eager_launch_us, slow.step_us),
            (2.0 * own.eager_launch_us, 2.0 * own.step_us)
        );
    }

    #[test]
    fn products_are_what_no_other_component_claims() {
        let products =
            |operator: &str| operator.ends_with("_proj") || ["router", "lm_head"].contains(&operator);
        for operator in OPERATORS {
            assert_eq!(
                Component::of(operator) == Component::Linear,
                products(operator),
                "{operator}"
            );
        }
        assert_eq!(Component::Host.operators().count(), 0);
    }

    #[test]
    fn a_dense_model_on_one_gpu_has_no_experts_and_no_collectives() {
        let device = device("h100");
        let calibration = for_device(&device, "vllm").calibration;
        let sigmas = calibration.sigmas(&device, &llama_8b(), &placement());
        assert!(
            sigmas
                .iter()
                .all(|(component, _)| !matches!(component, Component::Experts | Component::Collectives))
        );
        assert!(
            sigmas.iter().all(|(_, sigma)| (0.01..=1.0).contains(sigma)),
            "{sigmas:?}"
        );
    }

    #[test]
    fn a_cousins_parameters_are_less_certain() {
        let device = device("h100");
        let own = for_device(&device, "vllm").calibration;
        let cousins = own.clone().distrusted(Trust::Prior);
        let linear = |c: &Calibration| c.sigmas(&device, &llama_8b(), &placement())[0].1;
        assert!(linear(&cousins) > 1.5 * linear(&own));
    }
}
