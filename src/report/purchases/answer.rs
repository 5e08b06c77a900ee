//! What to buy, in a line; what survives a failure at the least cost; and the demand, with Little's law of it.

use super::config::bought;
use super::{DemandView, How, Offer, Purchases, dollars};
use crate::analysis::knee::NeededBy;
use crate::report::figures::{count, counted, percent, significant, time};
use crate::report::knees::{BY_CHANCE, BY_MODEL, Found, KneeRow, Priced, all_alike, interrupted};
use crate::report::views::Counted;

/// The first line.
pub(in crate::report) fn answer(shop: &Purchases) -> String {
    let before = shop.knees.cut();
    let before = before
        .map(|(searched, of)| interrupted(searched, of))
        .unwrap_or_default();
    before + &found(shop)
}

fn found(shop: &Purchases) -> String {
    let offers = shop.offers();
    let wanted = wanted(&shop.demand);
    match offers.first() {
        Some(best) => buy(best, &wanted),
        None if shop.knees.cut().is_some() => "nothing is known yet of what meets the SLO".to_owned(),
        None if shop
            .knees
            .rows
            .iter()
            .all(|row| matches!(row.found, Found::DoesNotFit(_))) =>
        {
            "NOTHING FITS: no card that was tried holds the model".to_owned()
        }
        None if shop.knees.rows.iter().all(|row| row.priced().is_none()) => {
            "NOTHING could be searched".to_owned()
        }
        None if shop
            .knees
            .rows
            .iter()
            .filter_map(KneeRow::priced)
            .all(is_held_back) =>
        {
            format!(
                "THE CLIENT IS THE LIMIT: {} are too few for {} req/s, however many replicas answer; a larger --max-concurrency, or none, lets \
             it send them",
                match shop.demand.in_flight_max {
                    Some(most) => format!("{} in flight at most", count(most.into())),
                    None => "as many in flight as its clients may have".to_owned(),
                },
                significant(shop.demand.rate.unwrap_or_default())
            )
        }
        None if shop.knees.is_any_client() => format!(
            "NOTHING was seen to meet the SLO for {}: the client holds requests back, and a larger --max-concurrency may be what lacks",
            wanted.trim_end_matches(',')
        ),
        None => format!(
            "NOTHING meets the SLO for {}, however many",
            wanted.trim_end_matches(',')
        ),
    }
}

/// What is bought, for how much, and what becomes of it when a replica fails.
pub(super) fn buy(best: &Offer, wanted: &str) -> String {
    if best.usd_per_hour.is_none() {
        return format!(
            "no price is known of what meets the SLO for {wanted}: {} does; --price {}=USD gives one",
            best.bought(),
            best.config.gpu
        );
    }
    format!(
        "buy {}: {} for {wanted} within the SLO{}; {}",
        best.bought(),
        usd(best.usd_per_hour),
        match best.why_by_knee {
            None => "",
            Some(_) => ", by the knee of one and NOT SIMULATED",
        },
        with_one_down(best)
    )
}

/// Whether the most replicas that were tried answer too slowly for the client to send the demand.
fn is_held_back(priced: &Priced) -> bool {
    let sizing = priced.view.sizing.as_ref();
    match sizing.and_then(|sizing| sizing.counted.as_ref()) {
        Some(Counted::BySimulation { count, .. }) => {
            let most = count.tried.last();
            most.is_some_and(|most| most.point.is_held_back())
        }
        _ => false,
    }
}

/// `100 req/s`, `2,000 users`.
pub(super) fn wanted(demand: &DemandView) -> String {
    match (demand.of_loop, demand.rate) {
        (Some(of_loop), _) if of_loop.is_users => format!("{} users", count(of_loop.number.into())),
        (Some(of_loop), _) => format!("{} in flight", count(of_loop.number.into())),
        (None, Some(rate)) => match demand.in_flight_max {
            None => format!("{} req/s", significant(rate)),
            Some(most) => format!("{} req/s, ≤ {} in flight,", significant(rate), count(most.into())),
        },
        (None, None) => "the demand".to_owned(),
    }
}

