//! The shipped devices, and finding one by any reasonable shortening of its name.
//!
//! A name is an id's parts in order with any left out (`l40s`, `h200_sxm`, `RTX4090`, `a100 80`), whatever its case and
//! separators; the parts that tell a variant (`ti`, `super`) stay. Where several cards fit, the SXM one with the most memory is meant,
//! and a note says so. What fits none may be the name that a driver prints (`NVIDIA H100 80GB HBM3`), which [`Product`] reads word by
//! word. A name that is neither gets the cards of which a shortening is nearest to it (most people write `rtx4091` and not
//! `RTX-4091-24GB`), then those with its chip.

use std::fmt;
use std::sync::LazyLock;

use super::Device;
use super::product::{BRANDS, Product, VARIANTS, without_epithets};
use super::profiles::PROFILES;
use crate::nearest::{nearest, slips, squash};

/// Other names, squashed and without their vendor, and the shortening of an id that each is: that of a card that goes by its memory, those of
/// machines that have no other GPU, and what AMD's driver prints for two cards alike.
const ALIASES: [(&str, &str); 8] = [
    ("h20141gb", "h203e"),
    ("h20141", "h203e"),
    ("dgxspark", "gb10"),
    ("spark", "gb10"),
    ("jetsont5000", "jetsonagxthor"),
    ("t5000", "jetsonagxthor"),
    ("instinctmi250xmi250", "mi250x"),
    ("radeon7900xtx", "rx7900xtx"),
];

static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| {
    PROFILES
        .iter()
        .map(|(stem, text)| {
            Device::from_toml(text, stem).expect("shipped profiles are valid, a test reads them all")
        })
        .collect()
});

/// No shipped device has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownDevice {
    /// What was asked for.
    pub name: String,
    /// Ids that are spelt alike, nearest first.
    pub suggestions: Vec<String>,
    /// The cards that the name counts and the one that it counts: 8 and `h100` of `8xH100`.
    pub counted: Option<(u32, String)>,
}

impl fmt::Display for UnknownDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown GPU \"{}\"", self.name)?;
        if let Some((count, card)) = &self.counted {
            return write!(
                f,
                "\n  it says how many cards, too: give the GPU `{card}` and `-tp {count}`"
            );
        }
        if !self.suggestions.is_empty() {
            write!(f, "\n  did you mean {}?", self.suggestions.join(" or "))?;
        }
        write!(
            f,
            "\n  `plimsoll hw` lists the known ones, `plimsoll hw add` makes a new one"
        )
    }
}

/// Ids of the shipped devices in lower case, which are known before any profile is read.
pub(super) fn ids() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(stem, _)| *stem)
}

/// Every shipped device, in the order of listings.
#[must_use]
pub fn all() -> &'static [Device] {
    &DEVICES
}

/// The shipped device of that name, and a note where the name fits several.
///
/// ```
/// let (device, note) = plimsoll::hardware::find("h100").unwrap();
/// assert_eq!(device.id, "H100-SXM-80GB");
/// assert!(note.unwrap().contains("H100-PCIE-80GB"));
/// ```
pub fn find(name: &str) -> Result<(Device, Option<String>), UnknownDevice> {
    let fitting = readings(name);
    match fitting[..] {
        [] => Err(UnknownDevice {
            name: name.to_string(),
            suggestions: suggestions(name),
            counted: counted(name),
        }),
        [only] => Ok((only.clone(), None)),
        [first, ref others @ ..] => {
            let others: Vec<&str> = others.iter().map(|device| device.id.as_str()).collect();
            let note = format!(
                "\"{name}\" read as {}; it could also be {}",
                first.id,
                others.join(", ")
            );
            Ok((first.clone(), Some(note)))
        }
    }
}

