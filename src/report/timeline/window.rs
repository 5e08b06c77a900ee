//! The part of a run that a timeline holds.

use crate::quantity::parse_duration;
use crate::units::Picos;

/// From one instant of simulated time to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// Its start.
    pub from: Picos,
    /// Its end, later than the start; [`Picos::MAX`] is that of the run.
    pub to: Picos,
}

impl Default for TimeWindow {
    /// The first ten seconds: a few hundred to a few thousand steps of each replica.
    fn default() -> TimeWindow {
        TimeWindow {
            from: Picos::ZERO,
            to: Picos::from_seconds(10.0),
        }
    }
}

impl TimeWindow {
    /// Reads `10s`, the first ten seconds; `60s..70s`; `60s..`, all from then on.
    ///
    /// # Errors
    /// In words, what it is instead.
    pub fn parse(text: &str) -> Result<TimeWindow, String> {
        let instant = |text: &str| match text.trim() {
            "0" => Ok(Picos::ZERO),
            text if text.starts_with('.') => Err("write two dots between its ends, as 60s..70s".to_owned()),
            text if text.starts_with('-') => Err("a run begins at 0s".to_owned()),
            text => parse_duration(text).map_err(|error| error.to_string()),
        };
        let (from, to) = match text.split_once("..") {
            None => (Picos::ZERO, instant(text)?),
            Some((from, to)) => (
                if from.trim().is_empty() {
                    Picos::ZERO
                } else {
                    instant(from)?
                },
                if to.trim().is_empty() {
                    Picos::MAX
                } else {
                    instant(to)?
                },
            ),
        };
        if from > to {
            return Err(format!(
                "it ends before it begins: write the earlier instant first, as 60s..70s, and not `{text}`"
            ));
        }
        if from == to {
            return Err(format!("it holds no time: `{text}` ends where it begins"));
        }
        Ok(TimeWindow { from, to })
    }

    /// The part of a stretch that lies in the window; `None` where nothing of it does.
    pub(super) fn part(&self, (begin, end): (Picos, Picos)) -> Option<(Picos, Picos)> {
        (begin <= self.to && end >= self.from && begin <= end)
            .then(|| (begin.max(self.from), end.min(self.to)))
    }

    /// It holds every instant that a run can have.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self
            == TimeWindow {
                from: Picos::ZERO,
                to: Picos::MAX,
            }
    }
}

impl std::fmt::Display for TimeWindow {
    /// As it is written: `0 s..10 s`, `60 s..`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TimeWindow { from, to } = *self;
        if to == Picos::MAX {
            write!(f, "{} s..", from.seconds())
        } else {
            write!(f, "{} s..{} s", from.seconds(), to.seconds())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_its_length_or_both_ends() {
        let read = |text: &str| TimeWindow::parse(text).map(|window| window.to_string());
        assert_eq!(read("10s").as_deref(), Ok("0 s..10 s"));
        assert_eq!(read("500 ms").as_deref(), Ok("0 s..0.5 s"));
        assert_eq!(read("60s..70s").as_deref(), Ok("60 s..70 s"));
        assert_eq!(read("1min .. 70s").as_deref(), Ok("60 s..70 s"));
        assert_eq!(read("60s..").as_deref(), Ok("60 s.."));
        assert_eq!(read("..5s").as_deref(), Ok("0 s..5 s"));
        assert!(TimeWindow::parse("0..").unwrap().is_whole() && TimeWindow::parse("..").unwrap().is_whole());
        assert!(
            read("70s..60s")
                .unwrap_err()
                .starts_with("it ends before it begins")
        );
        assert!(read("0s").is_err() && read("5s..5s").is_err());
        assert!(read("2s..2s").unwrap_err().starts_with("it holds no time"));
        assert!(read("60s...70s").unwrap_err().starts_with("write two dots"));
        for wrong in ["10", "ten", "60..70", "1s..2s..3s", "-1s", "-1s..3s", ""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
