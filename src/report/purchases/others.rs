//! What is no purchase, each kind in a line: settings that do not fit, that miss the SLO, that were not worth a search, and pools.

use super::{Config, Purchases};
use crate::report::knees::Found;

/// The settings that do not fit, in a line: of each card the largest number of GPUs that is not enough, and why; cards of one reason
/// stand together.
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
    let mut reasons: Vec<(String, Vec<(&Config, &str)>)> = Vec::new();
    for (config, settings, why) in of_cards {
        let up_to = if settings > 1 { "up to " } else { "" };
        let what = format!("{up_to}{}{}", config.shape(), config.of_axes());
        let needs = needs(config, why);
        let is_this = |(known, of): &&mut (String, Vec<(&Config, &str)>)| {
            *known == what
                && of
                    .first()
                    .is_some_and(|(config, why)| self::needs(config, why) == needs)
        };
        match reasons.iter_mut().find(is_this) {
            Some((_, of)) => of.push((config, why)),
            None => reasons.push((what, vec![(config, why)])),
        }
    }
    let told = reasons.iter().map(|(what, of)| match &of[..] {
        [(config, why)] => format!("{} {what} ({why})", config.gpu),
        several => {
            let names: Vec<&str> = several.iter().map(|(config, _)| config.gpu.as_str()).collect();
            let needs = several
                .first()
                .map_or("", |(config, why)| self::needs(config, why));
            format!("{} {what} ({needs}{})", names.join(", "), offered(several))
        }
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// What stands between what is needed and what a card has of it.
fn offers(config: &Config) -> String {
    format!(", {} offers ", config.gpu)
}

/// What is needed, without what the card has of it.
fn needs<'a>(config: &Config, why: &'a str) -> &'a str {
    why.split_once(&offers(config)).map_or(why, |(needs, _)| needs)
}

/// What several cards have of it, each as it is written: `, they offer 36.2 GiB, 40.8 GiB`.
fn offered(several: &[(&Config, &str)]) -> String {
    let of_card = |(config, why): &(&Config, &'_ str)| {
        let (_, offered) = why.split_once(&offers(config))?;
        Some(offered.to_owned())
    };
    let mut offered: Vec<String> = Vec::new();
    for one in several.iter().filter_map(of_card) {
        if !offered.contains(&one) {
            offered.push(one);
        }
    }
    match offered.is_empty() {
        true => String::new(),
        false => format!(", they offer {}", offered.join(", ")),
    }
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
