//! What `nvidia-smi -q` tells of a card: enough to recognise a known one, never its peak rates.
//!
//! Left out: all GPUs but the first of the report, though [`Report::remarks`] names others. A card of a variant whose name has a word
//! more (a `D`, `Max-Q`, a laptop's) is not the known one. The rates of a recognised card come from its shipped profile; an
//! unknown card needs its datasheet.

use super::product::Product;
use super::{Architecture, Device, all};
use crate::units::Bytes;

/// Of the memory that `nvidia-smi` prints as total, the share that an engine is offered where it does not print what the driver keeps:
/// 139.8 of 140.4 GiB on an H200, 79.2 of 79.6 on an H100, 44.4 of 45.0 on an L40S, 22.0 of 22.5 on an L4.
pub const VISIBLE_SHARE: f64 = 0.99;

/// The first GPU of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// `NVIDIA H100 80GB HBM3`.
    pub product: String,
    /// `Hopper`, where the driver says it and it is known here.
    pub architecture: Option<Architecture>,
    /// Frame buffer total, before what the driver keeps.
    pub memory: Bytes,
    /// What the driver keeps of it, less than all, where it says so.
    pub reserved: Option<Bytes>,
    /// Board power limit in watts, as the card is sold.
    pub power_w: Option<f64>,
    /// The limit that it runs under now.
    pub current_power_w: Option<f64>,
    /// Lanes of its host link, in use and at most.
    pub lanes: Option<(u32, u32)>,
    /// The GPU is cut into slices.
    pub is_sliced: bool,
    /// Products of other names in the same report.
    pub others: Vec<String>,
}

/// Why a text is not a usable report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// No `Product Name` line.
    #[error("no `Product Name` in it; give the output of `nvidia-smi -q`")]
    NoProduct,
    /// No frame buffer size.
    #[error("no `FB Memory Usage` with a `Total` in it; give the whole output of `nvidia-smi -q`")]
    NoMemory,
}

