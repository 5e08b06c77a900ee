//! How many replicas that prefill and how many that decode a rate needs: the cheapest pair, what was tried about it, and on what it
//! rests.

use super::figures::{count, counted, percent, significant};
use super::searched::Searched;
use super::style::Style;
use super::tables::Column;
use super::text_sizing::{IF_OFF, at_model_ends, dollars};
use super::tried::{self, ATTAIN, Figure, TPOT_P99, TTFT_P99};
use crate::analysis::costs::usd_per_million;
use crate::analysis::knee::{Pair, PairEnding, Point, scales};
use crate::calibrate::interval::FigureInterval;
use crate::cost::Trust;

/// A pair that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct PairRow {
    /// Its replicas and their run.
    pub pair: Pair,
    /// GPUs of both pools.
    pub gpus: u64,
    /// US dollars an hour of them; `None` where a card has no price.
    pub usd_per_hour: Option<f64>,
    /// Share of time in which a step ran, of the prefill pool and of the decode pool.
    pub busy: Option<(f64, f64)>,
}

/// The cheapest pair at an end of the model's 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Replicas that prefill.
    pub prefill: u64,
    /// Replicas that decode.
    pub decode: u64,
    /// GPUs of both.
    pub gpus: u64,
}

/// How far the answer may be off because the step time's parameters are.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    /// Of its own knee.
    pub knee: FigureInterval,
    /// What is the cheapest where that is as much higher as it may be; `None` where none was found.
    pub fast: Option<End>,
    /// The same where it is as much lower.
    pub slow: Option<End>,
}

/// A search for the cheapest pair.
#[derive(Clone, Debug, PartialEq)]
pub struct PairSizing {
    /// Requests per second in all.
    pub rate: f64,
    /// How it ended.
    pub ending: PairEnding,
    /// All that were tried, the cheapest first.
    pub rows: Vec<PairRow>,
    /// The pair that was tried first.
    pub start: (u64, u64),
    /// Requests a second that one replica of each pool could serve at most, by their balance; `None` where it is not known.
    pub each_per_s: Option<(f64, f64)>,
    /// The cards of both pools.
    pub gpu: [String; 2],
    /// GPUs of one replica of each.
    pub gpus_each: [u64; 2],
    /// What stands before replicas of a pool.
    pub router: Option<String>,
    /// US dollars an hour of one replica of each pool; `None` where a card has no price.
    pub usd_each: Option<[f64; 2]>,
    /// Where the prices are from; empty where none is known.
    pub price_source: String,
    /// All that is promised, one phrase each.
    pub promises: Vec<String>,
    /// What has no rate and is sent beside it; empty where all have one.
    pub beside: Vec<String>,
    /// What was simulated.
    pub subject: String,
    /// What the scenario is called, where it is a file or ships.
    pub scenario: Option<String>,
    /// Seed of every random stream.
    pub seed: u64,
    /// How well each component of the step time is known.
    pub trust: Vec<(String, Trust)>,
    /// What the model's doubt makes of the answer, or why that is not known; `None` where there is no answer.
    pub doubt: Option<Result<Doubt, String>>,
    /// Defaults and substitutions, as sentences.
    pub assumptions: Vec<String>,
    /// What else must be known, as sentences.
    pub notes: Vec<String>,
    /// What was given and has no effect, as sentences.
    pub ignored: Vec<String>,
    /// The user stopped it.
    pub is_interrupted: bool,
}

impl PairRow {
    fn name(&self) -> String {
        format!("{} + {}", count(self.pair.prefill), count(self.pair.decode))
    }
}

impl PairSizing {
    /// The cheapest that was seen to meet the SLO.
    #[must_use]
    pub fn best(&self) -> Option<&PairRow> {
        match self.ending {
            PairEnding::Found { prefill, decode, .. } => self.row(prefill, decode),
            _ => None,
        }
    }

    fn row(&self, prefill: u64, decode: u64) -> Option<&PairRow> {
        let mut rows = self.rows.iter();
        rows.find(|row| (row.pair.prefill, row.pair.decode) == (prefill, decode))
    }

