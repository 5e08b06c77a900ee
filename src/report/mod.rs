//! Bytes from results. Nothing here opens files, prints or computes what a result means.
//!
//! One module a format: [`text`] for terminals, [`json`] (a superset of vLLM's), [`csv`], [`md`], and [`chart`] for SVG
//! and PNG. People get three significant figures and a unit ([`figures`]), files full precision.

pub mod audited;
pub mod calibrated;
pub mod chart;
pub mod compared;
pub mod csv;
pub mod diffed;
pub mod figures;
pub mod json;
mod knee_view;
pub mod md;
mod sparkline;
pub mod sweep;
pub(crate) mod tables;
pub mod text;
mod text_knee;
mod text_latency;
mod text_replicas;
mod text_sizing;
pub mod text_waits;
pub mod validated;
pub mod validated_kernels;
pub mod validated_requests;
pub mod versus;
pub mod versus_data;
mod views;
pub mod working_set;

pub use figures::counted;
pub use knee_view::KneeContext;
pub use sparkline::sparkline;
pub use text_knee::{answer as knee_answer, knee as knee_text};
pub use views::{
    Interrupted, KneePoint, KneeView, Limit, Promise, Quantiles, RampUp, ResultMeta, Sizing, Style,
    Utilisation, trust_mark, trust_word, verdict_word,
};

#[cfg(test)]
mod fixtures;
