//! What a setting is, and how many of it are bought, in words.

use crate::config::axes::own_name;
use crate::report::figures::count;
use crate::report::knees::Labels;

/// What a setting is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `H100-SXM-80GB`.
    pub gpu: String,
    /// What a command calls it: the same, or the path of a profile.
    pub named: String,
    /// GPUs that share every layer of a replica.
    pub tensor_parallel: String,
    /// Stages that its layers are split into.
    pub pipeline_parallel: u64,
    /// Data-parallel engines inside it.
    pub data_parallel: u64,
    /// What other axes say of it.
    pub rest: Labels,
}

/// How many replicas there are, and what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// All do both.
    Alike(u64),
    /// So many prefill, and so many decode.
    Apart(u64, u64),
}

impl Config {
    /// `H100-SXM-80GB TP1`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.gpu, self.shape())
    }

    /// How its GPUs share a replica, `TP2`, `TP2 PP2`: one stage or engine is left out, and what an axis says of it.
    pub(super) fn parts(&self) -> Vec<(&'static str, String)> {
        let says = |flag: &str| {
            let key = |axis: &str| axis.rsplit('.').next().map(own_name);
            let mut rest = self.rest.iter();
            rest.any(|(axis, _)| key(axis).as_deref() == Some(flag))
        };
        let mut parts = vec![("TP", self.tensor_parallel.clone())];
        let more = [
            ("PP", self.pipeline_parallel, "pipeline-parallel-size"),
            ("DP", self.data_parallel, "data-parallel-size"),
        ];
        let more = more
            .into_iter()
            .filter(|(_, number, flag)| *number > 1 && !says(flag));
        parts.extend(more.map(|(name, number, _)| (name, number.to_string())));
        parts
    }

    /// `TP2 PP2`.
    pub(super) fn shape(&self) -> String {
        let parts = self.parts().into_iter();
        let parts: Vec<String> = parts.map(|(name, number)| name.to_owned() + &number).collect();
        parts.join(" ")
    }

    /// What other axes say of it: `, max-num-seqs = 64`.
    pub(super) fn of_axes(&self) -> String {
        let rest = self.rest.iter();
        rest.map(|(axis, value)| format!(", {axis} = {value}")).collect()
    }
}

impl How {
    /// With so many more of each.
    pub(super) fn and(self, more: u64) -> How {
        match self {
            How::Alike(replicas) => How::Alike(replicas + more),
            How::Apart(prefill, decode) => How::Apart(prefill + more, decode + more),
        }
    }
}

/// What is bought, GPUs first.
pub(super) fn bought(config: &Config, how: How, gpus: u64) -> String {
    let size = config.parts().into_iter();
    let size: Vec<String> = size.map(|(name, number)| format!("{name} {number}")).collect();
    let size = size.join(", ");
    let inside = match how {
        How::Alike(replicas) if replicas == gpus => size,
        How::Alike(1) => format!("1 replica, {size}"),
        How::Alike(replicas) => format!("{} replicas, {size}", count(replicas)),
        How::Apart(prefill, decode) => format!("{prefill} prefill + {decode} decode, {size}"),
    };
    format!("{} × {} ({inside}){}", count(gpus), config.gpu, config.of_axes())
}
