//! Plimsoll shows how hard an LLM server may be loaded before its time to first token and inter-token latency sink.
//!
//! The core is a pure function of (scenario, seed): no input or output, no wall clock, no threads but the two of [`threads`]. Data flows one way,
//! and a lower module never imports a higher one:
//! [`units`], [`stats`] → [`hardware`], [`model`] → [`cost`], [`workload`] → [`kv`], [`facts`] → [`engine`] →
//! [`cluster`] → [`sim`] → [`metrics`], [`results`], [`threads`] → [`analysis`], [`audit`] → [`config`], [`conform`] → [`sweep`], [`calibrate`],
//! [`validate`] → [`report`] → [`probe`], [`cli`].

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

pub mod metrics;
pub mod results;
pub mod threads;

pub mod analysis;
pub mod audit;

pub mod cluster;
pub mod config;

pub mod conform;

pub mod calibrate;
pub mod sweep;
pub mod validate;

pub mod report;

pub mod cli;
pub mod probe;
