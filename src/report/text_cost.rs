//! What GPUs cost and what is served for it, as a line.

use super::figures::{counted, significant};
use super::text_sizing::dollars;
use crate::analysis::costs::Rent;

/// `11.96 $/h for 4 GPUs (prefill 2.99, decode 8.97), 0.68 $/M output tokens (0.10 in + out); assumed list …`, with prompt and
/// output tokens per second where they are known, which may be those of an overload. One GPU is the one that the answer is about.
pub(super) fn line(
    rent: &Result<Rent, String>,
    tokens_per_s: Option<(f64, f64)>,
    is_overloaded: bool,
) -> String {
    let rent = match rent {
        Ok(rent) => rent,
        Err(why) => return format!("not known: {why}"),
    };
    let each = |(name, _, usd): &(String, f64, f64)| format!("{name} {}", dollars(*usd));
    let each: Vec<String> = rent.pools.iter().map(each).collect();
    let each = match rent.pools.len() > 1 {
        true => format!(" ({})", each.join(", ")),
        false => String::new(),
    };
    let gpus = match rent.gpus() {
        number if rent.is_mean => format!(" for {} GPUs on average", significant(number)),
        1.0 => String::new(),
        number => format!(" for {}", counted(number as u64, "GPU")),
    };
    let tokens = tokens_per_s.and_then(|(prompt, output)| {
        Some(format!(
            ", {} $/M output tokens ({} in + out){}",
            dollars(rent.usd_per_million(output)?),
            dollars(rent.usd_per_million(prompt + output)?),
            if is_overloaded { OVERLOADED } else { "" }
        ))
    });
    format!(
        "{} $/h{gpus}{each}{}; {}",
        dollars(rent.usd_per_hour()),
        tokens.unwrap_or_default(),
        rent.source
    )
}

/// What tokens are that a server in overload answers with.
const OVERLOADED: &str =
    " of what is served in overload, late: `plimsoll knee` says what they cost within an SLO";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_cost_what_their_gpus_do_and_tokens_share_it() {
        let rent = Rent {
            pools: vec![("prefill".into(), 1.0, 3.0), ("decode".into(), 4.0, 4.2)],
            is_mean: false,
            source: "assumed list prices, $ per GPU-hour: A 3.00 (2025-10-01), B 1.05 (2025-10-01)".into(),
        };
        // An hour of 1,000 tokens a second is 3.6 million of them.
        assert_eq!(
            line(&Ok(rent.clone()), Some((9_000.0, 1_000.0)), false),
            "7.20 $/h for 5 GPUs (prefill 3.00, decode 4.20), 2.00 $/M output tokens (0.20 in + out); assumed list prices, $ per \
             GPU-hour: A 3.00 (2025-10-01), B 1.05 (2025-10-01)"
        );
        let scaled = Rent {
            pools: vec![(String::new(), 2.5, 7.5)],
            is_mean: true,
            ..rent.clone()
        };
        let scaled = line(&Ok(scaled), None, false);
        assert!(
            scaled.starts_with("7.50 $/h for 2.50 GPUs on average; assumed"),
            "{scaled}"
        );
        // A line of a page, where there is but one GPU.
        let one = Rent {
            pools: vec![(String::new(), 1.0, 2.99)],
            is_mean: false,
            source: "assumed list price of 2025-10-01".into(),
        };
        let one = |is_overloaded| line(&Ok(one.clone()), Some((9_220.0, 1_720.0)), is_overloaded);
        assert_eq!(
            one(false),
            "2.99 $/h, 0.48 $/M output tokens (0.0759 in + out); assumed list price of 2025-10-01"
        );
        assert_eq!(
            one(true),
            "2.99 $/h, 0.48 $/M output tokens (0.0759 in + out) of what is served in overload, late: `plimsoll knee` says what they \
             cost within an SLO; assumed list price of 2025-10-01"
        );
        let idle = line(&Ok(rent), Some((0.0, 0.0)), true);
        assert!(
            idle.starts_with("7.20 $/h for 5 GPUs (prefill 3.00, decode 4.20); assumed"),
            "{idle}"
        );
        assert_eq!(line(&Err("no price".into()), None, false), "not known: no price");
    }
}
