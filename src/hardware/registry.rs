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

/// How many cards a name counts, and which: `8xH100`, `2x A100`, `H100 x8`, `8*h100`.
fn counted(name: &str) -> Option<(u32, String)> {
    let name = name.trim().to_lowercase().replace(['×', '*'], "x");
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
mod tests;
