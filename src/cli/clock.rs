//! The date of a result: the wall clock's, or `SOURCE_DATE_EPOCH` where builds must repeat.

use jiff::civil::DateTime;
use jiff::{Timestamp, tz::TimeZone};

/// Now, in universal time.
pub(super) fn now() -> DateTime {
    let fixed = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    let stamp = fixed.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let stamp = stamp.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        Timestamp::from_second(i64::try_from(seconds).unwrap_or(0)).unwrap_or(Timestamp::UNIX_EPOCH)
    });
    stamp.to_zoned(TimeZone::UTC).datetime()
}
