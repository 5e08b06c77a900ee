//! Which profile of vLLM served a row: by its version, or by the day on which it was measured.

/// The day from which a release was the newest, and its minor version: vLLM's release notes. 0.8 is the first that runs V1 by
/// default; from 0.21 on there was one every two weeks, so 0.23 is put two weeks behind 0.22. Between days listed nothing
/// changes the profile that is nearest.
const RELEASES: [(&str, u32); 6] = [
    ("", 6),
    ("2025-03-18", 8),
    ("2025-10-02", 11),
    ("2025-12-03", 12),
    ("2026-05-29", 22),
    ("2026-06-12", 23),
];

/// The version that was the newest on a row's day, `2025-11` or `2025-11-03`; `None` of another engine, or without a day.
pub(super) fn released_by(engine: &str, date: &str) -> Option<String> {
    let is_day = date.len() >= 7 && date.starts_with(|c: char| c.is_ascii_digit());
    if engine != "vllm" || !is_day {
        return None;
    }
    let (_, minor) = RELEASES.iter().rev().find(|(day, _)| *day <= date)?;
    Some(format!("0.{minor}"))
}

/// The profile that a version between two of them, or none, could as well have been nearest to.
pub(super) fn other_profile(engine: &str, version: Option<&str>) -> Option<&'static str> {
    const OLDEST: (u32, &str) = (11, "vllm@0.11");
    const NEWEST: (u32, &str) = (33, "vllm@0.33");
    if engine != "vllm" {
        return None;
    }
    let Some(version) = version else {
        return Some(OLDEST.1);
    };
    let minor: u32 = version.strip_prefix("0.")?.split('.').next()?.parse().ok()?;
    let is_between = OLDEST.0 < minor && minor < NEWEST.0;
    let is_older = minor - OLDEST.0.min(minor) <= NEWEST.0.saturating_sub(minor);
    is_between.then_some(if is_older { NEWEST.1 } else { OLDEST.1 })
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
            ("2027-01-01", "0.23"),
        ] {
            assert_eq!(on(date).as_deref(), Some(version), "{date}");
        }
        assert_eq!(
            [on(""), on("soon or late"), released_by("sglang", "2025-10")],
            [None, None, None]
        );
        // What may have been released on the day of neither profile may have been nearer to the other.
        assert_eq!(other_profile("vllm", on("2025-10-29").as_deref()), None);
        assert_eq!(
            other_profile("vllm", on("2026-04-02").as_deref()),
            Some("vllm@0.33")
        );
        assert_eq!(
            other_profile("vllm", on("2026-11-01").as_deref()),
            Some("vllm@0.11")
        );
    }
}
