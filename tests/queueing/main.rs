//! The simulator, configured as a queueing system whose means are known, must give those means.
//!
//! How a test is sized: a closed form must lie within [`system::TOLERANCE`], 1.5 %, of the mean that comes out, and within
//! 1.5 times the half-width of the judge's 95 % interval. Request counts are chosen from the variance of the mean so that its
//! standard error is about 0.38 % over a whole run and 0.54 % where the judge cuts half of it as warm-up: then a true
//! result is 2.8 standard errors inside, and an error of 3 % as far outside. Seeds are fixed.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/given.rs"]
mod given;

mod alarms;
mod closed;
mod cluster;
mod decode;
mod gateway;
mod many_servers;
mod pipeline;
mod sharing;
mod single_server;
mod speculation;
mod steps;
mod system;
mod theory;