/// The devices that a name may mean, the likeliest first: one where it is exact.
#[must_use]
pub fn readings(name: &str) -> Vec<&'static Device> {
    let wanted = wanted(name);
    let exact = all().iter().find(|device| squash(&device.id) == wanted);
    let shortened_to = |wanted: &str| -> Vec<&Device> {
        let fits = |device: &&Device| is_shortening(wanted, &device.id);
        all().iter().filter(fits).collect()
    };
    let mut fitting: Vec<&Device> = match exact {
        Some(device) => vec![device],
        None => shortened_to(&wanted),
    };
    if fitting.is_empty() {
        fitting = of_product(name);
        if let (true, Some((bare, is_machine))) = (fitting.is_empty(), without_epithets(&wanted)) {
            fitting = shortened_to(&bare);
            fitting.retain(|device| !is_machine || device.nvlink.is_some());
        }
    } else if fitting.len() > 1 && squash(name).starts_with("nvidia") {
        // `NVIDIA H200` is what the driver prints for the SXM one: it would name any other form.
        let product = Product::new(name);
        let printed = |device: &&Device| product.is_drivers_name_of(device);
        let drivers: Vec<&Device> = fitting.iter().copied().filter(printed).collect();
        if !drivers.is_empty() {
            fitting = drivers;
        }
    }
    fitting.sort_by_key(|device| (!device.id.contains("-SXM-"), std::cmp::Reverse(device.memory)));
    fitting
}

/// The devices that a driver may print so. One that tells the kind of memory tells the form, too, where it is not SXM, and so does the name
/// of a machine.
fn of_product(name: &str) -> Vec<&'static Device> {
    let product = Product::new(name);
    let is_drivers = product.names_kind_of_memory() || product.names_machine();
    let fits = |device: &&Device| match is_drivers {
        true => product.is_drivers_name_of(device),
        false => product.may_be(device),
    };
    all().iter().filter(fits).collect()
}

/// How many cards a name counts, and which: `8xH100`, `2x A100`, `H100 x8`.
fn counted(name: &str) -> Option<(u32, String)> {
    let name = name.trim().to_lowercase().replace('×', "x");
    let parts = |(left, right): (&str, &str)| (left.trim().to_owned(), right.trim().to_owned());
    let first = name.split_once('x').map(parts);
    let last = name
        .rsplit_once('x')
        .map(parts)
        .map(|(card, count)| (count, card));
    let read = |(count, card): (String, String)| Some((count.parse().ok()?, card));
    let known = |(count, card): &(u32, String)| *count > 0 && !readings(card).is_empty();
    [first, last].into_iter().flatten().filter_map(read).find(known)
}

/// A name without its vendor, as ids are compared.
fn wanted(name: &str) -> String {
    let wanted = squash(name);
    let stripped = ["nvidia", "amd"]
        .iter()
        .find_map(|vendor| wanted.strip_prefix(vendor));
    let wanted = stripped.unwrap_or(&wanted);
    let alias = ALIASES.iter().find(|(alias, _)| *alias == wanted);
    alias.map_or(wanted, |(_, meant)| meant).to_string()
}

/// Whether `wanted` is the id's parts in order with some left out. The parts that name the chip and its variant must stay.
fn is_shortening(wanted: &str, id: &str) -> bool {
    shortenings(id).any(|short| short == wanted)
}

/// Every shortening of an id, squashed: `h100`, `h100sxm`, `h10080`, `h100sxm80g` ….
fn shortenings(id: &str) -> impl Iterator<Item = String> {
    let parts: Vec<String> = id.split('-').map(squash).collect();
    let tells_variant = |part: &String| VARIANTS.contains(&part.as_str());
    let bits = parts.iter().map(|part| u32::from(tells_variant(part)));
    let variant: u32 = bits.enumerate().map(|(index, bit)| bit << index).sum();
    let names_variant = move |kept: &u32| kept & variant == variant;
    let choices = (1u32..1 << parts.len()).filter(names_variant);
    choices.flat_map(move |kept| {
        let is_kept = |index: &usize| kept & (1 << *index) != 0;
        let kept: Vec<&str> = (0..parts.len())
            .filter(is_kept)
            .map(|index| parts[index].as_str())
            .collect();
        let names_chip = kept.iter().any(|part| {
            let is_form = ["sxm", "pcie", "nvl", "ada"].contains(part);
            !is_size(part) && !is_form && !BRANDS.contains(part) && !VARIANTS.contains(part)
        });
        let whole = kept.concat();
        // A size may be written without its unit.
        let unit = if kept.last().is_some_and(|part| is_size(part)) {
            2
        } else {
            0
        };
        let written = (0..=unit).map(move |cut| whole[..whole.len() - cut].to_string());
        written.filter(move |_| names_chip)
    })
}

