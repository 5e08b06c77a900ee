//! Scalars as people write them in a scenario or after a flag: counts with `k` and `M`, durations with a unit,
//! rates that may be infinite.
//!
//! They hold what was written and nothing else; whether it is sensible is decided in `resolve`. Each type says in
//! its own error what it expects, so that a message never mentions a Rust type.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::quantity::parse_bytes;

/// A whole number, not negative: `8192`, or `"8k"` (8,000) and `"8K"` (8,192) as vLLM reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = String;
    fn from_str(text: &str) -> Result<Count, String> {
        let text = text.trim().replace('_', "");
        let (digits, scale) = match text.char_indices().last() {
            Some((at, suffix)) => match suffix_scale(suffix) {
                Some(scale) => (&text[..at], scale),
                None => (text.as_str(), 1),
            },
            None => ("", 1),
        };
        let whole = || digits.parse::<u64>().ok()?.checked_mul(scale);
        // `25.6k` is 25,600, and `1e12` is how people write a trillion; both only where they are whole.
        let decimal = || {
            let value = digits.parse::<f64>().ok()? * scale as f64;
            (value.is_finite() && value >= 0.0 && value.fract() == 0.0 && value < 2f64.powi(63))
                .then_some(value as u64)
        };
        if text.len() > 18 && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i64>().is_err() {
            return Err(format!("`{text}` is larger than any count here, 2^63"));
        }
        whole().or_else(decimal).map(Count).ok_or_else(|| {
            format!("`{text}` is not a whole number of at least 0 (8192, 8k = 8,000, 8K = 8,192)")
        })
    }
}

/// A number of bytes after a flag: a count, or an amount with its unit, `24 GiB`.
///
/// # Errors
/// What is neither.
pub fn bytes(text: &str) -> Result<Count, String> {
    let amount = || parse_bytes(text).map(|bytes| Count(bytes.0));
    text.parse()
        .or_else(|_: String| amount().map_err(|error| error.to_string()))
}

fn suffix_scale(suffix: char) -> Option<u64> {
    Some(match suffix {
        'k' => 1_000,
        'm' => 1_000_000,
        'g' => 1_000_000_000,
        't' => 1_000_000_000_000,
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        'T' => 1 << 40,
        _ => return None,
    })
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        struct CountVisitor;
        impl Visitor<'_> for CountVisitor {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of at least 0")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Count, E> {
                u64::try_from(value)
                    .map(Count)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(value), &self))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Count, E> {
                Ok(Count(value))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(CountVisitor)
    }
}

impl JsonSchema for Count {
    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A whole number of at least 0; as text also with a suffix, 8k = 8,000 and 8K = 8,192.",
            "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }]
        })
    }
}

/// Longest sequence: tokens, or `"auto"` (`-1`, as vLLM has it) for the longest that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// So many.
    Tokens(Count),
    /// As many as the KV pool holds of one request.
    Longest,
}

impl Context {
    /// The tokens, where somebody said them.
    #[must_use]
    pub fn tokens(self) -> Option<Count> {
        match self {
            Context::Tokens(count) => Some(count),
            Context::Longest => None,
        }
    }
}

impl FromStr for Context {
    type Err = String;
    fn from_str(text: &str) -> Result<Context, String> {
        match text.trim() {
            "-1" => Ok(Context::Longest),
            word if word.eq_ignore_ascii_case("auto") => Ok(Context::Longest),
            tokens => tokens.parse().map(Context::Tokens),
        }
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Context::Tokens(count) => count.serialize(serializer),
            Context::Longest => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Context, D::Error> {
        struct ContextVisitor;
        impl Visitor<'_> for ContextVisitor {
            type Value = Context;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of at least 0, or \"auto\"")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Context, E> {
                match u64::try_from(value) {
                    Ok(tokens) => Ok(Context::Tokens(Count(tokens))),
                    Err(_) if value == -1 => Ok(Context::Longest),
                    Err(_) => Err(E::invalid_value(serde::de::Unexpected::Signed(value), &self)),
                }
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Context, E> {
                Ok(Context::Tokens(Count(value)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Context, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(ContextVisitor)
    }
}

impl JsonSchema for Context {
    fn schema_name() -> Cow<'static, str> {
        "Context".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A whole number of at least 0; as text also with a suffix, 8k = 8,000 and 8K = 8,192; or \"auto\", the longest that fits.",
            "anyOf": [{ "type": "integer", "minimum": -1 }, { "type": "string" }]
        })
    }
}

/// Requests per second: a number, or `"inf"` for all at once.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

impl FromStr for Rate {
    type Err = String;
    fn from_str(text: &str) -> Result<Rate, String> {
        text.trim()
            .parse()
            .map(Rate)
            .map_err(|_| format!("`{text}` is not a rate: write requests per second, or inf for all at once"))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        struct RateVisitor;
        impl Visitor<'_> for RateVisitor {
            type Value = Rate;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of requests per second, or \"inf\"")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Rate, E> {
                Ok(Rate(value as f64))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Rate, E> {
                Ok(Rate(value as f64))
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Rate, E> {
                Ok(Rate(value))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Rate, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(RateVisitor)
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Requests per second; \"inf\" sends everything at once.",
            "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "const": "inf" }]
        })
    }
}

macro_rules! text_scalar {
    ($(#[$doc:meta])* $name:ident, $expecting:literal, $schema:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl FromStr for $name {
            type Err = std::convert::Infallible;
            fn from_str(text: &str) -> Result<$name, Self::Err> {
                Ok($name(text.to_string()))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                struct TextVisitor;
                impl Visitor<'_> for TextVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        Ok($name(text.to_string()))
                    }
                }
                deserializer.deserialize_any(TextVisitor)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "description": $schema, "type": "string" })
            }
        }
    };
}

text_scalar!(
    /// A length of time with its unit, `"500 ms"`.
    Duration,
    "a duration with its unit, such as \"500 ms\"",
    "A duration with its unit: ns, us, ms, s, min, h or d."
);
text_scalar!(
    /// An amount of memory with its unit, `"40 GiB"`; GB is 10⁹ bytes and GiB 2³⁰.
    Memory,
    "an amount of memory with its unit, such as \"40 GiB\"",
    "An amount of memory with its unit: GB is 10^9 bytes, GiB is 2^30."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_the_suffixes_of_vllm() {
        let count = |text: &str| text.parse::<Count>().map(|count| count.0);
        assert_eq!(count("8192"), Ok(8192));
        assert_eq!(count("8k"), Ok(8000));
        assert_eq!(count("8K"), Ok(8192));
        assert_eq!(count("25.6k"), Ok(25_600));
        assert_eq!(count("1e12"), Ok(1_000_000_000_000));
        assert!(count("-1").is_err() && count("1.5").is_err() && count("").is_err() && count("k").is_err());
        assert!(count("nan").is_err() && count("99999999999999999999").is_err());
    }

    #[test]
    fn rates_may_be_infinite() {
        assert_eq!("inf".parse::<Rate>().map(|rate| rate.0), Ok(f64::INFINITY));
        assert!("fast".parse::<Rate>().is_err());
    }
}
