//! Which of several offers nobody beats in two figures at once, more being better of both.
//!
//! An offer is beaten by one that gives no less of both and more of one. Left out: how sure the first figure is.

/// An offer of two figures, and the most that the second may be by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The first figure.
    pub first: f64,
    /// The second.
    pub second: f64,
    /// The upper end of its interval.
    pub second_high: f64,
}

/// Where an offer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody beats it.
    Front,
    /// Beaten, but not if its second figure were as high as chance may have it.
    Near,
    /// Beaten.
    Beaten,
}

/// How each of them stands, in their order.
#[must_use]
pub fn frontier(offers: &[Offer]) -> Vec<Standing> {
    let mut order: Vec<usize> = (0..offers.len()).collect();
    order.sort_by(|&a, &b| offers[b].first.total_cmp(&offers[a].first));
    let mut standings = vec![Standing::Beaten; offers.len()];
    // The most of the second figure among those with more of the first.
    let mut above = f64::NEG_INFINITY;
    for level in order.chunk_by(|&a, &b| offers[a].first == offers[b].first) {
        let most = level.iter().map(|&at| offers[at].second);
        let most = most.fold(f64::NEG_INFINITY, f64::max);
        for &at in level {
            let is_beaten = |second: f64| above >= second || most > second;
            standings[at] = match (is_beaten(offers[at].second), is_beaten(offers[at].second_high)) {
                (false, _) => Standing::Front,
                (true, false) => Standing::Near,
                (true, true) => Standing::Beaten,
            };
        }
        above = above.max(most);
    }
    standings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As the words have it, pair by pair; few values, so that many are equal.
        #[test]
        fn nobody_on_it_is_beaten_and_the_others_are(
            given in proptest::collection::vec((0u8..6, 0u8..6, 0u8..3), 0..40)
        ) {
            let offers: Vec<Offer> = given
                .iter()
                .map(|&(first, second, more)| Offer {
                    first: f64::from(first),
                    second: f64::from(second),
                    second_high: f64::from(second) + f64::from(more) * 0.75,
                })
                .collect();
            let is_beaten = |own: &Offer, second: f64| offers.iter().any(|other| {
                let more = other.first > own.first || other.second > second;
                other.first >= own.first && other.second >= second && more
            });
            for (offer, standing) in offers.iter().zip(frontier(&offers)) {
                prop_assert_eq!(standing == Standing::Front, !is_beaten(offer, offer.second));
                prop_assert_eq!(standing == Standing::Beaten, is_beaten(offer, offer.second_high));
            }
        }
    }
}
