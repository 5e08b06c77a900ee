//! Plimsoll shows how hard an LLM server may be loaded before its time to first token and inter-token latency sink.
//!
//! The core is a pure function of (scenario, seed): no input or output, no wall clock, no threads but the two of [`threads`]. Data flows one way,
//! and a lower module never imports a higher one:
//! [`units`], [`stats`] → [`hardware`], [`model`] → [`cost`], [`workload`] → [`kv`], [`facts`] → [`engine`] →
//! [`cluster`] → [`sim`] → [`metrics`], [`results`], [`threads`] → [`analysis`], [`audit`] → [`config`], [`conform`] → [`sweep`], [`calibrate`],
//! [`validate`] → [`report`] → [`probe`], `serve` (a feature), [`cli`].
//!
//! A run takes three calls: read a scenario, resolve it against profiles, calibrations and defaults, simulate it.
//!
//! ```
//! use plimsoll::analysis::{Experiment, Verdict, simulate};
//! use plimsoll::config::{Document, NoFiles, resolve};
//! use plimsoll::metrics::Records;
//!
//! let scenario = r#"
//!     model.name = "meta-llama/Llama-3.1-8B-Instruct"
//!     cluster.gpu = "H100-SXM-80GB"
//!     engine.max_model_len = 8192
//!     workload.num_prompts = 5000
//!     workload.arrivals.poisson.request_rate = 8.0
//!     workload.lengths.fixed = { input_len = 512, output_len = 128 }
//! "#;
//! let document = Document::parse("mine.toml", scenario).expect("it is TOML");
//! let resolved = resolve(document, &NoFiles).expect("it is a scenario");
//! let run = simulate(&resolved.scenario, &Experiment::of_whole_run(Records::None), |_| true).result;
//! assert_eq!(run.verdict, Verdict::Stable);
//! let p99_ttft_s = run.whole.ttft.quantile_s(0.99).expect("requests were answered");
//! assert!(p99_ttft_s < 0.2);
//! ```

pub mod digest;
pub mod ids;
pub mod nearest;
pub mod python;
pub mod quantity;
pub mod rng;
pub mod stats;
pub mod units;
pub mod window;

pub mod hardware;
pub mod model;

pub mod cost;
pub mod workload;

pub mod facts;
pub mod kv;

pub mod engine;

pub mod sim;

pub mod live;
pub mod metrics;
pub mod results;
pub mod threads;

pub mod analysis;
pub mod audit;

pub mod cluster;
pub mod config;

pub mod conform;

pub mod calibrate;
pub mod lab;
pub mod sweep;
pub mod validate;

pub mod report;

pub mod cli;
pub mod probe;
#[cfg(feature = "serve")]
pub mod serve;
