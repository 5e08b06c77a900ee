//! A row with what follows from it: each figure with how it was come by and how exactly it is known.

use super::finding::{show, time};
use crate::hardware::{self, Device};
use crate::model::{self, ModelShape, Quantization};
use crate::results::{Load, Measured, Stats, Tool};

/// What a row ran on.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The GPU.
    pub device: Option<Device>,
    /// The model, in the precision that was run.
    pub model: Option<ModelShape>,
    /// GPUs, each with a share of the weights.
    pub tensor_parallel: Option<u32>,
    /// All GPUs.
    pub n_gpus: Option<u32>,
}

/// A figure that is known within a relative slack.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) value: f64,
    /// Relative half-width of what it may be: from printed digits, or from the way it was derived.
    pub(super) slack: f64,
    /// How it was come by, with numbers.
    pub(super) how: String,
}

impl Figure {
    fn of(value: f64, how: &str) -> Figure {
        Figure {
            value,
            slack: printed_slack(value),
            how: how.to_owned(),
        }
    }

    /// The least that it may be.
    pub(super) fn low(&self) -> f64 {
        self.value * (1.0 - self.slack).max(0.0)
    }

    /// Of requests in flight, in words.
    pub(super) fn little(&self) -> String {
        format!("Little: {} = {} in flight", self.how, show(self.value))
    }
}

/// Half of the last digit that a number is written with, relative to it: 21 may be 20.5 to 21.5, 0.13 may be 0.125. Whole
/// numbers are written to the last one: 400 is not 350 to 450.
pub(super) fn printed_slack(value: f64) -> f64 {
    half_digit(value).min(0.5 / value.abs())
}

/// The same for a time in seconds, which tools print in milliseconds.
pub(super) fn printed_time_slack(seconds: f64) -> f64 {
    half_digit(seconds).min(0.0005 / seconds.abs())
}

/// Whether two figures, each with its relative slack, may be one and the same but for a relative `tolerance`. A slack is
/// relative to the figure that it stands with: 0.03 may have been 0.025 before it was rounded, and so does not contradict
/// 0.0251, which it exceeds by a fifth.
pub(super) fn may_agree(one: (f64, f64), other: (f64, f64), tolerance: f64) -> bool {
    let reaches = |(low, low_slack): (f64, f64), (high, high_slack): (f64, f64)| {
        low * (1.0 + low_slack) * (1.0 + tolerance) >= high * (1.0 - high_slack)
    };
    reaches(one, other) && reaches(other, one)
}

fn half_digit(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    // Twelve digits: a division by 1000 leaves noise in the sixteenth, and files are not written with more.
    let text = format!("{:.11e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let decimals = mantissa
        .trim_end_matches('0')
        .split('.')
        .nth(1)
        .map_or(0, str::len) as i32;
    let exponent: i32 = exponent.parse().unwrap_or(0);
    0.5 * 10f64.powi(exponent - decimals) / value.abs()
}

/// A time per token that counts the first: what it is, of how long an answer and how many tokens, and what it should be.
pub(super) struct WithFirst {
    pub(super) tpot: f64,
    pub(super) whole: f64,
    pub(super) tokens: f64,
    pub(super) sound: f64,
}

/// A row and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    pub(super) row: &'a Measured,
    pub(super) device: Option<Device>,
    pub(super) model: Option<ModelShape>,
    pub(super) tensor_parallel: u32,
    pub(super) n_gpus: u32,
    /// The tokens of the answer behind a column that is no time to first token.
    pub(super) answer_in_ttft: Option<f64>,
}

