//! Laws that hold in every run: conservation, determinism, common random numbers, monotony, and extreme inputs.
//!
//! Scenarios are drawn from a seed, which a failure prints and which replays it.

#[path = "../common/mod.rs"]
mod common;

mod anatomy;
mod caches;
mod cluster;
mod conservation;
mod corners;
mod determinism;
mod extremes;
mod front_end;
mod ledger;
mod live;
mod monotone;
mod replicas;
mod scenario;
mod unlike;
