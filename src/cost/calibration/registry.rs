//! The calibrations that ship with the program, and which of them serves a device.
//!
//! A GPU's own file comes first; what it lacks comes from its architecture's prior, and what that lacks from the
//! datasheet. Only a host is no matter of the GPU: a card without a file has the one that was fitted elsewhere, as a prior.
//! Law: [`for_device`] always answers, with every block filled.

use std::sync::{LazyLock, OnceLock};

use super::{Calibration, Gemm, GemmForm, KernelFormat};
use crate::cost::Trust;
use crate::cost::kernel::peak;
use crate::hardware::{Architecture, Device};

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each shipped file.
        const SHIPPED: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../calibrations/", $name, ".toml")))),*
        ];
    };
}

shipped![
    "a100-pcie-80gb-vllm",
    "a100-sxm-80gb-sglang",
    "a100-sxm-80gb-trtllm",
    "a100-sxm-80gb-vllm",
    "b200-sxm-180gb-sglang",
    "b200-sxm-180gb-trtllm",
    "b200-sxm-180gb-vllm",
    "datasheet",
    "h100-probe",
    "h100-served",
    "h100-sxm-80gb-sglang",
    "h100-sxm-80gb-trtllm",
    "h100-sxm-80gb-vllm",
    "h200-probe",
    "h200-sxm-141gb-sglang",
    "h200-sxm-141gb-trtllm",
    "h200-sxm-141gb-vllm",
    "l40s-48gb-trtllm",
    "l40s-48gb-vllm",
    "prior-ada",
    "prior-ampere",
    "prior-blackwell",
    "prior-blackwell-rtx",
    "prior-cdna",
    "prior-hopper",
    "prior-rdna",
    "prior-turing",
    "prior-volta",
];

/// Each shipped file as it was read, the first time that somebody asked for it: a fit and a table of rows ask for hundreds.
static READ: LazyLock<Vec<OnceLock<Calibration>>> =
    LazyLock::new(|| SHIPPED.iter().map(|_| OnceLock::new()).collect());

/// The file whose host terms were fitted to the most servers.
const KNOWN_HOST: &str = "h100-sxm-80gb-vllm";

/// A calibration for a device and how it was come by.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// With every block filled.
    pub calibration: Calibration,
    /// Trust of the file that was chosen; single blocks may be worse.
    pub trust: Trust,
    /// One sentence for people, which names the file and what it was made from.
    pub note: String,
}

/// Names of the shipped calibrations, in alphabetical order.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// A shipped calibration by its name, as its file has it.
#[must_use]
pub fn shipped(name: &str) -> Option<Calibration> {
    let place = SHIPPED.iter().position(|(known, _)| *known == name)?;
    let (name, text) = SHIPPED[place];
    let parse = || Calibration::parse(name, text).expect("shipped calibrations are parsed by a test");
    Some(READ[place].get_or_init(parse).clone())
}

/// The same file's text, comments included.
#[must_use]
pub fn shipped_text(name: &str) -> Option<&'static str> {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    Some(text)
}

/// Whether a calibration ships of a card by its id, under any engine.
#[must_use]
pub fn is_calibrated(id: &str) -> bool {
    let own = format!("{}-", id.to_lowercase());
    shipped_names().any(|name| name.starts_with(&own))
}

