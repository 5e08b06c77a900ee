//! Purchases of a file that finished settings are kept in, read from their objects: one that an earlier command finished stands beside
//! one that was just searched.
//!
//! Left out: what an answer rests on beyond its figures. The objects have it.

use std::fmt::Write;

use serde_json::Value;

use super::answer::{buy, loads, wanted};
use super::table::cells;
use super::{Config, DemandView, Offer};
use crate::report::figures::counted;
use crate::report::json::purchase_of;
use crate::report::page::table_on;
use crate::report::wrapped;

/// What a file keeps that can be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The cheapest first.
    pub offers: Vec<Offer>,
    /// How many settings there are.
    settings: usize,
    /// What is wanted.
    demand: DemandView,
    /// Replicas beside the fewest that meet the SLO.
    spares: u64,
}

impl Kept {
    /// From the objects of all settings, each with its standing, and what each setting is. Ranks are written into the objects.
    #[must_use]
    pub fn of(objects: &mut [Value], configs: &[Config], demand: DemandView, spares: u64) -> Kept {
        let offer = |(at, (object, config)): (usize, (&Value, &Config))| {
            let offer = purchase_of(object, config)?;
            // What is priced and stands nowhere does less than is asked for.
            (offer.usd_per_hour.is_none() || offer.standing.is_some()).then_some(Offer {
                row: Some(at),
                ..offer
            })
        };
        let both = objects.iter().zip(configs).enumerate();
        let mut offers: Vec<Offer> = both.filter_map(offer).collect();
        let key = |offer: &Offer| {
            let usd = offer.usd_per_hour.unwrap_or(f64::INFINITY);
            // Of those that cost the same the best is the first.
            (
                usd,
                u8::from(offer.standing != Some("best")),
                offer.load.unwrap_or_default(),
            )
        };
        offers.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.total_cmp(&b.2))
        });
        for (at, offer) in offers.iter_mut().enumerate() {
            offer.rank = at + 1;
        }
        for (at, object) in objects.iter_mut().enumerate() {
            if !object["purchase"].is_object() {
                continue;
            }
            let offer = offers.iter().find(|offer| offer.row == Some(at));
            object["purchase"]["rank"] = offer.map(|offer| offer.rank).into();
            object["purchase"]["standing"] = object["standing"].clone();
            object["purchase"]["alike_by"] = object["alike_by"].clone();
        }
        Kept {
            offers,
            settings: objects.len(),
            demand,
            spares,
        }
    }

    /// What to buy, a table, and what to look at next; `file` has the rest.
    #[must_use]
    pub fn text(&self, file: &str, next: &[(String, String)], width: Option<usize>) -> String {
        const PLAIN: usize = 120;
        let wanted = wanted(&self.demand);
        let answer = match self.offers.first() {
            Some(best) => buy(best, &wanted),
            None => format!(
                "NOTHING in {file} meets the SLO for {}",
                wanted.trim_end_matches(',')
            ),
        };
        let line = |name: &str, sentence: &str| {
            wrapped(
                &format!("{name:<10}"),
                "          ",
                sentence,
                width.unwrap_or(PLAIN),
            )
        };
        let mut text = wrapped("", "  ", &answer, width.unwrap_or(usize::MAX));
        if !self.offers.is_empty() {
            let (columns, cells) = cells(&self.offers, self.spares);
            text.push('\n');
            text += &table_on(&columns, &cells, 2, width);
            text.extend(loads(&self.offers).map(|loads| line("load", &loads)));
            text.push('\n');
        }
        for (name, command) in next {
            let _ = writeln!(text, "{name:<10}{command}");
        }
        let others = self.settings - self.offers.len();
        let others = match others {
            0 => String::new(),
            others => format!(", of which {others} cannot be bought: `state` and `why` say why not"),
        };
        let of = counted(self.settings as u64, "setting");
        text + &line("kept", &format!("{file} has all that is known of {of}{others}"))
    }
}
