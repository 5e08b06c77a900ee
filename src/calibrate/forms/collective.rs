//! All-reduce: one branch or two, of which the hold-out chooses. Between two GPUs both branches move the same bytes, and
//! the second is another library's, which takes over where messages are large and starts later.

use super::Form;
use crate::calibrate::observation::Kernel;
use crate::calibrate::solve::Parameter;
use crate::cost::Trust;
use crate::cost::calibration::{AllReduce, Calibration, OneShot};
use crate::cost::kernel::all_reduce_seconds;
use crate::hardware::Device;

/// Bus bandwidth of an all-reduce over the link's data rate in one direction.
const SHARE_OF_LINK: f64 = 0.6;

pub(super) fn forms(gpus: u32, device: &Device, base: &Calibration) -> Vec<Form> {
    let link_gbs = device.nvlink.unwrap_or(device.pcie).0 / 1e9;
    let known = base.allreduce.iter().find(|known| known.gpus == gpus);
    let bus = known.map_or(SHARE_OF_LINK * link_gbs, |known| known.bus_gbs);
    let floor = known.map_or(5.0, |known| known.overhead_us);
    let one = vec![
        Parameter::factor("o_us", (1.0, 200.0), floor, 0.5),
        Parameter::factor("bus_gbs", (0.5, 2000.0), bus, 0.5),
    ];
    let mut two = one.clone();
    two.push(Parameter::factor("one_shot_gbs", (0.5, 4000.0), 0.7 * bus, 0.5));
    two.push(Parameter::term("two_shot_extra_us", (0.0, 60.0), 6.0, 4.0));
    let plain = form(gpus, String::new(), one);
    let branched = form(gpus, "two branches".to_owned(), two);
    if gpus > 2 {
        vec![branched, plain]
    } else {
        // Most pairs of cards have one branch.
        vec![plain, branched]
    }
}

fn form(gpus: u32, label: String, parameters: Vec<Parameter>) -> Form {
    let link = move |values: &[f64]| AllReduce {
        gpus,
        overhead_us: values[0],
        bus_gbs: values[1],
        one_shot: values.get(2).map(|gbs| OneShot {
            gbs: *gbs,
            two_shot_extra_us: values[3],
        }),
        trust: Trust::Calibrated,
    };
    Form {
        label,
        parameters,
        seconds: Box::new(move |values, kernel| match kernel {
            Kernel::AllReduce(bytes) => all_reduce_seconds(&link(values), *bytes),
            _ => f64::NAN,
        }),
        store: Box::new(move |values, _, into| {
            into.allreduce.retain(|known| known.gpus != gpus);
            into.allreduce.push(link(values));
            into.allreduce.sort_by_key(|known| known.gpus);
        }),
    }
}
