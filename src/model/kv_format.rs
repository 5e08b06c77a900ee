//! In what keys and values are cached: one format for all layers, or another one for those with a sliding window.
//!
//! Law: both are the same unless somebody asked for layers to be left out (`--kv-cache-dtype-skip-layers`).

use super::{Attention, Dtype};

/// Formats of the KV cache of a model's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvFormat {
    /// Of layers that attend to everything.
    pub dtype: Dtype,
    /// Of layers with a sliding window.
    pub windowed: Dtype,
}

impl From<Dtype> for KvFormat {
    fn from(dtype: Dtype) -> KvFormat {
        KvFormat {
            dtype,
            windowed: dtype,
        }
    }
}

impl KvFormat {
    /// That of a layer.
    #[must_use]
    pub fn of(self, attention: &Attention) -> Dtype {
        match attention {
            Attention::Grouped { window: Some(_), .. } => self.windowed,
            _ => self.dtype,
        }
    }

    /// Whether layers with a window have one of their own.
    #[must_use]
    pub fn is_mixed(self) -> bool {
        self.windowed != self.dtype
    }

    /// As vLLM spells it, `fp8`, or `fp8, windows bfloat16`.
    #[must_use]
    pub fn name(self) -> String {
        match self.is_mixed() {
            true => format!("{}, windows {}", self.dtype.name(), self.windowed.name()),
            false => self.dtype.name().to_owned(),
        }
    }
}
