//! Names of cards: which are read, and as what.

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
    for name in ["H100x8", "8 x H100", "H100 × 8", "8*h100"] {
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