/// The best shipped calibration for `device` under `engine` (`vllm`, `sglang`).
#[must_use]
pub fn for_device(device: &Device, engine: &str) -> Chosen {
    let base = prior(device);
    let id = device.id.to_lowercase();
    let of_vllm = shipped(&format!("{id}-vllm"));
    let own = match (shipped(&format!("{id}-{engine}")), &of_vllm) {
        // What an engine's own tables lack, the same card's under vLLM tells better than another card's.
        (Some(own), Some(other)) if engine != "vllm" => {
            Some((own.over(&other.clone().distrusted(Trust::Prior)), true))
        }
        (Some(own), _) => Some((own, true)),
        (None, _) => of_vllm.map(|other| (other, false)),
    };
    // A profile may have the id of a card that was measured, and figures of its own.
    let is_changed = device.differs_from_shipped();
    let own = own
        .filter(|_| !is_changed)
        .map(|(own, same_engine)| (with_fused(own, &id, engine), same_engine));
    let like = if is_changed {
        Some(&*device.id)
    } else {
        device.like.as_deref()
    };
    match own {
        Some((own, same_engine)) => {
            let trust = own.provenance.source.trust();
            let other_engine = if same_engine {
                String::new()
            } else {
                format!("; measured with vllm's kernels, not {engine}'s")
            };
            let note = format!(
                "calibration {} ({}){other_engine}",
                own.name, own.provenance.credit
            );
            Chosen {
                calibration: own.over(&base),
                trust,
                note,
            }
        }
        None if let Some(twin) = like.and_then(|like| twin(device, like, engine)) => Chosen {
            trust: Trust::Prior,
            note: format!(
                "no measurements of {} {}ship: calibration {} ({}), of a card with the same {}",
                device.id,
                if is_changed { "with these figures " } else { "" },
                twin.name,
                twin.provenance.credit,
                if is_changed {
                    "id and other figures"
                } else {
                    "chip"
                },
            ),
            calibration: twin.over(&base),
        },
        None => {
            let trust = base.provenance.source.trust();
            let note = match trust {
                Trust::RooflineOnly => format!(
                    "no calibration fits {}: datasheet ceilings, an optimist's answer",
                    device.id
                ),
                _ => format!(
                    "no measurements of {} ship: {}, from GPUs of the same family; the host's share as fitted on others \
                     ({KNOWN_HOST})",
                    device.id, base.name
                ),
            };
            Chosen {
                calibration: match trust {
                    Trust::RooflineOnly => base,
                    _ => with_known_host(base),
                },
                trust,
                note,
            }
        }
    }
}

/// What ships of the card with the same chip that a profile names, as a prior: memory, clocks and links differ, which ceilings
/// say. What its links take is another's only where the links are.
fn twin(device: &Device, like: &str, engine: &str) -> Option<Calibration> {
    let (other, _) = crate::hardware::find(like).ok()?;
    let of = |engine: &str| shipped(&format!("{}-{engine}", other.id.to_lowercase()));
    let of_vllm = of("vllm");
    let mut found = match (of(engine), of_vllm) {
        (Some(own), Some(vllm)) if engine != "vllm" => own.over(&vllm),
        (Some(own), _) => own,
        (None, vllm) => vllm?,
    };
    found = with_fused(found, &other.id.to_lowercase(), engine);
    if device.nvlink != other.nvlink {
        found.allreduce.clear();
        found.fused_allreduce.clear();
    }
    Some(found.distrusted(Trust::Prior))
}

/// With the all-reduce that vLLM fuses with norms: FlashInfer's, a port of TensorRT-LLM's kernels, which that engine's table
/// of the card has.
fn with_fused(mut own: Calibration, id: &str, engine: &str) -> Calibration {
    if engine == "vllm" && own.fused_allreduce.is_empty() {
        own.fused_allreduce =
            shipped(&format!("{id}-trtllm")).map_or_else(Vec::new, |trtllm| trtllm.allreduce);
    }
    own
}

/// A prior with the host that servers of other cards had: scheduling, launching and the front end are a CPU's work.
fn with_known_host(mut prior: Calibration) -> Calibration {
    let fitted = shipped(KNOWN_HOST)
        .expect("the file ships")
        .distrusted(Trust::Prior);
    prior.host.extend(fitted.host);
    prior
}

/// What is known of a device's architecture, every block filled: where a fit starts, and what it falls back to.
#[must_use]
pub fn prior(device: &Device) -> Calibration {
    let name = match device.architecture {
        Architecture::Volta => Some("prior-volta"),
        Architecture::Turing => Some("prior-turing"),
        Architecture::Ampere => Some("prior-ampere"),
        Architecture::Ada => Some("prior-ada"),
        Architecture::Hopper => Some("prior-hopper"),
        Architecture::Blackwell | Architecture::BlackwellUltra => Some("prior-blackwell"),
        Architecture::BlackwellRtx => Some("prior-blackwell-rtx"),
        Architecture::Cdna => Some("prior-cdna"),
        Architecture::Rdna => Some("prior-rdna"),
        Architecture::Other => None,
    };
    let datasheet = shipped("datasheet").expect("the datasheet file ships");
    match name.and_then(shipped) {
        Some(prior) => narrowed(prior, device).over(&datasheet),
        None => datasheet,
    }
}

