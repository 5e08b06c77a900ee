//! What a card cannot reach: a calibration of absolute rates, as a probe writes them, is of one card and no share of another's.

use super::{Calibration, GemmForm, Rate};
use crate::cost::kernel::own_peak;
use crate::hardware::Device;

/// A rate that is fitted may stand so much above the datasheet's: forms and clocks are not exact.
const SLACK: f64 = 1.1;

impl Calibration {
    /// The first absolute rate that is beyond `device`, in words; `None` where it has all of them, or shares.
    #[must_use]
    pub fn beyond(&self, device: &Device) -> Option<String> {
        let bandwidth = device.memory_bandwidth.0;
        let memory = |what: &str, rate: f64| {
            (rate > SLACK * bandwidth).then(|| {
                let (rate, bandwidth) = (rate / 1e12, bandwidth / 1e12);
                format!("{what} at {rate:.2} TB/s, {} has {bandwidth:.2}", device.id)
            })
        };
        let products = self.gemm.iter().find_map(|(format, gemm)| {
            let GemmForm::C5(c5) = &gemm.form else {
                return None;
            };
            let peak = own_peak(&device.peaks, *format).map(|peak| peak.0 / 1e12);
            let compute = peak.filter(|peak| c5.p_tflops > SLACK * peak).map(|peak| {
                let rate = c5.p_tflops;
                format!("products at {rate:.0} TFLOP/s, {} has {peak:.0}", device.id)
            });
            compute.or_else(|| memory("products read", 1e9 * c5.w_gbs))
        });
        products.or_else(|| match self.attention.as_ref()?.decode.bandwidth {
            Rate::Absolute(rate) => memory("attention reads", rate),
            Rate::Share(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::cost::calibration::shipped;
    use crate::cost::testing::device;

    #[test]
    fn rates_of_a_faster_card_are_beyond_a_slower_one_and_shares_are_not() {
        let probed = shipped("h200-probe").expect("it ships");
        assert_eq!(probed.beyond(&device("h200")), None);
        let beyond = probed.beyond(&device("a100")).expect("a third of the compute");
        assert!(beyond.starts_with("products at 809 TFLOP/s"), "{beyond}");
        let beyond = probed.beyond(&device("h100")).expect("less bandwidth");
        assert!(beyond.contains("TB/s, H100-SXM-80GB has 3.35"), "{beyond}");
        let fitted = shipped("h200-sxm-141gb-vllm").expect("it ships");
        assert_eq!(fitted.beyond(&device("a100")), None);
    }
}
