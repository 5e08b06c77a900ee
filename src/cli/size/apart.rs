//! `--disaggregated`: prefill and decode pools beside replicas that do both, of the best setting of each card.

use super::super::interrupt;
use super::super::knee::pairs_for;
use super::super::terminal::Terminal;
use super::Shop;
use crate::report::purchases::{PairOffer, Purchases};

/// Cards whose pools are counted: each takes as long as some searches.
const CARDS: usize = 4;

/// The cheapest pools of the cheapest cards.
pub(super) fn pairs(shop: &Shop<'_>, found: &Purchases, terminal: &Terminal) -> Vec<PairOffer> {
    let Some(demand) = shop.demand else {
        return Vec::new();
    };
    let mut cards: Vec<String> = Vec::new();
    let mut offers = Vec::new();
    for offer in found.offers() {
        let Some(row) = offer
            .row
            .filter(|_| !cards.contains(&offer.config.gpu) && cards.len() < CARDS)
        else {
            continue;
        };
        if interrupt::is_asked() {
            break;
        }
        let Some(planned) = shop.planned(row) else {
            continue;
        };
        cards.push(offer.config.gpu.clone());
        let counted = pairs_for(&shop.given[planned.index].document, demand.rate, terminal);
        offers.push(PairOffer {
            config: offer.config.clone(),
            found: counted.map_err(|error| format!("{error:#}")),
        });
    }
    offers
}