impl<'a> Case<'a> {
    pub(super) fn new(row: &'a Measured, known: Option<&Machine>) -> Case<'a> {
        let setup = &row.setup;
        // A sweep's table does not say how many GPUs a prediction is of, so no bound follows from the name of one.
        let is_unsized = row.tool == Tool::Plimsoll && setup.n_gpus.is_none();
        let device = known.and_then(|known| known.device.clone()).or_else(|| {
            if is_unsized {
                return None;
            }
            // `A100-PCIe-80GB (NVLink pair)`: what stands in brackets is a remark.
            let name = setup.gpu.as_deref()?.split('(').next()?.trim().to_owned();
            hardware::find(&name).ok().map(|(device, _)| device)
        });
        let model = known.and_then(|known| known.model.clone()).or_else(|| {
            let (model, _) = model::find_checkpoint(setup.model.as_deref()?).ok()?;
            stored_as(model, setup.precision.as_deref())
        });
        let given = known.and_then(|known| known.tensor_parallel);
        let gpus = known.and_then(|known| known.n_gpus).or(setup.n_gpus);
        let tensor_parallel = given.or(setup.tensor_parallel).or(gpus).unwrap_or(1).max(1);
        Case {
            row,
            device,
            model,
            tensor_parallel,
            n_gpus: gpus.unwrap_or(tensor_parallel).max(1),
            answer_in_ttft: None,
        }
    }

    pub(super) fn output_tokens(&self) -> Option<f64> {
        self.answer_in_ttft
            .or(self.row.setup.output_tokens)
            .filter(|tokens| *tokens >= 1.0)
    }

    pub(super) fn has_fixed_lengths(&self) -> bool {
        self.answer_in_ttft.is_some() || self.row.setup.has_fixed_lengths == Some(true)
    }

    /// Whether all answers have one length for sure: a mean that is no whole number tells of some that ended early.
    pub(super) fn has_one_length(&self) -> bool {
        let is_whole = self.output_tokens().is_some_and(|tokens| tokens.fract() == 0.0);
        self.has_fixed_lengths() && is_whole
    }

    /// Whether all answers have one length, as the file says or as their sum does: that of many is a whole number of times their
    /// count where they are all equal, and hardly ever else.
    pub(super) fn has_one_length_or_counts_it(&self) -> bool {
        const MANY: u64 = 20;
        let outcome = &self.row.outcome;
        let counted = outcome.output_tokens.zip(outcome.completed);
        let is_whole = |(tokens, answers): (f64, u64)| answers >= MANY && tokens % answers as f64 == 0.0;
        self.has_one_length() || (self.row.setup.has_fixed_lengths.is_none() && counted.is_some_and(is_whole))
    }

    /// A mean tpot that is the whole answer over all of its tokens, and clearly not the rest of it over the others; only where all
    /// answers have one length, since of means over others neither follows.
    pub(super) fn tpot_with_first(&self) -> Option<WithFirst> {
        /// What is so near is it, and what is so far is not.
        const NEAR: f64 = 0.02;
        const FAR: f64 = 0.05;
        const LEAST_TOKENS: f64 = 8.0;
        let row = self.row;
        let lengths = row.requests.iter().map(|request| request.output_tokens);
        let is_listed_alike = lengths
            .clone()
            .zip(lengths.skip(1))
            .all(|(one, next)| one == next);
        if row.tpot.derived.is_some() || !is_listed_alike || !self.has_one_length_or_counts_it() {
            return None;
        }
        let tokens = self.output_tokens().filter(|tokens| *tokens >= LEAST_TOKENS)?;
        let (tpot, whole, first) = (row.tpot.mean?, row.e2el.mean?, row.ttft.mean?);
        let is_near = |value: f64, within: f64| value > 0.0 && (tpot / value - 1.0).abs() < within;
        let sound = (whole - first) / (tokens - 1.0);
        let is_it = is_near(whole / tokens, NEAR) && first < whole && !is_near(sound, FAR);
        is_it.then_some(WithFirst {
            tpot,
            whole,
            tokens,
            sound,
        })
    }

    /// Requests that were answered, or sent where only that is known.
    pub(super) fn requests(&self) -> Option<f64> {
        let setup = &self.row.setup;
        let number = self.row.outcome.completed.or(setup.num_prompts)?;
        (number > 0).then_some(number as f64)
    }

    /// Time to first token, unless that column is something else.
    pub(super) fn ttft(&self) -> Option<&'a Stats> {
        (self.answer_in_ttft.is_none() && !self.row.ttft.is_empty()).then_some(&self.row.ttft)
    }

