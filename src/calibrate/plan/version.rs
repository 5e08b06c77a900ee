//! Which profile of vLLM served a row: by its version, or by the day on which it was measured.

use jiff::civil::{Date, date};

/// The day from which a release was the newest, and its minor version: vLLM's release notes. 0.8 is the first that runs V1 by
/// default. Between days listed nothing changes the profile that is nearest.
const RELEASES: [(Date, u32); 5] = [
    (Date::MIN, 6),
    (date(2025, 3, 18), 8),
    (date(2025, 10, 2), 11),
    (date(2025, 12, 3), 12),
    (date(2026, 5, 29), 22),
];
/// From 0.21 on there was a release every two weeks.
const DAYS_APART: i32 = 14;
/// The newest profile.
const NEWEST: u32 = 33;
/// By its name.
pub(super) const NEWEST_PROFILE: &str = "vllm@0.33";

/// The version that is taken to have been the newest on a row's day, `2025-11` or `2025-11-03`; `None` of another engine, or
/// without a day.
pub(super) fn released_by(engine: &str, written: &str) -> Option<String> {
    if engine != "vllm" {
        return None;
    }
    let day = day(written)?;
    let (since, minor) = RELEASES.iter().rev().find(|(since, _)| *since <= day)?;
    let is_last = RELEASES.last().is_some_and(|(_, last)| last == minor);
    let later = match is_last {
        true => (day - *since).get_days() / DAYS_APART,
        false => 0,
    };
    let minor = minor + u32::try_from(later).ok()?;
    Some(format!("0.{}", minor.min(NEWEST)))
}

/// A day as ISO 8601 writes it, or a month's first.
fn day(written: &str) -> Option<Date> {
    let written = written.trim();
    let is_month = written.len() == "2025-11".len();
    let whole = if is_month {
        format!("{written}-01")
    } else {
        written.to_owned()
    };
    let is_plain = whole.len() == "2025-11-03".len() && whole.split('-').count() == 3;
    is_plain.then(|| whole.parse().ok()).flatten()
}

/// The profile that a version between two of them, or none, could as well have been nearest to.
pub(super) fn other_profile(engine: &str, version: Option<&str>) -> Option<&'static str> {
    const OLDEST: (u32, &str) = (11, "vllm@0.11");
    const NEW: (u32, &str) = (NEWEST, NEWEST_PROFILE);
    if engine != "vllm" {
        return None;
    }
    let Some(version) = version else {
        return Some(OLDEST.1);
    };
    let minor: u32 = version.strip_prefix("0.")?.split('.').next()?.parse().ok()?;
    let is_between = OLDEST.0 < minor && minor < NEW.0;
    let is_older = minor - OLDEST.0.min(minor) <= NEW.0.saturating_sub(minor);
    is_between.then_some(if is_older { NEW.1 } else { OLDEST.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_the_newest_release_of_then() {
        let on = |date| released_by("vllm", date);
        for (date, version) in [
            ("2024-05", "0.6"),
            ("2025-03-17", "0.6"),
            ("2025-03-18", "0.8"),
            ("2025-10-29", "0.11"),
            ("2025-12", "0.11"),
            ("2026-04-02", "0.12"),
            ("2026-06-11", "0.22"),
            ("2026-06-12", "0.23"),
            ("2026-08-17", "0.27"),
            ("2027-01-01", "0.33"),
        ] {
            assert_eq!(on(date).as_deref(), Some(version), "{date}");
        }
        for other in [
            "",
            "soon or late",
            "10/29/2025",
            "29.10.2025",
            "2025-Q1",
            "2025-13",
            "20251029",
        ] {
            assert_eq!(on(other), None, "{other}");
        }
        assert_eq!(released_by("sglang", "2025-10"), None);
        // What may have been released on the day of neither profile may have been nearer to the other.
        assert_eq!(other_profile("vllm", on("2025-10-29").as_deref()), None);
        assert_eq!(
            other_profile("vllm", on("2026-04-02").as_deref()),
            Some("vllm@0.33")
        );
        assert_eq!(
            other_profile("vllm", on("2026-08-17").as_deref()),
            Some("vllm@0.11")
        );
        assert_eq!(other_profile("vllm", on("2026-11-01").as_deref()), None);
    }
}
