//! A fit of a shipped calibration to observations, as every test of `calibrate` begins it.

use plimsoll::calibrate::Request;
use plimsoll::calibrate::component::Options;
use plimsoll::calibrate::observation::Observation;
use plimsoll::cost::calibration::{self, Source, shipped};
use plimsoll::hardware;

pub(crate) fn request(gpu: &str, base: &str, observations: Vec<Observation>) -> Request {
    let (device, _) = hardware::find(gpu).unwrap();
    let prior = calibration::prior(&device);
    Request {
        source: Source::Benchmark,
        base: shipped(base).unwrap().over(&prior),
        device,
        kept: None,
        observations,
        inputs: Vec::new(),
        runs: Vec::new(),
        engine: "vllm".to_owned(),
        bandwidth_of: None,
        options: Options {
            hold_out: 0.3,
            seed: 0,
            draws: 40,
        },
        command: String::new(),
    }
}
