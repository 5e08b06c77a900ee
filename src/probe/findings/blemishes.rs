//! Whether the card was itself while it was measured.

use super::super::facts::{Gpu, Instruments};

/// Drift of the sentinels above which a result is no steady card's. H200s, whose products reach the power limit, scattered by up to
/// 3.4 % after a second of rest each, an H100 by 0.6 %.
pub const MOST_DRIFT: f64 = 0.05;

/// What keeps a result from being a picture of this card at rest from others; nothing where it is clean.
#[must_use]
pub fn blemishes(gpu: &Gpu, instruments: &Instruments, drift: f64) -> Vec<String> {
    let mut found = Vec::new();
    if drift >= MOST_DRIFT {
        found.push(format!("the sentinels drifted by {:.1} %", 100.0 * drift));
    }
    if let Some(reason) = instruments.spoilt_by() {
        found.push(format!("the card lowered its clock: {reason}"));
    }
    if gpu.is_mig {
        found.push("this is a MIG slice, not a card".to_owned());
    }
    if let Some(others @ 1..) = gpu.other_processes {
        found.push(format!("{others} other process(es) computed on the card"));
    }
    if let (Some(burst), Some(most)) = (instruments.sm_burst, instruments.sm_max)
        && f64::from(burst) < 0.6 * f64::from(most)
    {
        found.push(format!(
            "the SM clock was {burst} MHz in a burst, of {most}: somebody may have locked it"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::facts::testing::h200;

    #[test]
    fn each_blemish_is_named() {
        assert_eq!(
            blemishes(&h200(), &Instruments::default(), 0.01),
            Vec::<String>::new()
        );
        let mut shared = h200();
        shared.is_mig = true;
        shared.other_processes = Some(2);
        let hot = Instruments {
            throttle_bits: 0x40,
            sm_burst: Some(900),
            sm_max: Some(1980),
            ..Instruments::default()
        };
        assert_eq!(blemishes(&shared, &hot, 0.05).len(), 5);
    }
}
