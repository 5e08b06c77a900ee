//! What to buy, in a line; what survives a failure at the least cost; and the demand, with Little's law of it.

use super::{Config, How, Offer, Purchases, bought, dollars};
use crate::report::figures::{count, counted, percent, significant, time};
use crate::report::knees::{Found, KneeRow, Priced, interrupted};
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
    let wanted = wanted(shop);
    match offers.first() {
        Some(best) if best.usd_per_hour.is_none() => format!(
            "no price is known of what meets the SLO for {wanted}: {} does; --price {}=USD gives one",
            best.bought(),
            best.config.gpu
        ),
        Some(best) => format!(
            "buy {}: {} for {wanted} within the SLO; {}",
            best.bought(),
            usd(best.usd_per_hour),
            with_one_down(best)
        ),
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
                "THE CLIENT IS THE LIMIT: as many in flight as it may have are too few for {wanted}, however many replicas answer; a larger \
             --max-concurrency, or none, lets it send them"
            )
        }
        None => format!("NOTHING meets the SLO for {wanted}, however many"),
    }
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
fn wanted(shop: &Purchases) -> String {
    match (shop.demand.of_loop, shop.demand.rate) {
        (Some(of_loop), _) if of_loop.is_users => format!("{} users", count(of_loop.number.into())),
        (Some(of_loop), _) => format!("{} in flight", count(of_loop.number.into())),
        (None, Some(rate)) => format!("{} req/s", significant(rate)),
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
    let (simulated, by_knee): (Vec<&Offer>, Vec<&Offer>) = all.partition(|offer| offer.is_simulated);
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
    if !by_knee.is_empty() {
        let names: Vec<String> = by_knee.iter().map(|offer| offer.config.name()).collect();
        told.push(format!(
            "{}: by the knee of one, not simulated, and so is what survives",
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

/// The settings that do not fit, in a line: of each card the largest number of GPUs that is not enough, and why.
pub(super) fn unfit(shop: &Purchases) -> Option<String> {
    let misfits = shop.said(|found| match found {
        Found::DoesNotFit(why) => Some(why.split("; smallest change").next().unwrap_or(why)),
        _ => None,
    });
    let mut of_cards: Vec<(&Config, usize, &str)> = Vec::new();
    for (config, why) in misfits {
        match of_cards
            .iter_mut()
            .find(|(known, ..)| known.gpu == config.gpu && known.rest == config.rest)
        {
            Some(known) => *known = (config, known.1 + 1, why),
            None => of_cards.push((config, 1, why)),
        }
    }
    let told = of_cards.into_iter().map(|(config, settings, why)| {
        let up_to = if settings > 1 { "up to " } else { "" };
        format!(
            "{} {up_to}{}{} ({why})",
            config.gpu,
            config.shape(),
            config.of_axes()
        )
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// The settings that were not worth a search, in a line.
pub(super) fn pruned(shop: &Purchases) -> Option<String> {
    let pruned = shop.said(|found| match found {
        Found::Pruned(why) => Some(why),
        _ => None,
    });
    let names = by_card(pruned.into_iter().map(|(config, _)| config));
    (!names.is_empty()).then(|| {
        format!(
            "{names}: even replicas that are always full would cost twice what another setting does, or more; --unpruned searches them, JSON and CSV \
             say what each costs at the least"
        )
    })
}

/// `B200-SXM-180GB TP2, TP4; L40S-48GB TP8`.
fn by_card<'a>(configs: impl Iterator<Item = &'a Config>) -> String {
    let mut cards: Vec<(&Config, String)> = Vec::new();
    for config in configs {
        match cards
            .iter_mut()
            .find(|(known, _)| known.gpu == config.gpu && known.rest == config.rest)
        {
            Some((_, sizes)) => *sizes += &format!(", {}", config.shape()),
            None => cards.push((config, config.name())),
        }
    }
    let told = cards.into_iter().map(|(config, sizes)| sizes + &config.of_axes());
    told.collect::<Vec<_>>().join("; ")
}

/// The settings that do not meet the SLO with any number of replicas, in a line, and what breaks first in each.
pub(super) fn misses(shop: &Purchases) -> Option<String> {
    let missed = shop.said(|found| match found {
        Found::Knee(priced) if !priced.is_cut && !priced.view.is_kept() => {
            Some(priced.view.breaks_first.words())
        }
        _ => None,
    });
    let told: Vec<String> = (missed.iter())
        .map(|(config, what)| format!("{} ({what})", config.name()))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// Pools that were counted and are no offer, and why.
pub(super) fn pools(shop: &Purchases) -> Vec<String> {
    let told = shop.pairs.iter().filter_map(|pair| match &pair.found {
        Ok(sizing) if sizing.best().is_some() => None,
        Ok(_) => Some(format!("{}: no numbers of both meet the SLO", pair.config.name())),
        Err(why) => Some(format!("{}: {why}", pair.config.name())),
    });
    told.collect()
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
    let percent = |load: f64| share(load, offer.is_load_at_most);
    match (offer.survives, offer.left, offer.how) {
        (true, Some((_, load)), _) => format!("yes ({})", percent(load)),
        (true, None, _) => "yes".to_owned(),
        (false, Some((left, load)), _) => format!("NO ({} left: {})", count(left), percent(load)),
        (false, None, How::Alike(_)) => "NO (none left)".to_owned(),
        (false, None, How::Apart(..)) => "NO".to_owned(),
    }
}