    /// Whether all that is cheaper is ruled out.
    #[must_use]
    pub fn is_cheapest(&self) -> bool {
        matches!(
            self.ending,
            PairEnding::Found {
                is_cheapest: true,
                ..
            }
        )
    }

    /// The fewest and the most GPUs of the pairs that may be the cheapest: the answer, and those that are not seen to miss the SLO
    /// beyond the sampling error, up to the cheapest that is seen to keep it beyond it. Without one of these the most are not known.
    /// Of unlike cards a cheaper pair may have more GPUs.
    #[must_use]
    pub fn gpus_95(&self) -> (Option<u64>, Option<u64>) {
        let sure = self.rows.iter().position(|row| row.pair.point.is_sure());
        let up_to = sure.map_or(self.rows.as_slice(), |sure| &self.rows[..sure]);
        let is_possible = |row: &&PairRow| may_keep(&row.pair.point) && !self.is_ruled_out(&row.pair);
        let candidates = || {
            let possible = up_to.iter().filter(is_possible);
            let gpus = possible.chain(sure.map(|sure| &self.rows[sure]));
            gpus.chain(self.best()).map(|row| row.gpus)
        };
        (candidates().min(), sure.and(candidates().max()))
    }

    /// Whether a pair with no fewer of either was seen to miss the SLO beyond the sampling error.
    fn is_ruled_out(&self, pair: &Pair) -> bool {
        let has_no_fewer = |other: &Pair| other.prefill >= pair.prefill && other.decode >= pair.decode;
        let mut rows = self.rows.iter();
        rows.any(|row| has_no_fewer(&row.pair) && !may_keep(&row.pair.point))
    }

    /// US dollars of the best per million output tokens, and per million of all tokens.
    #[must_use]
    pub fn usd_per_million(&self) -> Option<(f64, f64)> {
        let best = self.best()?;
        let (usd, point) = (best.usd_per_hour?, &best.pair.point);
        let (prompt, output) = point.tokens_each?;
        // What is answered beside the rate has tokens, too, and is paid with it.
        let answered = point.throughput.filter(|_| !self.beside.is_empty());
        let rate = answered.map_or(self.rate, |answered| answered.value);
        usd_per_million(usd, rate * output).zip(usd_per_million(usd, rate * (prompt + output)))
    }

    /// `2 prefill + 3 decode replicas for 30.0 req/s  (95 % [5, 6] GPUs)   5 × H100-SXM-80GB, 14.95 $/h, 0.52 $/M output tokens`.
    fn answer(&self) -> String {
        let rate = significant(self.rate);
        let Some(best) = self.best() else {
            return match self.ending {
                _ if self.is_interrupted => {
                    format!("INTERRUPTED before any pair met the SLO at {rate} req/s")
                }
                PairEnding::TooMany => {
                    format!("NO NUMBERS of prefill and decode replicas meet the SLO at {rate} req/s")
                }
                PairEnding::Untold => {
                    format!("NOT KNOWN: runs have too few requests to tell who meets the SLO at {rate} req/s")
                }
                _ => {
                    format!("NOT FOUND: the search ran out of runs before a pair met the SLO at {rate} req/s")
                }
            };
        };
        let (prefill, decode) = (best.pair.prefill, best.pair.decode);
        let gpus = [prefill * self.gpus_each[0], decode * self.gpus_each[1]];
        let cards = match self.gpu[0] == self.gpu[1] {
            true => format!("{} × {}", count(best.gpus), self.gpu[0]),
            false => format!(
                "{} × {} + {} × {}",
                count(gpus[0]),
                self.gpu[0],
                count(gpus[1]),
                self.gpu[1]
            ),
        };
        let (fewest, most) = self.gpus_95();
        let mut text = format!(
            "{}{} prefill + {} for {rate} req/s  (95 % [{}, {}] GPUs)   {cards}",
            match (self.is_interrupted, self.is_cheapest()) {
                (true, _) => "INTERRUPTED, until then: ",
                (false, true) => "",
                (false, false) => "OUT OF RUNS, until then: ",
            },
            count(prefill),
            counted(decode, "decode replica"),
            fewest.map_or("–".to_owned(), count),
            most.map_or("not bounded".to_owned(), count),
        );
        if let Some(usd) = best.usd_per_hour {
            text += &format!(", {} $/h", dollars(usd));
        }
        if let Some((output, _)) = self.usd_per_million() {
            text += &format!(", {} $/M output tokens", dollars(output));
        }
        text
    }

