//! Quantities as people write them, `"80 GB"`, `"3.35 TB/s"`, `"989.4 TFLOP/s"`, `"500 ms"`, read into unit types.
//!
//! A quantity is a decimal number, optional spaces and a unit; the unit is never guessed. Decimal prefixes are
//! powers of ten and `Ki`, `Mi`, `Gi`, `Ti` powers of two, so `80 GB` and `80 GiB` differ by 7 %. Letter case is
//! ignored, but for network bits: `Gbit/s` is spelled out, and `Gb` or `Gb/s` is refused because readers disagree
//! about it. Left out: arithmetic, locales (a comma is an error) and signs (nothing here may be negative).

use crate::units::{Bytes, BytesPerSec, FlopsPerSec, Picos};

/// Why a text is not a quantity. The message says what was read and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not begin with a number.
    #[error("`{text}` does not begin with a number; write it like `{example}`")]
    NoNumber {
        /// What was written.
        text: String,
        /// A right spelling.
        example: &'static str,
    },
    /// The number has no unit.
    #[error("`{text}` has no unit; write it like {}", likely.iter().map(|unit| format!("`{text} {unit}`")).collect::<Vec<_>>().join(" or "))]
    NoUnit {
        /// What was written.
        text: String,
        /// The units that are likely meant.
        likely: &'static [&'static str],
    },
    /// The unit measures something else or nothing.
    #[error("`{unit}` in `{text}` is not a unit of {of}; known are {known}")]
    UnknownUnit {
        /// What was written.
        text: String,
        /// Its unit.
        unit: String,
        /// What was to be measured.
        of: &'static str,
        /// The units that are understood.
        known: &'static str,
    },
    /// Negative, not finite, or beyond what the type can hold.
    #[error("`{text}` is out of range: {of} must be at least zero and below {limit}")]
    OutOfRange {
        /// What was written.
        text: String,
        /// What was to be measured.
        of: &'static str,
        /// The smallest value that is too large.
        limit: &'static str,
    },
}

/// What a family of units measures, for messages.
struct Family {
    of: &'static str,
    example: &'static str,
    likely: &'static [&'static str],
    known: &'static str,
}

const MEMORY: Family = Family {
    of: "memory",
    example: "80 GB",
    likely: &["GB"],
    known: "B, kB, MB, GB, TB (powers of ten) and KiB, MiB, GiB, TiB (powers of two)",
};
const RATE: Family = Family {
    of: "bandwidth",
    example: "3.35 TB/s",
    likely: &["GB/s"],
    known: "B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s and Mbit/s, Gbit/s, Tbit/s",
};
const FLOPS: Family = Family {
    of: "computing rate",
    example: "989.4 TFLOP/s",
    likely: &["TFLOP/s"],
    known: "GFLOP/s, TFLOP/s, PFLOP/s and GOP/s, TOP/s, POP/s (also FLOPS, OPS)",
};
const DURATION: Family = Family {
    of: "time",
    example: "500 ms",
    likely: &["s", "ms"],
    known: "ns, us (or µs), ms, s, min, h, d",
};
const POWER: Family = Family {
    of: "power",
    example: "700 W",
    likely: &["W"],
    known: "W, kW",
};

/// Reads an amount of memory, rounded to the nearest byte.
///
/// ```
/// use plimsoll::{quantity::parse_bytes, units::Bytes};
/// assert_eq!(parse_bytes("80 GB"), Ok(Bytes(80_000_000_000)));
/// assert_eq!(parse_bytes("80GiB"), Ok(Bytes(85_899_345_920)));
/// ```
pub fn parse_bytes(text: &str) -> Result<Bytes, QuantityError> {
    let (number, unit) = split(text, &MEMORY)?;
    let scale = byte_scale(unit).ok_or_else(|| unknown_unit(text, unit, &MEMORY))?;
    let bytes = number.times(scale).round();
    if bytes < 2f64.powi(63) {
        Ok(Bytes(bytes as u64))
    } else {
        Err(out_of_range(text, &MEMORY, "8 EiB"))
    }
}

/// Reads bytes per second; `Gbit/s` and its like count eight bits to the byte.
pub fn parse_rate(text: &str) -> Result<BytesPerSec, QuantityError> {
    let (number, unit) = split(text, &RATE)?;
    rate_scale(unit)
        .map(|scale| BytesPerSec(number.times(scale)))
        .ok_or_else(|| unknown_unit(text, unit, &RATE))
}

/// Reads operations per second, floating-point or integer: `TFLOP/s`, `TFLOPS`, `TOP/s` and `TOPS` are the same rate.
pub fn parse_flops(text: &str) -> Result<FlopsPerSec, QuantityError> {
    let (number, unit) = split(text, &FLOPS)?;
    flops_scale(unit)
        .map(|scale| FlopsPerSec(number.times(scale)))
        .ok_or_else(|| unknown_unit(text, unit, &FLOPS))
}

