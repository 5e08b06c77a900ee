//! The simulation's clock, tied to the wall's.

use std::time::{Duration, Instant};

use crate::units::{PICOS_PER_SECOND, Picos};

/// Simulated time runs from 0 at the start, `speed` times as fast as the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    speed: f64,
}

impl Clock {
    /// Starts now.
    ///
    /// # Panics
    /// If `speed` is not positive and finite.
    #[must_use]
    pub fn start(speed: f64) -> Clock {
        assert!(speed > 0.0 && speed.is_finite(), "a clock goes on");
        Clock {
            start: Instant::now(),
            speed,
        }
    }

    /// What it shows now; [`Picos::LAST`] from its end on.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.at(Instant::now())
    }

    /// What it shows at an instant of the wall clock.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Picos {
        let since = instant.saturating_duration_since(self.start);
        let picos = since.as_secs_f64() * self.speed * PICOS_PER_SECOND as f64;
        Picos((picos as u64).min(Picos::LAST.0))
    }

    /// How long it is on the wall clock until this one shows `at`; nothing if it has.
    #[must_use]
    pub fn until(&self, at: Picos) -> Duration {
        let due = at.seconds() / self.speed;
        let elapsed = self.start.elapsed().as_secs_f64();
        Duration::try_from_secs_f64((due - elapsed).max(0.0)).unwrap_or(Duration::MAX)
    }

    /// So much of its time, on the wall clock.
    #[must_use]
    pub fn on_the_wall(&self, time: Picos) -> Duration {
        Duration::try_from_secs_f64(time.seconds() / self.speed).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_as_fast_shows_ten_times_as_much() {
        let clock = Clock::start(10.0);
        let later = clock.start + Duration::from_millis(250);
        assert_eq!(clock.at(later), Picos::from_seconds(2.5));
        assert_eq!(clock.at(clock.start), Picos::ZERO);
        assert_eq!(
            clock.on_the_wall(Picos::from_seconds(5.0)),
            Duration::from_millis(500)
        );
        assert_eq!(clock.until(Picos::ZERO), Duration::ZERO);
        assert!(clock.until(Picos::from_seconds(1e5)) > Duration::from_secs(9_000));
    }
}
