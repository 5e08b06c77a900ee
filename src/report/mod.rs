//! Bytes from results. Nothing here opens files, prints or computes what a result means.
//!
//! One module a format: [`text`] for terminals, [`json`] (a superset of vLLM's), [`csv`], [`md`], and [`chart`] for SVG
//! and PNG. People get three significant figures and a unit ([`figures`]), files full precision.

pub mod anatomy;
pub mod audited;
pub mod calibrated;
pub mod chart;
pub mod compared;
pub mod conformed;
pub mod csv;
pub mod diffed;
pub mod drafts;
pub mod explained;
pub mod figures;
pub mod film;
pub mod in_flight;
pub mod json;
mod knee_limit;
mod knee_view;
pub mod knees;
pub mod lab;
pub mod md;
mod page;
pub mod pairs;
pub mod pareto;
pub mod prometheus;
pub(crate) mod prose;
pub mod purchases;
mod searched;
mod sought;
mod sparkline;
pub mod splits;
mod standing;
mod style;
pub mod sweep;
mod sweep_answer;
pub mod sweep_layout;
pub mod sweep_view;
pub(crate) mod tables;
pub mod text;
mod text_answer;
mod text_caveats;
mod text_cost;
mod text_knee;
mod text_latency;
pub mod text_parts;
mod text_promise;
mod text_relays;
mod text_replicas;
mod text_sizing;
mod text_tiers;
pub mod text_waits;
mod text_whole;
pub mod timeline;
mod tried;
mod trust;
mod turns;
mod undone;
pub mod validated;
pub mod validated_kernels;
pub mod validated_requests;
pub mod versus;
mod versus_answer;
pub mod versus_caveats;
pub mod versus_data;
mod versus_measures;
mod views;
mod words;
pub mod working_set;

pub use figures::counted;
pub use knee_limit::{First, limiter_code, resource};
pub use knee_view::KneeContext;
pub(crate) use page::{folded, glossary, list_on, table_on, wrapped};
pub use sought::Sought;
pub use sparkline::sparkline;
pub use style::Style;
pub use text_knee::{answer as knee_answer, knee as knee_text, promised};
pub(crate) use text_whole::little_law;
pub use trust::{trust_mark, trust_word};
pub use turns::Turns;
pub use views::{
    ClassPromise, Counted, Interrupted, KneePoint, KneeView, Limit, PoolMeta, Promise, Quantiles, RampUp,
    ResultMeta, ScalingMeta, Sizing, Utilisation, verdict_word,
};
pub use words::EngineWords;

#[cfg(test)]
mod fixtures;