/// Reads a duration, rounded to the nearest picosecond.
///
/// ```
/// use plimsoll::{quantity::parse_duration, units::Picos};
/// assert_eq!(parse_duration("500 ms"), Ok(Picos::from_seconds(0.5)));
/// assert_eq!(parse_duration("10 min"), parse_duration("600s"));
/// ```
pub fn parse_duration(text: &str) -> Result<Picos, QuantityError> {
    let (number, unit) = split(text, &DURATION)?;
    let scale = match unit.to_lowercase().as_str() {
        "ns" => ten(-9),
        "us" | "µs" | "μs" => ten(-6),
        "ms" => ten(-3),
        "s" | "sec" => ten(0),
        "min" => times(60.0),
        "h" => times(3600.0),
        "d" => times(86_400.0),
        _ => return Err(unknown_unit(text, unit, &DURATION)),
    };
    Picos::try_from_seconds(number.times(scale)).ok_or_else(|| out_of_range(text, &DURATION, "213 d"))
}

/// Reads power in watts.
pub fn parse_watts(text: &str) -> Result<f64, QuantityError> {
    let (number, unit) = split(text, &POWER)?;
    match unit.to_lowercase().as_str() {
        "w" => Ok(number.times(ten(0))),
        "kw" => Ok(number.times(ten(3))),
        _ => Err(unknown_unit(text, unit, &POWER)),
    }
}

/// Writes memory so that [`parse_bytes`] gives it back to the byte: the unit that needs the fewest decimals.
#[must_use]
pub fn format_bytes(bytes: Bytes) -> String {
    let units = [
        ("TB", 1e12),
        ("GiB", 1_073_741_824.0),
        ("GB", 1e9),
        ("MiB", 1_048_576.0),
        ("MB", 1e6),
    ];
    let spellings = (0..=3).flat_map(|decimals| {
        let values = units.iter().map(|(unit, size)| (unit, bytes.0 as f64 / size));
        let at_least_one = values.filter(|(_, value)| *value >= 1.0);
        at_least_one.map(move |(unit, value)| format!("{value:.decimals$} {unit}"))
    });
    spellings
        .into_iter()
        .find(|text| parse_bytes(text) == Ok(bytes))
        .unwrap_or_else(|| format!("{} B", bytes.0))
}

/// Writes a bandwidth in TB/s or GB/s, at full precision.
#[must_use]
pub fn format_rate(rate: BytesPerSec) -> String {
    if rate.0 >= 1e12 {
        format!("{} TB/s", decimal(rate.0, 12))
    } else {
        format!("{} GB/s", decimal(rate.0, 9))
    }
}

/// Writes a computing rate in TFLOP/s, at full precision.
#[must_use]
pub fn format_flops(rate: FlopsPerSec) -> String {
    format!("{} TFLOP/s", decimal(rate.0, 12))
}

/// The shortest decimal that reads back as `value` in units of `10^power`.
fn decimal(value: f64, power: i32) -> String {
    // Rust prints the shortest digits that identify the float, so moving their point loses nothing.
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or(0) - power;
    let digits = digits.replace('.', "");
    let point = exponent + 1;
    match usize::try_from(point) {
        Ok(point) if point >= digits.len() => format!("{digits:0<point$}"),
        Ok(point) if point > 0 => format!("{}.{}", &digits[..point], &digits[point..]),
        _ => format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
    }
}

/// A decimal number before its unit is applied.
struct Number<'a> {
    mantissa: &'a str,
    exponent: i32,
}

/// The size of a unit: `10^power · factor`.
#[derive(Clone, Copy)]
struct Scale {
    power: i32,
    factor: f64,
}

fn ten(power: i32) -> Scale {
    Scale { power, factor: 1.0 }
}

fn times(factor: f64) -> Scale {
    Scale { power: 0, factor }
}

impl Number<'_> {
    /// The number in base units. Powers of ten join the decimal exponent before it is read, so that `3.35 TB/s`
    /// is the float nearest to 3.35·10¹² and equals the literal `3.35e12`.
    fn times(&self, scale: Scale) -> f64 {
        let exponent = self.exponent.saturating_add(scale.power);
        let decimal = format!("{}e{exponent}", self.mantissa.replace('_', ""));
        decimal.parse::<f64>().expect("the mantissa was read as a number") * scale.factor
    }
}