/// What becomes of it when a replica fails.
fn with_one_down(best: &Offer) -> String {
    let (_, _, surviving) = best.surviving;
    let one_more = surviving.map_or(String::new(), |surviving| {
        let what = match best.how {
            How::Alike(_) => "one more",
            How::Apart(..) => "one more of each",
        };
        format!(" ({what} survives that: {} $/h)", dollars(surviving))
    });
    match (best.survives, best.how) {
        (true, _) => "with one down still within it".to_owned(),
        (false, How::Alike(1)) => format!("with it down nothing is served{one_more}"),
        (false, _) => format!("with one down it is missed{one_more}"),
    }
}

fn usd(usd: Option<f64>) -> String {
    usd.map_or_else(
        || "at no known price".to_owned(),
        |usd| format!("{} $/h", dollars(usd)),
    )
}

/// That the client's limit decides how many there are, and not the SLO.
pub(super) fn held(shop: &Purchases) -> Option<String> {
    let offers = shop.offers();
    let best = offers.first().filter(|best| best.is_held_with_less)?;
    let less = match best.how {
        How::Alike(replicas) => count(replicas - shop.spares - 1),
        How::Apart(..) => return None,
    };
    Some(format!(
        "the client's limit asks for so many: {less} answer too slowly for it to send the rate, with no more in flight; a larger \
         --max-concurrency, or none, may need fewer"
    ))
}

/// What survives a failure at the least cost, where the answer does not.
pub(super) fn surviving(shop: &Purchases) -> Option<String> {
    let offers = shop.offers();
    if offers.first().is_none_or(|best| best.survives) {
        return None;
    }
    let known = offers
        .iter()
        .filter_map(|offer| Some((offer, offer.surviving.2?)));
    let (offer, usd) = known.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let (how, gpus, _) = offer.surviving;
    Some(format!(
        "the cheapest that meets the SLO with any one replica down: {}, {} $/h; `--spare 1` ranks all by that",
        bought(&offer.config, how, gpus),
        dollars(usd)
    ))
}

/// What is wanted, and what that is in flight: Little's law, with what the simulation of the answer saw.
pub(super) fn demand(shop: &Purchases) -> Option<String> {
    let demand = &shop.demand;
    let seen = shop.offers().iter().find_map(|offer| offer.seen);
    let seen = seen.map(|seen| (seen.served_per_s, seen.in_flight, seen.answer_s()));
    let factor = match demand.headroom {
        1.0 => String::new(),
        factor => format!(", {} times what is asked for (--headroom)", significant(factor)),
    };
    let told = match (demand.of_loop, seen) {
        (Some(of_loop), Some((served, inside, answer_s))) if of_loop.is_users => format!(
            "{} users{factor}, think {}, an answer takes {}: {} req/s offered (Little: N = λ(Z + R)), {} in flight",
            count(of_loop.number.into()),
            time(of_loop.think_s),
            time(answer_s),
            significant(served),
            significant(inside)
        ),
        (Some(of_loop), Some((served, _, answer_s))) => format!(
            "{} in flight{factor}, an answer takes {}: {} req/s (Little: N = λR)",
            count(of_loop.number.into()),
            time(answer_s),
            significant(served)
        ),
        (Some(of_loop), None) => format!("{}{factor}", counted(of_loop.number.into(), "client")),
        (None, Some((_, inside, answer_s))) => format!(
            "{} req/s, {}{factor}; an answer takes {}: {} in flight (Little: L = λW)",
            significant(demand.rate?),
            demand.source,
            time(answer_s),
            significant(inside)
        ),
        (None, None) => format!("{} req/s, {}{factor}", significant(demand.rate?), demand.source),
    };
    // What was simulated is the fleet that has to do without them.
    let with_spares_down = (shop.spares > 0 && seen.is_some()).then_some("; that with the spares down");
    Some(told + with_spares_down.unwrap_or_default())
}