    /// What qualifies the answer: (name, sentence).
    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("counted", self.counted())];
        if let Some((_, all)) = self.usd_per_million() {
            let told = format!(
                "{} $ per million tokens, prompts and outputs; {}",
                dollars(all),
                self.price_source
            );
            lines.push(("cost", told));
        } else if self.best().is_some_and(|best| best.usd_per_hour.is_none()) {
            let told = "no price of a GPU is known: the fewest GPUs are looked for; give --price";
            lines.push(("cost", told.to_owned()));
        }
        let each = self.each_per_s.map_or(String::new(), |(prefill, decode)| {
            format!(
                ", by the balance of the pools: at most {} req/s of a replica that prefills, {} of one that decodes",
                significant(prefill),
                significant(decode)
            )
        });
        let (prefill, decode) = self.start;
        lines.push((
            "began",
            format!("with {} + {}{each}", count(prefill), count(decode)),
        ));
        if let Some(Ok(doubt)) = &self.doubt
            && let Some(told) = doubt.told()
        {
            lines.push(("replicas ±", told));
        }
        let beside = match self.beside.is_empty() {
            true => String::new(),
            false => format!(
                "; and beside the rate, once before all of them, what has none: {}",
                self.beside.join(", ")
            ),
        };
        lines.push((
            "supposes",
            format!(
                "that more replicas of either pool serve no worse, so that a pair which misses the SLO rules out all with no more of \
                 either: nearly true, so the pairs about the answer were tried, too. Replicas of a pool that are alike, and none that \
                 fails{beside}"
            ),
        ));
        lines
    }

    /// What was simulated, and the nearest pairs that are cheaper.
    fn counted(&self) -> String {
        let told = |row: &PairRow| format!("{} {}", row.name(), fate(&row.pair.point));
        let seen: Vec<String> = match self.best() {
            None => self.rows.last().map(told).into_iter().collect(),
            Some(best) => {
                let (prefill, decode) = (best.pair.prefill, best.pair.decode);
                let about = [(prefill, decode), (prefill - 1, decode), (prefill, decode - 1)];
                about
                    .iter()
                    .filter_map(|&(prefill, decode)| self.row(prefill, decode))
                    .map(told)
                    .collect()
            }
        };
        let behind = self
            .router
            .as_ref()
            .map_or(String::new(), |router| format!(", each pool behind {router}"));
        format!(
            "by simulating {} with all {} req/s{behind}: {}",
            counted(self.rows.len() as u64, "pair"),
            significant(self.rate),
            seen.join(", ")
        )
    }
}

/// Where a search ended without a pair that is surely the cheapest.
const NONE_THERE: &str = "no pair was found to be the cheapest at the";

impl Doubt {
    /// `1 + 2 to 3 + 4 (3 to 7 GPUs), if …`; `None` where nothing is uncertain.
    fn told(&self) -> Option<String> {
        self.knee.worst()?;
        let name = |end: End| format!("{} + {}", count(end.prefill), count(end.decode));
        let (low, _) = self.knee.factors_90();
        Some(match (self.fast, self.slow) {
            (Some(fast), Some(slow)) => {
                let gpus = format!(" ({} to {} GPUs)", count(fast.gpus), count(slow.gpus));
                at_model_ends(&name(fast), Some(&(name(slow) + &gpus)))
            }
            (Some(fast), None) if !scales(low) => at_model_ends(&name(fast), None),
            (Some(fast), None) => format!("at least {}, {IF_OFF}; {NONE_THERE} slow end", name(fast)),
            (None, Some(slow)) => format!("at most {}, {IF_OFF}; {NONE_THERE} fast end", name(slow)),
            (None, None) => format!("not known: {NONE_THERE} ends of `model ±`"),
        })
    }
}

/// Whether a run meets the SLO, is not seen to break it beyond the sampling error, or does not tell.
fn may_keep(point: &Point) -> bool {
    point.may_be_within() || (point.is_unknown && point.keeps_up())
}