/// The card whose products a family's prior was fitted to; `None` of priors that rest on no card.
fn measured(prior: &Calibration) -> Option<Device> {
    let id = match prior.name.as_str() {
        "prior-ampere" => "a100-sxm-80gb",
        "prior-hopper" => "h100-sxm-80gb",
        "prior-ada" | "prior-blackwell-rtx" => "l40s-48gb",
        "prior-blackwell" => "b200-sxm-180gb",
        _ => return None,
    };
    Some(crate::hardware::find(id).expect("the card ships").0)
}

/// With products of fewer rows in proportion to how much scarcer compute is beside bandwidth (H20, RTX 3090, A2) than on the card that the
/// family was measured on: libraries have narrow kernels for a few rows, so that one sequence, padded to a kernel's rows, is as little bound by
/// compute as there. Sixteen are the fewest, those of a tensor core's tile.
fn narrowed(mut prior: Calibration, device: &Device) -> Calibration {
    const FEWEST: u32 = 16;
    let Some(measured) = measured(&prior) else {
        return prior;
    };
    let balance = |device: &Device, format| peak(&device.peaks, format).0 / device.memory_bandwidth.0;
    for format in [KernelFormat::Bf16, KernelFormat::Fp8, KernelFormat::Int8] {
        if let Some(Gemm {
            form: GemmForm::OccupancyPnorm(form),
            ..
        }) = prior.gemm.get_mut(&format)
        {
            let scarcer = balance(device, format) / balance(&measured, format);
            let rows = (f64::from(form.tile.0) * scarcer).floor() as u32;
            form.tile.0 = rows.clamp(FEWEST.min(form.tile.0), form.tile.0);
        }
    }
    prior
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::kernel::{Ceilings, GemmShape, gemm_seconds};
    use crate::cost::testing::device;
    use crate::units::FlopsPerSec;

    #[test]
    fn every_shipped_calibration_parses_and_cites_its_source() {
        for (name, text) in SHIPPED {
            let calibration = Calibration::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert!(!calibration.provenance.credit.is_empty(), "{name} credits nobody");
        }
    }

    #[test]
    fn what_a_probe_measured_on_one_card_is_calibrated_for_another() {
        for name in ["h100-probe", "h200-probe"] {
            let found = shipped(name).expect("it ships");
            let attention = found.attention.expect("it was measured");
            assert_eq!(attention.trust, Trust::Calibrated, "{name}");
            assert!(
                found.gemm.values().all(|gemm| gemm.trust == Trust::Calibrated),
                "{name}"
            );
        }
        let (card, _) = crate::hardware::find("h200").expect("it ships");
        assert_eq!(
            for_device(&card, "vllm").calibration.name,
            "h200-sxm-141gb-vllm",
            "it is chosen by name only"
        );
    }

    #[test]
    fn figures_of_one_s_own_under_a_measured_card_s_id_are_no_measured_card() {
        let (card, _) = crate::hardware::find("h100").expect("it ships");
        let faster = Device {
            memory_bandwidth: crate::units::BytesPerSec(2.0 * card.memory_bandwidth.0),
            ..card.clone()
        };
        let (measured, changed) = (for_device(&card, "vllm"), for_device(&faster, "vllm"));
        assert_eq!((measured.trust, changed.trust), (Trust::Calibrated, Trust::Prior));
        assert_eq!(changed.calibration.trust(), Trust::Prior);
        assert!(changed.note.contains("other figures"), "{}", changed.note);
    }

    #[test]
    fn a_card_of_the_same_chip_is_one_that_was_measured() {
        let all = crate::hardware::all();
        for (device, like) in all
            .iter()
            .filter_map(|device| Some((device, device.like.as_ref()?)))
        {
            let (other, _) = crate::hardware::find(like).expect("profiles name shipped cards");
            let measured = shipped(&format!("{}-vllm", other.id.to_lowercase()));
            assert!(measured.is_some(), "{}: nothing of {like} ships", device.id);
            assert_eq!(
                device.is_datacenter_blackwell(),
                other.is_datacenter_blackwell(),
                "{}",
                device.id
            );
        }
    }

    #[test]
    fn every_device_gets_every_block() {
        for (id, architecture) in [
            ("H100-SXM-80GB", Architecture::Hopper),
            ("RTX-4090-24GB", Architecture::Ada),
            ("MI300X-192GB", Architecture::Cdna),
            ("TPU", Architecture::Other),
        ] {
            let mut card = device("h100");
            card.id = id.to_owned();
            card.architecture = architecture;
            let chosen = for_device(&card, "vllm");
            assert!(chosen.calibration.attention.is_some(), "{id}");
            assert!(chosen.calibration.elementwise.is_some(), "{id}");
            assert!(chosen.calibration.host.contains_key("vllm"), "{id}");
            assert!(!chosen.calibration.gemm.is_empty(), "{id}");
        }
    }

    #[test]
    fn more_compute_makes_no_product_slower() {
        for (id, format) in [
            ("A2-16GB", KernelFormat::Bf16),
            ("A2-16GB", KernelFormat::Int8),
            ("RTX-3090-24GB", KernelFormat::Bf16),
            ("H200-NVL-141GB", KernelFormat::Int8),
            ("RTX-3080-10GB", KernelFormat::Bf16),
            ("H20-96GB", KernelFormat::Bf16),
        ] {
            let (mut card, _) = crate::hardware::find(id).expect("it ships");
            card.id = "of one's own".to_owned();
            card.like = None;
            for m in [1, 16, 512, 4096] {
                let mut fastest = f64::INFINITY;
                for percent in 50..200 {
                    let mut faster = card.clone();
                    let times = f64::from(percent) / 100.0;
                    faster.peaks.bf16.0 *= times;
                    faster.peaks.int8 = faster.peaks.int8.map(|peak| FlopsPerSec(peak.0 * times));
                    let shape = GemmShape {
                        m,
                        n: 4096,
                        k: 4096,
                        weight_bytes: 2.0,
                        input_bytes: 2.0,
                        output_bytes: 2.0,
                    };
                    let gemm = &for_device(&faster, "vllm").calibration.gemm[&format];
                    let ceilings = Ceilings::of(&faster, peak(&faster.peaks, format).0);
                    let now = gemm_seconds(gemm, &ceilings, &shape, 0.9);
                    // Rows are whole: a tile of one more may pad more rows, and a product of few rows by a sixteenth.
                    assert!(
                        now < 1.08 * fastest,
                        "{id} {format:?} of {percent} %, {m} rows: {now} after {fastest}"
                    );
                    fastest = fastest.min(now);
                }
            }
        }
    }

    #[test]
    fn a_card_of_its_own_is_calibrated_and_a_cousin_is_a_prior() {
        let own = for_device(&device("h100"), "vllm");
        assert_eq!(
            (own.calibration.name.as_str(), own.trust),
            ("h100-sxm-80gb-vllm", Trust::Calibrated)
        );
        let named = |id: &str| {
            let (card, _) = crate::hardware::find(id).expect("it ships");
            for_device(&card, "vllm")
        };
        let request_ms = |chosen: &Chosen| chosen.calibration.host["vllm"].request_ms;
        for (id, name) in [
            ("RTX-4090-24GB", "prior-ada"),
            ("H100-NVL-94GB", "h100-sxm-80gb-vllm"),
        ] {
            let cousin = named(id);
            assert_eq!(
                (cousin.calibration.name.as_str(), cousin.trust),
                (name, Trust::Prior),
                "{id}"
            );
            assert!((request_ms(&cousin) - request_ms(&own)).abs() < 1e-12, "{id}");
            assert_eq!(cousin.calibration.host["vllm"].trust, Trust::Prior, "{id}");
        }
        // A seventh of H100's compute beside more bandwidth: no row of a decode step may be padded to 128.
        let rows = |id: &str| match &named(id).calibration.gemm[&KernelFormat::Bf16].form {
            GemmForm::OccupancyPnorm(form) => form.tile.0,
            GemmForm::C5(_) => panic!("{id} has another form"),
        };
        assert_eq!((rows("H20-96GB"), rows("RTX-3090-24GB")), (16, 31));
        assert_eq!(rows("A40-48GB"), 64);
        // Its links are no NVLink switch's.
        assert!(named("H100-PCIE-80GB").calibration.allreduce.is_empty());
        assert!(!named("GB200-186GB").calibration.allreduce.is_empty());
    }
}