/// How replicas were counted, and what is said to survive on what ground.
pub(super) fn counting(shop: &Purchases) -> Option<String> {
    let offers = shop.offers();
    let all = offers.iter().filter(|offer| offer.row.is_some());
    let (simulated, by_knee): (Vec<&Offer>, Vec<&Offer>) = all.partition(|offer| offer.why_by_knee.is_none());
    let router = simulated
        .iter()
        .find_map(|offer| router(shop.knees.rows[offer.row?].priced()?));
    let behind = router.map_or(String::new(), |router| format!(" behind {router}"));
    let mut told = Vec::new();
    if !simulated.is_empty() {
        told.push(format!(
            "by simulating so many{behind}, and one less, which share all of the demand; what is left after a failure is judged by its steady \
             state, not by the moment itself; behind another --router it may be another number"
        ));
    }
    let mut whys: Vec<&str> = by_knee
        .iter()
        .filter_map(|offer| offer.why_by_knee.as_deref())
        .collect();
    whys.dedup();
    for why in whys {
        let of_this = by_knee
            .iter()
            .filter(|offer| offer.why_by_knee.as_deref() == Some(why));
        let names: Vec<String> = of_this.map(|offer| offer.config.name()).collect();
        told.push(format!(
            "{}: by the knee of one, not simulated, and so is what survives ({why})",
            names.join(", ")
        ));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

fn router(priced: &Priced) -> Option<&str> {
    match priced.view.sizing.as_ref()?.counted.as_ref()? {
        Counted::BySimulation { router, .. } => router.as_deref(),
        Counted::ByKnee(_) => None,
    }
}

/// What cannot be told from the cheapest, a sentence for each reason; pools that were counted are among it.
pub(super) fn alike(shop: &Purchases) -> Vec<String> {
    if shop.pairs.is_empty() {
        return all_alike(&shop.knees);
    }
    let offers = shop.offers();
    let names = |doubt: &str| -> Vec<String> {
        let alike = offers.iter().filter(|offer| offer.alike_by == Some(doubt));
        alike.map(Offer::bought).collect()
    };
    let told = [("chance", BY_CHANCE), ("model", BY_MODEL)].map(|(doubt, why)| (why, names(doubt)));
    let told = told.into_iter().filter(|(_, names)| !names.is_empty());
    told.map(|(why, names)| format!("{why}: {}", names.join("; ")))
        .collect()
}

/// On what the loads in a table rest, where not all rest on the fleet that was simulated.
pub(super) fn loads(offers: &[Offer]) -> Option<String> {
    let is = |by: NeededBy| offers.iter().any(|offer| offer.load_by == Some(by));
    let others = match is(NeededBy::Fleet) {
        true => "; the others by the runs of so many and of one less, between which the SLO is just met",
        false => "",
    };
    is(NeededBy::KneeOfOne).then(|| format!("{OF_ONE} by the knees of so many replicas, each alone{others}"))
}

/// The mark of a load by the knees of replicas that are alone.
const OF_ONE: &str = "*";

/// `81.1 %*`, `≤ 100 %`: how loaded a purchase is, and what tells it. Figures stand under each other where some have a mark.
pub(super) fn load(offer: &Offer, has_marks: bool) -> Option<String> {
    let mark = match offer.load_by {
        Some(NeededBy::KneeOfOne) => OF_ONE,
        _ if has_marks => " ",
        _ => "",
    };
    Some(share(offer.load?, offer.is_load_at_most()) + mark)
}

/// A load, which may be what it is at most: `≤ 100 %`.
pub(super) fn share(load: f64, is_at_most: bool) -> String {
    match is_at_most {
        true => format!("≤ {}", percent(load)),
        false => percent(load),
    }
}

/// `yes (87.0 %)`, `NO (7 left: 104 %)`.
pub(super) fn survival(offer: &Offer) -> String {
    let percent = |load: f64| share(load, offer.is_load_at_most());
    match (offer.survives, offer.left, offer.how) {
        (true, Some((_, load)), _) => format!("yes ({})", percent(load)),
        (true, None, _) => "yes".to_owned(),
        (false, Some((left, load)), _) => format!("NO ({} left: {})", count(left), percent(load)),
        (false, None, How::Alike(_)) => "NO (none left)".to_owned(),
        (false, None, How::Apart(..)) => "NO".to_owned(),
    }
}