    /// The statistics of the whole answer, wherever they stand.
    pub(super) fn e2el_stats(&self) -> &'a Stats {
        if self.answer_in_ttft.is_some() {
            &self.row.ttft
        } else {
            &self.row.e2el
        }
    }

    /// Answers per second: as reported, else from counts, else from tokens, the first that is exact enough.
    pub(super) fn throughput(&self) -> Option<Figure> {
        const EXACT_ENOUGH: f64 = 0.01;
        let outcome = &self.row.outcome;
        let ratio = |of: Option<f64>, by: Option<f64>, slack: f64, how: &str| {
            let (of, by) = (of?, by.filter(|by| *by > 0.0)?);
            Some(Figure {
                value: of / by,
                slack,
                how: format!("{how} = {} / {}", show(of), show(by)),
            })
        };
        let slack = |value: Option<f64>| value.map_or(0.0, printed_slack);
        let (tokens, answers) = (self.output_tokens(), outcome.completed.map(|count| count as f64));
        let of_tokens = slack(outcome.output_throughput) + slack(tokens);
        let candidates = [
            outcome
                .request_throughput
                .map(|rate| Figure::of(rate, "request throughput")),
            ratio(
                answers,
                outcome.duration_s,
                slack(outcome.duration_s),
                "answers / duration",
            ),
            ratio(
                outcome.output_throughput,
                tokens,
                of_tokens,
                "output tok/s / tokens an answer",
            ),
        ];
        let known = candidates
            .into_iter()
            .flatten()
            .filter(|figure| figure.value > 0.0);
        known.min_by(|a, b| a.slack.max(EXACT_ENOUGH).total_cmp(&b.slack.max(EXACT_ENOUGH)))
    }

    /// First send to last answer, s.
    pub(super) fn duration(&self) -> Option<f64> {
        self.row
            .outcome
            .duration_s
            .or_else(|| Some(self.requests()? / self.throughput()?.value))
    }

    /// Mean of send to last token, s; from its parts where it was not measured.
    pub(super) fn e2el(&self) -> Option<Figure> {
        let stats = self.e2el_stats();
        if let Some(mean) = stats.mean {
            let slack = printed_time_slack(mean);
            return Some(Figure {
                slack,
                ..Figure::of(mean, "mean e2el")
            });
        }
        if let Some(median) = stats.median {
            let slack = printed_time_slack(median) + 0.05;
            return Some(Figure {
                slack,
                ..Figure::of(median, "median e2el")
            });
        }
        self.sum_of_parts()
    }

    /// `ttft + (n − 1) · tpot`, exact for means where all answers have one length.
    fn sum_of_parts(&self) -> Option<Figure> {
        let (ttft, tokens) = (self.ttft()?, self.output_tokens()?);
        let (first, step, means) = match (ttft.mean, self.row.tpot.mean) {
            (Some(first), Some(step)) => (first, step, true),
            _ => (ttft.centre()?, self.row.tpot.centre()?, false),
        };
        let value = first + (tokens - 1.0) * step;
        let printed = printed_time_slack(step).max(printed_time_slack(first)) + printed_slack(tokens);
        // A mean over requests weighs a short answer, whose few tokens waited long, as much as a long one.
        let derived = if self.has_fixed_lengths() && means {
            0.02
        } else {
            0.25
        };
        let how = format!("ttft + {} × tpot = {}", show(tokens - 1.0), time(value));
        Some(Figure {
            value,
            slack: printed + derived,
            how,
        })
    }

    /// Little's law: `L = X · W`.
    pub(super) fn in_flight(&self) -> Option<Figure> {
        let (rate, whole) = (self.throughput()?, self.e2el()?);
        Some(Figure {
            value: rate.value * whole.value,
            slack: rate.slack + whole.slack,
            how: format!("{}/s × {}", show(rate.value), time(whole.value)),
        })
    }

    /// The least time of a decode step, s: every weight that one token needs is read once, over the ranks.
    pub(super) fn decode_floor_s(&self) -> Option<f64> {
        let (device, model) = (self.device.as_ref()?, self.model.as_ref()?);
        Some((model.streamed_bytes(self.tensor_parallel) / device.memory_bandwidth).0)
    }

    /// The least time of one prompt token at the dense peak of all GPUs, s.
    pub(super) fn token_floor_s(&self) -> Option<f64> {
        let (device, model) = (self.device.as_ref()?, self.model.as_ref()?);
        Some(model.linear_flops_per_token().0 / (self.peak_flops(device, model) * f64::from(self.n_gpus)))
    }

    /// Whether a prompt's length is all that is missing to bound its time to first token.
    pub(super) fn lacks_prompt(&self) -> bool {
        let is_known = self.row.setup.input_tokens.is_some();
        !is_known && self.ttft().is_some() && self.token_floor_s().is_some()
    }

    /// The fastest units that weights of this storage can be multiplied on.
    fn peak_flops(&self, device: &Device, model: &ModelShape) -> f64 {
        let peaks = &device.peaks;
        let fastest = |more: &[Option<crate::units::FlopsPerSec>]| {
            more.iter()
                .flatten()
                .fold(peaks.bf16.0, |best, rate| best.max(rate.0))
        };
        match model.quantization {
            Quantization::None => peaks.bf16.0,
            Quantization::Fp8 | Quantization::Fp8Block => fastest(&[peaks.fp8]),
            Quantization::Int8 | Quantization::WeightOnly8 { .. } | Quantization::Int4 { .. } => {
                fastest(&[peaks.int8, peaks.fp8])
            }
            Quantization::Mxfp4 | Quantization::Nvfp4 => fastest(&[peaks.fp8, peaks.fp4]),
        }
    }

    /// `Llama-3.1-8B on 2 × H100-SXM-80GB`, for arithmetic.
    pub(super) fn machine_name(&self) -> String {
        let model = self
            .model
            .as_ref()
            .map_or("?", |model| model.name.rsplit('/').next().unwrap_or("?"));
        let device = self.device.as_ref().map_or("?", |device| device.id.as_str());
        match self.n_gpus {
            1 => format!("{model} on {device}"),
            gpus => format!("{model} on {gpus} × {device}"),
        }
    }

    /// The longest that sending all requests at a rate takes, s: as it was where each tells when it was sent, else within three
    /// deviations of arrivals at random.
    pub(super) fn sending_s(&self, rate: f64) -> Option<f64> {
        let requests = self.requests()?;
        let within = requests / rate * (1.0 + 3.0 * self.sending_deviation(requests));
        Some(self.sent_within_s().unwrap_or(within))
    }

    /// Deviation of the time that sending so many takes, over that time: gaps of shape k deviate by 1/√k of their mean.
    pub(super) fn sending_deviation(&self, requests: f64) -> f64 {
        let shape = self.row.setup.burstiness.filter(|shape| *shape > 0.0);
        1.0 / (requests * shape.unwrap_or(1.0)).sqrt()
    }

    /// First to last send, s, where every request tells when it was sent.
    pub(super) fn sent_within_s(&self) -> Option<f64> {
        let starts: Option<Vec<f64>> = self.row.requests.iter().map(|request| request.start_s).collect();
        let starts = starts.filter(|starts| starts.len() > 1)?;
        let (first, last) = starts.iter().fold((f64::MAX, f64::MIN), |(first, last), start| {
            (first.min(*start), last.max(*start))
        });
        Some(last - first)
    }

    /// The part of a rate at which those were sent that did not fail.
    pub(super) fn answered_rate(&self, rate: f64) -> f64 {
        let failed = self.row.outcome.failed.unwrap_or(0) as f64;
        let completed = self.row.outcome.completed.map(|completed| completed as f64);
        completed.map_or(rate, |completed| rate * completed / (completed + failed).max(1.0))
    }

    /// How requests were sent.
    pub(super) fn load(&self) -> Load {
        self.row.setup.load
    }
}

/// The model in the precision that a row names; `None` for one that cannot be told, since a bound would be a guess.
fn stored_as(model: ModelShape, precision: Option<&str>) -> Option<ModelShape> {
    // `bf16+kv-fp8`, `fp8 (gemm fp8, moe fp8)`: what follows is not about the weights' width.
    let Some(word) = precision.and_then(|text| text.split(['+', '(']).next()) else {
        return Some(model);
    };
    let word = word.trim().to_lowercase();
    let is = |part: &str| word.contains(part);
    let quantization = if is("int4") || is("awq") || (is("gptq") && !is("int8")) {
        Quantization::AWQ
    } else if is("fp4") {
        match model.quantization {
            Quantization::Mxfp4 => Quantization::Mxfp4,
            _ => Quantization::Nvfp4,
        }
    } else if is("fp8") {
        Quantization::Fp8
    } else if is("int8") {
        Quantization::Int8
    } else if is("bf16") || is("fp16") || is("float16") || is("half") {
        Quantization::None
    } else {
        return None;
    };
    Some(model.with_quantization(quantization))
}

#[cfg(test)]
mod tests;