/// Whether a part of an id is its memory, `80gb`.
fn is_size(part: &str) -> bool {
    part.strip_suffix("gb")
        .is_some_and(|size| size.parse::<u32>().is_ok())
}

/// Up to three ids that may be meant: of which some shortening is nearest, then those of its chip, then those that share a part.
fn suggestions(name: &str) -> Vec<String> {
    let wanted = &wanted(name);
    let product = Product::new(name);
    let mut near: Vec<(usize, &str)> = all()
        .iter()
        .filter_map(|device| {
            let short: Vec<String> = shortenings(&device.id).collect();
            let distance = slips(wanted, short.iter().map(String::as_str))?;
            Some((distance, device.id.as_str()))
        })
        .collect();
    near.sort_by_key(|&(distance, _)| distance);
    let of_chip = all().iter().filter(|device| product.names_chip(device));
    let of_chip = of_chip.map(|device| device.id.as_str());
    let alike = nearest(wanted, all().iter().map(|device| device.id.as_str()), 3);
    let mut ids: Vec<&str> = Vec::new();
    for id in near.into_iter().map(|(_, id)| id).chain(of_chip).chain(alike) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.truncate(3);
    ids.into_iter().map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> String {
        find(name).map_or_else(|error| error.to_string(), |(device, _)| device.id)
    }

    #[test]
    fn every_profile_is_valid_and_its_id_is_its_file_name() {
        for (device, (stem, text)) in all().iter().zip(PROFILES) {
            assert_eq!(device.id, stem.to_uppercase());
            assert!(text.contains("# Source: "), "{stem} names no source");
            let ridge = device.peaks.bf16.0 / device.memory_bandwidth.0;
            // GeForce cards of small chips have 70 FLOP a byte and more; H20 has far more bandwidth for its compute than all others.
            let least = match stem {
                "h20-96gb" | "h20-3e-141gb" => 30.0,
                _ => 60.0,
            };
            assert!((least..1000.0).contains(&ridge), "{stem}: {ridge} FLOP per byte");
        }
    }

    #[test]
    fn every_profile_on_disk_is_shipped() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/hardware_profiles");
        let on_disk = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(on_disk, PROFILES.len() + 1, "all but template.toml are embedded");
    }

    #[test]
    fn case_and_separators_do_not_matter() {
        for name in [
            "H100-SXM-80GB",
            "h100_sxm_80gb",
            "h100 sxm 80GB",
            "NVIDIA H100-SXM-80GB",
            "h100sxm80gb",
        ] {
            assert_eq!(found(name), "H100-SXM-80GB");
        }
    }

    #[test]
    fn any_shortening_by_whole_parts_is_understood() {
        assert_eq!(found("l40s"), "L40S-48GB");
        assert_eq!(found("h200_sxm"), "H200-SXM-141GB");
        assert_eq!(found("rtx4090"), "RTX-4090-24GB");
        assert_eq!(found("4090"), "RTX-4090-24GB");
        assert_eq!(found("l4"), "L4-24GB");
        assert_eq!(found("h100-pcie"), "H100-PCIE-80GB");
        assert_eq!(found("a100-40gb"), "A100-SXM-40GB");
        assert_eq!(found("a100 80"), "A100-SXM-80GB");
        assert_eq!(found("RTX4090-24G"), "RTX-4090-24GB");
        assert_eq!(found("rtx4080"), "RTX-4080-16GB");
        assert_eq!(found("rtx 4080 super"), "RTX-4080-SUPER-16GB");
        assert_eq!(found("4070ti-super"), "RTX-4070-TI-SUPER-16GB");
        assert_eq!(found("3090ti"), "RTX-3090-TI-24GB");
        assert_eq!(found("rtx-pro-6000"), "RTX-PRO-6000-96GB");
        assert_eq!(found("rtx pro 6000 max-q"), "RTX-PRO-6000-MAX-Q-96GB");
        assert_eq!(found("a4000"), "RTX-A4000-16GB");
        assert_eq!(found("v100"), "V100-SXM-32GB");
        assert_eq!(found("v100-16gb"), "V100-SXM-16GB");
        assert_eq!(found("gb10"), "GB10-128GB");
        assert_eq!(found("dgx-spark"), "GB10-128GB");
        assert_eq!(found("NVIDIA DGX Spark"), "GB10-128GB");
        assert_eq!(found("orin"), "JETSON-AGX-ORIN-64GB");
        assert_eq!(found("jetson-thor"), "JETSON-AGX-THOR-128GB");
        assert_eq!(found("7900xtx"), "RX-7900-XTX-24GB");
        assert_eq!(found("w7900"), "RADEON-PRO-W7900-48GB");
        assert_eq!(found("r9700"), "RADEON-AI-PRO-R9700-32GB");
        assert!(find("80gb").is_err());
        assert!(find("sxm").is_err());
        assert!(find("super").is_err());
        assert!(find("radeon").is_err());
        assert!(find("").is_err());
    }

    #[test]
    fn what_a_name_says_of_the_machine_tells_no_other_card() {
        for (name, id) in [
            ("gb200_nvl72", "GB200-186GB"),
            ("GB200-NVL72", "GB200-186GB"),
            ("GB200NVL72", "GB200-186GB"),
            ("B200-NVL8", "B200-SXM-180GB"),
            ("HGX B200", "B200-SXM-180GB"),
            ("HGXB200", "B200-SXM-180GB"),
            ("HGXH100", "H100-SXM-80GB"),
            ("DGX H100", "H100-SXM-80GB"),
            ("RTXPRO6000BlackwellServer", "RTX-PRO-6000-96GB"),
            ("RTX PRO 6000 BlackwellMax-Q", "RTX-PRO-6000-MAX-Q-96GB"),
            ("L40S-PCIE", "L40S-48GB"),
            ("H200-NVL", "H200-NVL-141GB"),
            ("TeslaT4", "T4-16GB"),
            ("H20-141GB", "H20-3E-141GB"),
            ("h20", "H20-96GB"),
            ("a10", "A10-24GB"),
            ("a10g", "A10G-24GB"),
            ("mi250", "MI250-64GB"),
        ] {
            let (device, note) = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((device.id.as_str(), note), (id, None), "{name}");
        }
        for name in ["RTX-PRO-6000-NVL8", "H20-PCIE", "server", "nvl8"] {
            assert!(find(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_name_that_counts_cards_is_told_how_to_say_so() {
        insta::assert_snapshot!(found("8xH100"), @r#"
        unknown GPU "8xH100"
          it says how many cards, too: give the GPU `h100` and `-tp 8`
        "#);
        let counted = |name: &str| find(name).unwrap_err().counted;
        for name in ["H100x8", "8 x H100", "H100 × 8"] {
            assert_eq!(counted(name), Some((8, "h100".to_owned())), "{name}");
        }
        assert_eq!(counted("2x A100"), Some((2, "a100".to_owned())));
        assert_eq!(counted("0xH100"), None);
        assert_eq!(counted("rx7900"), None);
    }

    #[test]
    fn a_short_name_that_fits_several_takes_the_largest_sxm_card_and_says_so() {
        let (device, note) = find("a100").unwrap();
        assert_eq!(device.id, "A100-SXM-80GB");
        insta::assert_snapshot!(note.unwrap(), @r#""a100" read as A100-SXM-80GB; it could also be A100-SXM-40GB, A100-PCIE-80GB, A100-PCIE-40GB"#);
    }

    /// Another chip, or another clock: nobody who writes `3090` has a 3090 Ti.
    #[test]
    fn the_parts_that_tell_a_variant_are_never_left_out() {
        for name in ["3090", "4080", "rtx5070", "rtx-pro-6000-96gb"] {
            assert_eq!(find(name).unwrap().1, None, "{name}");
        }
        for name in ["4060", "rtx-4070-ti", "7900"] {
            assert!(find(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_a_driver_prints_for_a_shipped_card_finds_it() {
        #[rustfmt::skip]
        const PRINTED: [(&str, &[&str]); PROFILES.len()] = [
            ("B300-SXM-288GB", &["NVIDIA B300 SXM6 AC"]),
            ("GB300-288GB", &["NVIDIA GB300"]),
            ("GB200-186GB", &["NVIDIA GB200"]),
            ("B200-SXM-180GB", &["NVIDIA B200"]),
            ("GH200-144GB", &["NVIDIA GH200 144G HBM3e"]),
            ("H200-SXM-141GB", &["NVIDIA H200"]),
            ("H200-NVL-141GB", &["NVIDIA H200 NVL"]),
            ("GH200-96GB", &["NVIDIA GH200 480GB"]),
            ("H100-SXM-80GB", &["NVIDIA H100 80GB HBM3", "NVIDIA_H100_80GB_HBM3"]),
            ("H100-NVL-94GB", &["NVIDIA H100 NVL"]),
            ("H100-PCIE-80GB", &["NVIDIA H100 PCIe"]),
            ("H800-SXM-80GB", &["NVIDIA H800"]),
            ("H20-3E-141GB", &["NVIDIA H20-3e"]),
            ("H20-96GB", &["NVIDIA H20"]),
            ("A100-SXM-80GB", &["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"]),
            ("A100-PCIE-80GB", &["NVIDIA A100 80GB PCIe"]),
            ("A100-SXM-40GB", &["NVIDIA A100-SXM4-40GB"]),
            ("A100-PCIE-40GB", &["NVIDIA A100-PCIE-40GB"]),
            ("A800-SXM-80GB", &["NVIDIA A800-SXM4-80GB"]),
            ("A40-48GB", &["NVIDIA A40"]),
            ("A30-24GB", &["NVIDIA A30"]),
            ("V100-SXM-32GB", &["Tesla V100-SXM2-32GB"]),
            ("V100-PCIE-32GB", &["Tesla V100-PCIE-32GB"]),
            ("V100-SXM-16GB", &["Tesla V100-SXM2-16GB"]),
            ("V100-PCIE-16GB", &["Tesla V100-PCIE-16GB"]),
            ("RTX-PRO-6000-96GB", &[
                "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            ]),
            ("RTX-PRO-6000-MAX-Q-96GB", &["NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"]),
            ("RTX-PRO-5000-48GB", &["NVIDIA RTX PRO 5000 Blackwell"]),
            ("RTX-PRO-4500-32GB", &["NVIDIA RTX PRO 4500 Blackwell"]),
            ("RTX-PRO-4000-24GB", &["NVIDIA RTX PRO 4000 Blackwell"]),
            ("L40S-48GB", &["NVIDIA L40S"]),
            ("L40-48GB", &["NVIDIA L40"]),
            ("L20-48GB", &["NVIDIA L20"]),
            ("RTX-6000-ADA-48GB", &["NVIDIA RTX 6000 Ada Generation"]),
            ("RTX-5000-ADA-32GB", &["NVIDIA RTX 5000 Ada Generation"]),
            ("RTX-4000-ADA-20GB", &["NVIDIA RTX 4000 Ada Generation"]),
            ("RTX-2000-ADA-16GB", &["NVIDIA RTX 2000 Ada Generation"]),
            ("RTX-A6000-48GB", &["NVIDIA RTX A6000"]),
            ("RTX-A5000-24GB", &["NVIDIA RTX A5000"]),
            ("RTX-A4000-16GB", &["NVIDIA RTX A4000"]),
            ("RTX-5090-32GB", &["NVIDIA GeForce RTX 5090"]),
            ("RTX-5080-16GB", &["NVIDIA GeForce RTX 5080"]),
            ("RTX-5070-TI-16GB", &["NVIDIA GeForce RTX 5070 Ti"]),
            ("RTX-5070-12GB", &["NVIDIA GeForce RTX 5070"]),
            ("RTX-5060-TI-16GB", &["NVIDIA GeForce RTX 5060 Ti"]),
            ("RTX-4090-24GB", &["NVIDIA GeForce RTX 4090"]),
            ("RTX-4080-SUPER-16GB", &["NVIDIA GeForce RTX 4080 SUPER"]),
            ("RTX-4080-16GB", &["NVIDIA GeForce RTX 4080"]),
            ("RTX-4070-TI-SUPER-16GB", &["NVIDIA GeForce RTX 4070 Ti SUPER"]),
            ("RTX-4070-12GB", &["NVIDIA GeForce RTX 4070"]),
            ("RTX-4060-TI-16GB", &["NVIDIA GeForce RTX 4060 Ti"]),
            ("RTX-3090-TI-24GB", &["NVIDIA GeForce RTX 3090 Ti"]),
            ("RTX-3090-24GB", &["NVIDIA GeForce RTX 3090"]),
            ("RTX-3080-10GB", &["NVIDIA GeForce RTX 3080"]),
            ("RTX-3060-12GB", &["NVIDIA GeForce RTX 3060"]),
            ("RTX-2080-TI-11GB", &["NVIDIA GeForce RTX 2080 Ti"]),
            ("L4-24GB", &["NVIDIA L4"]),
            ("A10G-24GB", &["NVIDIA A10G"]),
            ("A10-24GB", &["NVIDIA A10"]),
            ("A16-16GB", &["NVIDIA A16"]),
            ("A2-16GB", &["NVIDIA A2"]),
            ("T4-16GB", &["Tesla T4", "NVIDIA T4"]),
            ("GB10-128GB", &["NVIDIA GB10"]),
            ("JETSON-AGX-THOR-128GB", &["NVIDIA Thor"]),
            ("JETSON-AGX-ORIN-64GB", &["Orin"]),
            ("MI355X-288GB", &["AMD Instinct MI355X"]),
            ("MI350X-288GB", &["AMD Instinct MI350X"]),
            ("MI325X-256GB", &["AMD Instinct MI325X"]),
            ("MI300X-192GB", &["AMD Instinct MI300X", "AMD Instinct MI300X OAM"]),
            ("MI250X-64GB", &["AMD Instinct MI250X", "AMD Instinct MI250X/MI250"]),
            ("MI250-64GB", &["AMD Instinct MI250"]),
            ("MI210-64GB", &["AMD Instinct MI210"]),
            ("RADEON-PRO-W7900-48GB", &["AMD Radeon PRO W7900"]),
            ("RADEON-AI-PRO-R9700-32GB", &["AMD Radeon AI PRO R9700"]),
            ("RX-7900-XTX-24GB", &["AMD Radeon RX 7900 XTX", "Radeon RX 7900 XTX"]),
        ];
        for (device, (id, printed)) in all().iter().zip(PRINTED) {
            assert_eq!(device.id, id);
            for name in printed.iter().copied().chain([device.name.as_str()]) {
                let (found, note) = find(name).unwrap();
                assert_eq!((found.id.as_str(), note), (id, None), "{name}");
            }
        }
    }

    #[test]
    fn a_variant_of_a_shipped_card_is_none_of_them_but_brings_it_to_mind() {
        for (name, alike) in [
            ("NVIDIA GeForce RTX 4090 D", "RTX-4090-24GB"),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX-4090-24GB"),
            ("NVIDIA H800 NVL", "H800-SXM-80GB"),
            ("NVIDIA GeForce RTX 3060 Ti", "RTX-3060-12GB"),
            ("NVIDIA GeForce RTX 4070 Ti", "RTX-4070-12GB"),
            ("NVIDIA RTX PRO 4000 Blackwell SFF Edition", "RTX-PRO-4000-24GB"),
            ("NVIDIA H100 80GB HBM3 MIG 7g.80gb", "H100-SXM-80GB"),
            ("NVIDIA A100-SXM-64GB", "A100-SXM-80GB"),
            ("AMD Instinct MI300X VF", "MI300X-192GB"),
        ] {
            let unknown = find(name).unwrap_err();
            assert!(
                unknown.suggestions.iter().any(|id| id == alike),
                "{name}: {unknown}"
            );
        }
        assert!(readings("NVIDIA RTX 4500 Ada Generation").is_empty());
        assert!(readings("NVIDIA GeForce RTX 3070").is_empty());
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_ones() {
        insta::assert_snapshot!(found("RTX4091"), @r#"
        unknown GPU "RTX4091"
          did you mean RTX-4090-24GB or RTX-PRO-4000-24GB or RTX-4000-ADA-20GB?
          `plimsoll hw` lists the known ones, `plimsoll hw add` makes a new one
        "#);
        let first = |name: &str| find(name).unwrap_err().suggestions.first().cloned();
        for (slip, meant) in [
            ("h1000", "H100-SXM-80GB"),
            ("l40x", "L40S-48GB"),
            ("mi300", "MI300X-192GB"),
            ("a100-smx-80gb", "A100-SXM-80GB"),
            ("rtx pro 600", "RTX-PRO-6000-96GB"),
        ] {
            assert_eq!(first(slip).as_deref(), Some(meant), "{slip}");
        }
        assert_eq!(first("abacus"), None);
    }
}
