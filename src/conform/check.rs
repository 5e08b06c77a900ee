//! Which recordings can be repeated: those whose values make sense, and which the engine that they name would have taken.

use std::collections::BTreeSet;

use super::recording::{CostLaw, Params, RecordedRequest, Recording, Speculative};
use super::{trtllm, v0, whose};
use crate::config::speculation::Method;

/// Sums of a few counts fit into 32 bits.
const COUNT_MAX: u32 = 1 << 28;

/// Why a file is not a recording that can be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Not JSON of this shape.
    #[error("not a recorded schedule: {0}")]
    Shape(String),
    /// Well-formed, but impossible.
    #[error("{0}")]
    Content(String),
}

/// A recording whose values make no sense.
pub(super) fn fail<T>(text: impl Into<String>) -> Result<T, RecordingError> {
    Err(RecordingError::Content(text.into()))
}

impl CostLaw {
    /// Finds coefficients that make no sense.
    pub(super) fn check(&self) -> Result<(), RecordingError> {
        let law = [self.per_step_s, self.per_token_s, self.per_attended_token_s];
        if law.iter().any(|&part| !(0.0..1e3).contains(&part)) {
            return fail("`cost` has a coefficient that is negative, not a number or above 1000 s");
        }
        Ok(())
    }
}

/// Nothing is equal to nothing: a recording has steps to compare.
pub(super) fn check_steps(steps: usize) -> Result<(), RecordingError> {
    if steps == 0 {
        return fail("`steps` is empty: there is no schedule to repeat");
    }
    Ok(())
}

/// Every request has a number of its own, and one result.
pub(super) fn check_ids(
    sent: impl Iterator<Item = u64>,
    ended: impl Iterator<Item = u64>,
) -> Result<(), RecordingError> {
    let mut open = BTreeSet::new();
    for id in sent {
        if !open.insert(id) {
            return fail(format!("request {id} is in `requests` twice"));
        }
    }
    for id in ended {
        if !open.remove(&id) {
            return fail(format!("`results` has request {id} twice, or nobody sent it"));
        }
    }
    match open.first() {
        Some(id) => fail(format!("`results` does not say what became of request {id}")),
        None => Ok(()),
    }
}

impl Recording {
    /// Finds what makes no sense.
    pub(super) fn check(&self) -> Result<(), RecordingError> {
        check_steps(self.steps.len())?;
        self.params.check()?;
        let usable = if self.is_v0() {
            v0::check(&self.params)?;
            v0::usable_blocks(&self.params)
        } else if self.is_trtllm() {
            trtllm::check(&self.params)?;
            self.params.num_gpu_blocks
        } else {
            self.profile()?;
            self.params.num_gpu_blocks - 1
        };
        self.cost.check()?;
        self.check_pipeline()?;
        whose::check(&self.engine, &self.profile)?;
        check_ids(
            self.requests.iter().map(|request| request.id),
            self.results.iter().map(|result| result.id),
        )?;
        self.requests
            .iter()
            .try_for_each(|request| request.check(&self.params, usable))
    }

    fn check_pipeline(&self) -> Result<(), RecordingError> {
        let Some(pipeline) = &self.pipeline else {
            return Ok(());
        };
        let speculates = self.params.speculative.is_some();
        if pipeline.stages.len() < 2 || self.is_v0() || self.is_trtllm() || speculates {
            return fail("`pipeline` has two stages at least, of vLLM V1 without drafts");
        }
        let mut laws = pipeline.stages.iter().chain([&pipeline.transfer]);
        laws.try_for_each(CostLaw::check)
    }
}

impl Params {
    fn check(&self) -> Result<(), RecordingError> {
        if self.block_size == 0 || self.num_gpu_blocks < 2 || self.max_num_seqs == 0 {
            return fail(
                "`params` leaves no room: block_size and max_num_seqs are at least 1, num_gpu_blocks 2",
            );
        }
        if self.max_num_batched_tokens == 0 || self.max_model_len < 2 {
            return fail("`params` allows no tokens: max_num_batched_tokens is at least 1, max_model_len 2");
        }
        if !matches!(self.policy.as_str(), "fcfs" | "priority") {
            return fail(format!(
                "`params.policy` is \"{}\"; known are fcfs and priority",
                self.policy
            ));
        }
        if self.max_num_batched_tokens > COUNT_MAX || self.max_num_seqs > COUNT_MAX {
            return fail(format!(
                "`params`: max_num_batched_tokens and max_num_seqs are at most {COUNT_MAX}"
            ));
        }
        if !(0.0..=1.0).contains(&self.watermark) || self.prefill_schedule_interval == 0 {
            return fail("`params`: watermark lies between 0 and 1, prefill_schedule_interval is at least 1");
        }
        let drafts_nothing = |speculative: &Speculative| {
            Method::named(&speculative.method).is_none() || speculative.num_speculative_tokens == 0
        };
        if self.speculative.as_ref().is_some_and(drafts_nothing) {
            return fail("`params.speculative`: the method is not modelled, or drafts nothing");
        }
        Ok(())
    }
}

impl RecordedRequest {
    /// Finds what makes no sense, or does not fit; `usable` are the blocks that one sequence may fill.
    fn check(&self, params: &Params, usable: u32) -> Result<(), RecordingError> {
        let id = self.id;
        let tokens: u64 = self.prompt.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
        let most = self.max_tokens.unwrap_or(self.output_tokens);
        let is_empty = tokens == 0 || self.output_tokens == 0;
        if is_empty || most < self.output_tokens || !(0.0..1e7).contains(&self.arrival_s) {
            return fail(format!(
                "request {id}: needs a prompt, an output and an arrival ≥ 0"
            ));
        }
        if tokens >= u64::from(params.max_model_len) {
            return fail(format!(
                "request {id}: its prompt of {tokens} tokens leaves no room"
            ));
        }
        let blocks = (tokens + u64::from(most)).div_ceil(params.block_size.into());
        let longest = params.max_model_len.div_ceil(params.block_size);
        if blocks.min(longest.into()) + u64::from(params.state_groups) > u64::from(usable) {
            return fail(format!("request {id}: could never fit the KV pool"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::conform::AnyRecording;

    const SCHEDULE: &str = include_str!("../../tests/data/schedules/two_requests.json");

    fn refused(change: impl Fn(&mut serde_json::Value)) -> String {
        let mut recording: serde_json::Value = serde_json::from_str(SCHEDULE).unwrap();
        change(&mut recording);
        let read = AnyRecording::read(recording.to_string().as_bytes());
        read.err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn what_cannot_be_repeated_is_refused_by_name() {
        assert_eq!(refused(|_| ()), "");
        assert_eq!(
            refused(|recording| recording["steps"] = serde_json::json!([])),
            "`steps` is empty: there is no schedule to repeat"
        );
        let unknown = refused(|recording| recording["params"]["max_num_partial_prefills"] = 2.into());
        assert!(
            unknown.contains("unknown field `max_num_partial_prefills`"),
            "{unknown}"
        );
        let version = refused(|recording| recording["profile"] = "vllm@9.9".into());
        assert!(version.starts_with("`profile` is vllm@9.9, and"), "{version}");
        assert!(!version.contains("is used"), "{version}");
        let engine = refused(|recording| recording["engine"] = "foo 1.0".into());
        assert!(
            engine.starts_with("`engine` is \"foo 1.0\" and `profile` vllm@0.33: "),
            "{engine}"
        );
    }
}