/// Splits a text into its number and its unit, both checked for presence.
fn split<'a>(text: &'a str, family: &Family) -> Result<(Number<'a>, &'a str), QuantityError> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (mantissa, rest) = trimmed.split_at(end);
    if mantissa.replace('_', "").parse::<f64>().is_err() {
        return Err(QuantityError::NoNumber {
            text: text.to_string(),
            example: family.example,
        });
    }
    let (exponent, rest) = exponent(rest);
    let number = Number { mantissa, exponent };
    if number.times(ten(24)).is_infinite() {
        return Err(out_of_range(text, family, "1e280"));
    }
    let unit = rest.trim_start();
    if unit.is_empty() {
        return Err(QuantityError::NoUnit {
            text: trimmed.to_string(),
            likely: family.likely,
        });
    }
    Ok((number, unit))
}

/// Reads a decimal exponent if one begins the text; else it is zero and nothing is consumed.
fn exponent(text: &str) -> (i32, &str) {
    let Some(after) = text.strip_prefix(['e', 'E']) else {
        return (0, text);
    };
    let sign = usize::from(after.starts_with(['+', '-']));
    let digits = after[sign..].bytes().take_while(u8::is_ascii_digit).count();
    match after[..sign + digits].parse() {
        Ok(exponent) => (exponent, &after[sign + digits..]),
        Err(_) => (0, text),
    }
}

/// Bytes in a unit of memory; `None` for `Gb`, which some read as bits.
fn byte_scale(unit: &str) -> Option<Scale> {
    if unit.len() > 1 && unit.ends_with('b') && unit[..unit.len() - 1].chars().any(|c| c.is_ascii_uppercase())
    {
        return None;
    }
    Some(match unit.to_lowercase().as_str() {
        "b" | "byte" | "bytes" => ten(0),
        "kb" => ten(3),
        "mb" => ten(6),
        "gb" => ten(9),
        "tb" => ten(12),
        "kib" => times(1024.0),
        "mib" => times(1_048_576.0),
        "gib" => times(1_073_741_824.0),
        "tib" => times(1_099_511_627_776.0),
        _ => return None,
    })
}

fn rate_scale(unit: &str) -> Option<Scale> {
    let bits = |power| Some(Scale { power, factor: 0.125 });
    match unit.to_lowercase().as_str() {
        "mbit/s" => return bits(6),
        "gbit/s" => return bits(9),
        "tbit/s" => return bits(12),
        _ => {}
    }
    let amount = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("/S"))?;
    byte_scale(amount.trim_end())
}

fn flops_scale(unit: &str) -> Option<Scale> {
    let lower = unit.to_lowercase();
    let stem = ["flop/s", "flops", "op/s", "ops"]
        .iter()
        .find_map(|ending| lower.strip_suffix(ending))?;
    Some(ten(match stem {
        "" => 0,
        "m" => 6,
        "g" => 9,
        "t" => 12,
        "p" => 15,
        "e" => 18,
        _ => return None,
    }))
}

fn unknown_unit(text: &str, unit: &str, family: &Family) -> QuantityError {
    QuantityError::UnknownUnit {
        text: text.to_string(),
        unit: unit.to_string(),
        of: family.of,
        known: family.known,
    }
}

fn out_of_range(text: &str, family: &Family, limit: &'static str) -> QuantityError {
    QuantityError::OutOfRange {
        text: text.to_string(),
        of: family.of,
        limit,
    }
}

/// Digits in groups of three: `12,345`.
#[must_use]
pub fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant figures, `0.0123`, `7.41`, `412`, `1280`; a power of ten where zeros would hide them, `1.23e-12`.
#[must_use]
pub fn significant(value: f64) -> String {
    significant_to(value, 3)
}

/// So many significant figures, at least one, in the same way.
fn significant_to(value: f64, figures: usize) -> String {
    /// Below and from here on a figure is written as a power of ten.
    const LEAST_SPELT_OUT: f64 = 1e-6;
    const MOST_SPELT_OUT: f64 = 1e18;
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let behind = figures.saturating_sub(1);
    let scientific = format!("{value:.behind$e}");
    if value.abs() < LEAST_SPELT_OUT || value.abs() >= MOST_SPELT_OUT {
        return scientific;
    }
    // Rounded first: 999.7 has three figures before the point, 1000 has four.
    let rounded: f64 = scientific.parse().unwrap_or(value);
    let decimals = (behind as i32 - rounded.abs().log10().floor() as i32).clamp(0, 9) as usize;
    format!("{rounded:.decimals$}")
}

/// The same with thousands grouped: `1,280`.
#[must_use]
pub fn significant_grouped(value: f64) -> String {
    significant_grouped_to(value, 3)
}

/// So many significant figures, thousands grouped.
#[must_use]
pub fn significant_grouped_to(value: f64, figures: usize) -> String {
    let plain = significant_to(value, figures);
    if plain.contains('e') || !value.is_finite() {
        return plain;
    }
    let (sign, digits) = plain.split_at(usize::from(plain.starts_with('-')));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    format!("{sign}{}{fraction}", grouped(whole))
}

#[cfg(test)]
mod tests;