/// `meets the SLO (99.2 % good)`.
fn fate(point: &Point) -> String {
    let share = point.attainment.filter(|_| point.keeps_up());
    let share = share.map_or(String::new(), |share| format!(" ({} good)", percent(share.value)));
    format!("{}{share}", state(point))
}

/// Whether a run meets the SLO, in words.
pub(super) fn state(point: &Point) -> &'static str {
    match point {
        _ if point.is_sure() => "met",
        _ if point.is_within() => "met, by less than its sampling error",
        _ if !point.keeps_up() => "not met: not all is served",
        _ if point.is_unknown => "not decided: too few requests",
        _ if point.may_be_within() => "not met, by less than its sampling error",
        _ => "not met",
    }
}

/// Writes the answer, what it rests on, and every pair that was tried.
#[must_use]
pub fn text(sizing: &PairSizing, style: Style) -> String {
    searched(sizing).text(style)
}

/// The same in Markdown.
#[must_use]
pub fn md(sizing: &PairSizing) -> String {
    searched(sizing).markdown()
}

fn searched(sizing: &PairSizing) -> Searched<'_> {
    let doubt = sizing.doubt.as_ref();
    Searched {
        answer: sizing.answer(),
        is_found: sizing.is_cheapest(),
        lines: sizing.lines(),
        promises: sizing.promises.join(", "),
        subject: &sizing.subject,
        trust: &sizing.trust,
        model: doubt.map(|doubt| doubt.as_ref().map(|doubt| &doubt.knee).map_err(String::as_str)),
        notes: &sizing.notes,
        assumptions: &sizing.assumptions,
        tried: cells(sizing),
        keys: 2,
    }
}

/// What is told of a pair's run.
const FIGURES: [Figure; 3] = [ATTAIN, TTFT_P99, TPOT_P99];

fn cells(sizing: &PairSizing) -> (Vec<Column>, Vec<Vec<String>>) {
    let heads = ["prefill", "decode", "GPUs", "$/h"].into_iter();
    let heads = heads.chain(tried::heads(&FIGURES)).chain(["P busy", "D busy"]);
    let mut columns: Vec<Column> = heads.map(Column::right).collect();
    columns.push(Column::left("SLO"));
    let best = sizing.best().map(PairRow::name);
    let dash = || "–".to_owned();
    let row = |row: &PairRow| {
        let point = &row.pair.point;
        let mark = if best.as_ref() == Some(&row.name()) {
            "▶ "
        } else {
            ""
        };
        let before = [
            format!("{mark}{}", count(row.pair.prefill)),
            count(row.pair.decode),
            count(row.gpus),
            row.usd_per_hour.map_or_else(dash, dollars),
        ];
        let after = [
            row.busy.map_or_else(dash, |(prefill, _)| percent(prefill)),
            row.busy.map_or_else(dash, |(_, decode)| percent(decode)),
            state(point).to_owned(),
        ];
        let cells = before.into_iter().chain(tried::cells(&FIGURES, point));
        cells.chain(after).collect()
    };
    (columns, sizing.rows.iter().map(row).collect())
}

/// A row a pair, full precision.
#[must_use]
pub fn csv(sizing: &PairSizing) -> String {
    let head: Vec<&str> = ["for_rate", "prefill", "decode", "gpus", "usd_per_hour"]
        .into_iter()
        .chain(tried::keys(&FIGURES))
        .chain(["prefill_busy", "decode_busy", "kept", "is_answer"])
        .collect();
    let best = sizing.best().map(|row| row.pair.clone());
    let cell = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let rows = sizing.rows.iter().map(|row| {
        let point = &row.pair.point;
        let before = [
            sizing.rate.to_string(),
            row.pair.prefill.to_string(),
            row.pair.decode.to_string(),
            row.gpus.to_string(),
            cell(row.usd_per_hour),
        ];
        let after = [
            cell(row.busy.map(|busy| busy.0)),
            cell(row.busy.map(|busy| busy.1)),
            point.is_within().to_string(),
            (best.as_ref() == Some(&row.pair)).to_string(),
        ];
        let exact = tried::exact(&FIGURES, point);
        before.into_iter().chain(exact).chain(after).collect()
    });
    super::csv::write(&head, rows)
}

#[cfg(test)]
mod tests;
