//! The name of a product as its driver prints it, word by word: `NVIDIA H100 80GB HBM3`, `Tesla T4`.
//!
//! Such a name has words that an id lacks (the maker, the brand, the kind of memory) and others in another order. Law: a name with
//! a word that a known card's does not have (a `D`, `Max-Q`, a laptop's, a slice's) is none of them.

use super::Device;

/// Words that tell the maker or the brand, or what all cards of that name are.
const EPITHETS: [&str; 15] = [
    "nvidia",
    "amd",
    "tesla",
    "geforce",
    "radeon",
    "instinct",
    "blackwell",
    "workstation",
    "server",
    "edition",
    "oam",
    // `NVIDIA RTX 6000 Ada Generation`.
    "generation",
    // Cooled by air: `NVIDIA B300 SXM6 AC`.
    "ac",
    // Machines of cards on a baseboard: `HGX B200`.
    "hgx",
    "dgx",
];

/// Epithets that people glue to a name: `RTXPRO6000BlackwellServer`, `HGXB200`. No chip has one of them in its name.
const GLUED: [&str; 9] = [
    "tesla",
    "geforce",
    "blackwell",
    "workstation",
    "server",
    "edition",
    "generation",
    "hgx",
    "dgx",
];

/// How many cards NVSwitches join, as racks and baseboards are called by it: `GB200-NVL72`, `B200-NVL8`. The longest first.
const JOINED: [&str; 8] = [
    "nvl576", "nvl144", "nvl72", "nvl36", "nvl32", "nvl16", "nvl8", "nvl4",
];

/// Parts of ids that stand before the chip's and name none.
pub(super) const BRANDS: [&str; 5] = ["rtx", "rx", "radeon", "ai", "pro"];

/// Parts of ids that tell a card from the one without them: another chip, or the same one at another clock.
pub(super) const VARIANTS: [&str; 6] = ["ti", "super", "max", "q", "xtx", "3e"];

/// Lower-case words of a product's name.
pub(super) struct Product(Vec<String>);

impl Product {
    pub(super) fn new(name: &str) -> Product {
        let words = name.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        Product(words.map(str::to_lowercase).collect())
    }

    /// Whether a device may be this one: its chip and its variant are named, and no word speaks against it.
    pub(super) fn may_be(&self, device: &Device) -> bool {
        self.names_chip(device)
            && self.names_variant(device)
            && self.0.iter().all(|word| is_word_of(word, device))
    }

    /// Whether a device is the one that a driver calls so: the form of every card but the SXM one is in its name.
    pub(super) fn is_drivers_name_of(&self, device: &Device) -> bool {
        let form = ["pcie", "nvl"]
            .into_iter()
            .find(|form| device.id.to_lowercase().contains(form));
        self.may_be(device) && form.is_none_or(|form| self.has(form))
    }

    /// Whether the chip of the name is the device's, which may be of another form or variant.
    pub(super) fn names_chip(&self, device: &Device) -> bool {
        let mut parts = device.id.split('-').map(str::to_lowercase);
        let chip = parts.find(|part| !BRANDS.contains(&part.as_str()));
        chip.is_some_and(|chip| self.has(&chip)) && device.id.contains("-PRO-") == self.has("pro")
    }

    /// Whether all that tells the device from the card without it is named.
    fn names_variant(&self, device: &Device) -> bool {
        let parts = device.id.split('-').map(str::to_lowercase);
        let mut told = parts.filter(|part| VARIANTS.contains(&part.as_str()));
        told.all(|part| self.has(&part))
    }

    /// Whether the name is that of a machine whose cards switches join.
    pub(super) fn names_machine(&self) -> bool {
        let is_one =
            |word: &String| ["hgx", "dgx"].contains(&word.as_str()) || JOINED.contains(&word.as_str());
        self.0.iter().any(is_one)
    }

    /// Whether the kind of memory is in the name (`HBM3`), which a driver writes and a person seldom does.
    pub(super) fn names_kind_of_memory(&self) -> bool {
        self.0.iter().any(|word| is_kind_of_memory(word))
    }

    fn has(&self, wanted: &str) -> bool {
        self.0.iter().any(|word| word == wanted)
    }
}

/// Whether a word may stand in the device's name: a part of its id, or what is no part of any.
fn is_word_of(word: &str, device: &Device) -> bool {
    let id = device.id.to_lowercase();
    // `SXM4` and `SXM5` are the sockets of their generations.
    let is_size = |part: &str| part == format!("{word}gb") || part == format!("{word}b");
    let is_part = |part: &str| part == word || is_size(part) || (part == "sxm" && is_sxm(word));
    // `NVIDIA GH200 480GB`: the memory of the CPU beside a GPU of 96 GB.
    let is_of_cpu = id == "gh200-96gb" && ["480gb", "120gb"].contains(&word);
    // `L40S PCIe`: there is no other form of it.
    let is_only_form = word == "pcie" && device.nvlink.is_none();
    let is_switched = JOINED.contains(&word) && device.nvlink.is_some();
    is_of_cpu
        || is_only_form
        || is_switched
        || EPITHETS.contains(&word)
        || is_kind_of_memory(word)
        || id.split('-').any(is_part)
}

/// A squashed name without the epithets that are glued to it, if it has any, and whether they tell of a machine whose cards switches join.
pub(super) fn without_epithets(squashed: &str) -> Option<(String, bool)> {
    let mut bare = squashed.to_owned();
    for epithet in GLUED.iter().chain(&JOINED) {
        bare = bare.replace(epithet, "");
    }
    let mut machines = ["hgx", "dgx"].iter().chain(&JOINED);
    let is_machine = machines.any(|machine| squashed.contains(machine));
    (bare != squashed).then_some((bare, is_machine))
}

fn is_sxm(word: &str) -> bool {
    word.strip_prefix("sxm")
        .is_some_and(|socket| socket.chars().all(|c| c.is_ascii_digit()))
}

fn is_kind_of_memory(word: &str) -> bool {
    word.starts_with("hbm")
}