/// Reads the first GPU of an `nvidia-smi -q` report.
pub fn parse(text: &str) -> Result<Report, ReportError> {
    let mut product = None;
    let mut architecture = None;
    let (mut memory, mut reserved) = (None, None);
    let mut power_w: Option<f64> = None;
    let mut current_power_w = None;
    let (mut lanes, mut lanes_max, mut is_sliced) = (None, None, false);
    let mut products: Vec<&str> = Vec::new();
    let mut section = "";
    for line in text.lines() {
        let Some((key, value)) = line.split_once(" : ") else {
            section = line.trim();
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if key == "Product Name" {
            products.push(value);
        }
        if products.len() > 1 {
            continue;
        }
        match (section, key) {
            (_, "Product Name") => product = Some(value.to_string()),
            (_, "Product Architecture") => architecture = Architecture::from_name(value),
            ("FB Memory Usage", "Total") if memory.is_none() => {
                memory = crate::quantity::parse_bytes(value).ok()
            }
            ("FB Memory Usage", "Reserved") if reserved.is_none() => {
                reserved = crate::quantity::parse_bytes(value).ok();
            }
            (_, "Default Power Limit" | "Max Power Limit") if power_w.is_none() => {
                power_w = crate::quantity::parse_watts(value).ok();
            }
            (_, "Current Power Limit" | "Enforced Power Limit" | "Power Limit")
                if current_power_w.is_none() =>
            {
                current_power_w = crate::quantity::parse_watts(value).ok();
            }
            ("Link Width", "Current") => lanes = value.trim_end_matches('x').parse().ok(),
            ("Link Width", "Max") => lanes_max = value.trim_end_matches('x').parse().ok(),
            ("MIG Mode", "Current") => is_sliced = value == "Enabled",
            _ => {}
        }
    }
    let mut others: Vec<String> = Vec::new();
    for other in products.into_iter().skip(1) {
        if product.as_deref() != Some(other) && !others.iter().any(|known| known == other) {
            others.push(other.to_string());
        }
    }
    let product = product.ok_or(ReportError::NoProduct)?;
    let memory = memory.ok_or(ReportError::NoMemory)?;
    Ok(Report {
        architecture: architecture.map(|told| of_kind(told, &product)),
        product,
        memory,
        reserved: reserved.filter(|reserved: &Bytes| reserved.0 < memory.0),
        power_w,
        current_power_w,
        lanes: lanes.zip(lanes_max),
        is_sliced,
        others,
    })
}

/// The driver says Blackwell of three kinds of chips, which the product's name tells apart.
fn of_kind(told: Architecture, product: &str) -> Architecture {
    let has = |word: &str| product.contains(word);
    match told {
        Architecture::Blackwell if has("RTX") || has("GeForce") => Architecture::BlackwellRtx,
        Architecture::Blackwell if has("B300") => Architecture::BlackwellUltra,
        _ => told,
    }
}

impl Report {
    /// The shipped device that this card is, by the chip's name, the form and the memory; `None` if none fits.
    #[must_use]
    pub fn known_device(&self) -> Option<&'static Device> {
        let product = Product::new(&self.product);
        all()
            .iter()
            .filter(|device| product.is_drivers_name_of(device))
            .find(|device| (self.memory.0 as f64 / device.memory.0 as f64 - 1.0).abs() < 0.06)
    }

    /// The known card of the same chip that this one is not, where it is none that is known.
    #[must_use]
    pub fn resembles(&self) -> Option<&'static Device> {
        if self.known_device().is_some() {
            return None;
        }
        let product = Product::new(&self.product);
        all().iter().find(|device| product.names_chip(device))
    }

    /// What of the report a profile does not hold, as sentences.
    #[must_use]
    pub fn remarks(&self, known: Option<&Device>) -> Vec<String> {
        let mut remarks = Vec::new();
        if let (Some(now), Some(sold)) = (self.current_power_w, self.power_w)
            && now < sold
        {
            remarks.push(format!(
                "its power is capped at {now} W of {sold} W: under load its clock and rates are lower than the profile's"
            ));
        }
        if let (Some(known), Some(sold)) = (known, self.power_w)
            && (sold / known.tdp_w - 1.0).abs() > 0.15
        {
            remarks.push(format!(
                "its power limit is {sold} W and that of {} {} W: perhaps it is another variant, with other rates",
                known.id, known.tdp_w
            ));
        }
        if let Some((now, most)) = self.lanes.filter(|(now, most)| now < most) {
            remarks.push(format!(
                "its host link has {now} of {most} lanes: --pcie says how fast it is, the profile has all of them"
            ));
        }
        if !self.others.is_empty() {
            remarks.push(format!(
                "the report has other cards, too ({}): only the first was read",
                self.others.join(", ")
            ));
        }
        remarks
    }

    /// Memory that an engine is offered: what the driver does not keep (on an H100 and an H200 to the MiB what
    /// `torch.cuda.mem_get_info` says is there), or else an estimate by [`VISIBLE_SHARE`].
    #[must_use]
    pub fn visible_memory(&self) -> Bytes {
        match self.reserved {
            Some(reserved) => Bytes(self.memory.0 - reserved.0),
            None => Bytes((self.memory.0 as f64 * VISIBLE_SHARE) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "
==============NVSMI LOG==============
Attached GPUs                             : 1
GPU 00000000:1A:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Architecture                  : Hopper
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    GPU Power Readings
        Current Power Limit               : 650.00 W
        Default Power Limit               : 700.00 W
        Max Power Limit                   : 700.00 W
";

    #[test]
    fn a_report_is_read() {
        let report = parse(REPORT).unwrap();
        assert_eq!(report.product, "NVIDIA H100 80GB HBM3");
        assert_eq!(report.architecture, Some(Architecture::Hopper));
        assert_eq!(report.memory, Bytes(81_559 << 20));
        assert_eq!(report.visible_memory(), Bytes((81_559 - 551) << 20));
        let older = parse(&REPORT.replace("Reserved", "Used")).unwrap();
        assert_eq!(
            older.visible_memory(),
            Bytes((81_559.0 * VISIBLE_SHARE * 1048576.0) as u64)
        );
        assert_eq!(report.power_w, Some(700.0));
        assert_eq!(report.known_device().unwrap().id, "H100-SXM-80GB");
    }

    #[test]
    fn three_kinds_of_blackwell_are_told_apart_by_the_products_names() {
        let kind = |product: &str| {
            let text = REPORT
                .replace("NVIDIA H100 80GB HBM3", product)
                .replace("Hopper", "Blackwell");
            parse(&text).unwrap().architecture
        };
        assert_eq!(kind("NVIDIA B200"), Some(Architecture::Blackwell));
        assert_eq!(kind("NVIDIA GB300"), Some(Architecture::BlackwellUltra));
        assert_eq!(kind("NVIDIA GeForce RTX 5080"), Some(Architecture::BlackwellRtx));
    }

    #[test]
    fn product_names_of_drivers_are_recognised() {
        let check = |product: &str, mib: u64, id: Option<&str>| {
            let report = Report {
                product: product.to_string(),
                architecture: None,
                memory: Bytes(mib << 20),
                reserved: None,
                power_w: None,
                current_power_w: None,
                lanes: None,
                is_sliced: false,
                others: Vec::new(),
            };
            assert_eq!(
                report.known_device().map(|device| device.id.as_str()),
                id,
                "{product}"
            );
        };
        check("NVIDIA H100 PCIe", 81_559, Some("H100-PCIE-80GB"));
        check("NVIDIA H100 NVL", 95_830, Some("H100-NVL-94GB"));
        check("NVIDIA H200", 143_771, Some("H200-SXM-141GB"));
        check("NVIDIA A100-SXM4-80GB", 81_920, Some("A100-SXM-80GB"));
        check("NVIDIA A100 80GB PCIe", 81_920, Some("A100-PCIE-80GB"));
        check("NVIDIA A100-PCIE-40GB", 40_960, Some("A100-PCIE-40GB"));
        check("NVIDIA L40S", 46_068, Some("L40S-48GB"));
        check("Tesla T4", 15_360, Some("T4-16GB"));
        check("NVIDIA GeForce RTX 4090", 24_564, Some("RTX-4090-24GB"));
        check(
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            97_887,
            Some("RTX-PRO-6000-96GB"),
        );
        for variant in [
            ("NVIDIA GeForce RTX 4090 D", 24_564),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", 24_564),
            ("NVIDIA GeForce RTX 4060 Ti", 8_188),
            ("NVIDIA GeForce RTX 3080", 12_288),
            ("NVIDIA GeForce RTX 4070 Ti", 12_282),
            ("NVIDIA RTX PRO 4000 Blackwell SFF Edition", 24_467),
            ("NVIDIA H100 80GB HBM3 MIG 7g.80gb", 81_559),
        ] {
            check(variant.0, variant.1, None);
        }
        check("NVIDIA B200", 183_359, Some("B200-SXM-180GB"));
        check(
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            97_887,
            Some("RTX-PRO-6000-96GB"),
        );
        check(
            "NVIDIA RTX 6000 Ada Generation",
            49_140,
            Some("RTX-6000-ADA-48GB"),
        );
        check("NVIDIA GeForce RTX 3090", 24_576, Some("RTX-3090-24GB"));
        check("NVIDIA GH200 480GB", 97_871, Some("GH200-96GB"));
        check("NVIDIA H200 NVL", 143_771, Some("H200-NVL-141GB"));
        check(
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            97_887,
            Some("RTX-PRO-6000-MAX-Q-96GB"),
        );
        check("Tesla V100-SXM2-16GB", 16_160, Some("V100-SXM-16GB"));
        check("Tesla V100-SXM2-32GB", 32_768, Some("V100-SXM-32GB"));
        check("Tesla V100-PCIE-16GB", 16_384, Some("V100-PCIE-16GB"));
        check("NVIDIA GeForce RTX 3090 Ti", 24_564, Some("RTX-3090-TI-24GB"));
        check("NVIDIA GeForce RTX 4080", 16_376, Some("RTX-4080-16GB"));
        check(
            "NVIDIA GeForce RTX 4080 SUPER",
            16_376,
            Some("RTX-4080-SUPER-16GB"),
        );
        check("NVIDIA GeForce RTX 4060 Ti", 16_380, Some("RTX-4060-TI-16GB"));
        check(
            "NVIDIA RTX 5000 Ada Generation",
            32_760,
            Some("RTX-5000-ADA-32GB"),
        );
        check("NVIDIA RTX 4500 Ada Generation", 24_570, None);
        check("NVIDIA GeForce RTX 3080", 10_240, Some("RTX-3080-10GB"));
        check("NVIDIA GeForce RTX 3070", 8_192, None);
    }

    #[test]
    fn what_a_profile_does_not_hold_is_remarked() {
        let text = REPORT.to_owned()
            + "    MIG Mode
        Current                           : Disabled
            GPU Link Info
                Link Width
                    Max                   : 16x
                    Current               : 8x
GPU 00000000:2A:00.0
    Product Name                          : NVIDIA L4
    FB Memory Usage
        Total                             : 23034 MiB
";
        let report = parse(&text).unwrap();
        assert_eq!(report.memory, Bytes(81_559 << 20));
        let told = report.remarks(report.known_device()).join("\n");
        insta::assert_snapshot!(told, @r"
        its power is capped at 650 W of 700 W: under load its clock and rates are lower than the profile's
        its host link has 8 of 16 lanes: --pcie says how fast it is, the profile has all of them
        the report has other cards, too (NVIDIA L4): only the first was read
        ");
        assert!(!report.is_sliced);
        assert!(parse(&text.replace("Disabled", "Enabled")).unwrap().is_sliced);
    }

    #[test]
    fn a_text_of_something_else_is_an_error() {
        assert_eq!(parse("hello"), Err(ReportError::NoProduct));
        assert_eq!(parse("    Product Name : X"), Err(ReportError::NoMemory));
    }
}
