//! The same GPUs shared out between prefill and decode in every way, and doing both: which is best, and why.

use std::fmt::Write;

use super::First;
use super::figures::{interval_outwards, percent, significant, significant_down, time};
use super::text_sizing::dollars;
use crate::analysis::Estimate;
use crate::analysis::costs::usd_per_million;

/// One way to share the replicas out.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitRow {
    /// Replicas that prefill and replicas that decode; `None` where all do both.
    pub split: Option<(u32, u32)>,
    /// Highest rate within the SLO.
    pub within_slo: Option<Estimate>,
    /// Rate above which not all that is offered is served.
    pub saturation: Option<Estimate>,
    /// The promise that breaks first, or `saturation`.
    pub breaks: Option<First>,
    /// Share of time in which a step ran, at the highest rate within the SLO: of the prefill pool, of the decode
    /// pool; twice the same where all do both.
    pub busy: Option<(f64, f64)>,
    /// Share of TTFT that the transfer takes there.
    pub transfer_share: Option<f64>,
    /// What a request costs there.
    pub costs: Option<Costs>,
    /// US dollars an hour of its GPUs, where all have a price.
    pub usd_per_hour: Option<f64>,
    /// The same of each pool that has a name.
    pub usd_by_pool: Vec<(String, f64)>,
    /// A rate that it cannot exceed, where that is below what another way reaches: it was not searched.
    pub bound: Option<f64>,
}

/// What a request costs at the highest rate within the SLO, as the run there has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Time of a prefill replica in seconds; `None` where all do both.
    pub prompt_s: Option<f64>,
    /// Tokens of its prompt.
    pub prompt_tokens: f64,
    /// Output tokens.
    pub output_tokens: f64,
    /// Mean TPOT in seconds.
    pub tpot_s: f64,
    /// Median and 99th percentile of single gaps between tokens, in seconds.
    pub itl_s: [f64; 2],
    /// Bytes of KV that cross, and the mean time of a message in seconds.
    pub transfer: Option<(f64, f64)>,
}

impl SplitRow {
    /// A way that was not searched, because it cannot exceed `bound`.
    #[must_use]
    pub fn beaten(split: (u32, u32), bound: f64) -> SplitRow {
        SplitRow {
            split: Some(split),
            within_slo: None,
            saturation: None,
            breaks: None,
            busy: None,
            transfer_share: None,
            costs: None,
            usd_per_hour: None,
            usd_by_pool: Vec::new(),
            bound: Some(bound),
        }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.within_slo.map_or(0.0, |rate| rate.value)
    }

    /// US dollars per million output tokens at its rate.
    #[must_use]
    pub fn usd_per_million_output_tokens(&self) -> Option<f64> {
        self.usd_per_million(|costs| costs.output_tokens)
    }

    /// The same per million tokens, prompts and outputs.
    #[must_use]
    pub fn usd_per_million_tokens(&self) -> Option<f64> {
        self.usd_per_million(|costs| costs.prompt_tokens + costs.output_tokens)
    }

    fn usd_per_million(&self, tokens: impl Fn(&Costs) -> f64) -> Option<f64> {
        let tokens_per_s = self.within_slo?.value * tokens(self.costs.as_ref()?);
        usd_per_million(self.usd_per_hour?, tokens_per_s)
    }

    fn name(&self) -> String {
        match self.split {
            Some((prefill, decode)) => format!("{prefill} prefill + {decode} decode"),
            None => "all do both".to_owned(),
        }
    }
}

/// All ways to share `replicas` out.
#[derive(Clone, Debug, PartialEq)]
pub struct Splits {
    /// GPUs in all.
    pub gpus: u32,
    /// Replicas that they make.
    pub replicas: u32,
    /// What is promised, as printed.
    pub promises: String,
    /// Every split, then all doing both.
    pub rows: Vec<SplitRow>,
    /// Ways that were not tried because the search was interrupted.
    pub missing: usize,
    /// Where the prices are from; empty where none is known.
    pub price_source: String,
    /// What is simulated.
    pub subject: String,
    /// What the scenario is called, where it is a file or ships.
    pub scenario: Option<String>,
    /// Seed of every random stream.
    pub seed: u64,
    /// The arithmetic is asked for.
    pub explains: bool,
}

impl Splits {
    pub(crate) fn best_split(&self) -> Option<&SplitRow> {
        let splits = self.rows.iter().filter(|row| row.split.is_some());
        // Of equals the first.
        splits.fold(None, |best: Option<&SplitRow>, row| match best {
            Some(best) if best.rate() >= row.rate() => Some(best),
            _ => Some(row),
        })
    }

    pub(crate) fn together(&self) -> Option<&SplitRow> {
        self.rows.iter().find(|row| row.split.is_none())
    }

    /// Whether any way meets the SLO at any rate.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.rows.iter().any(|row| row.within_slo.is_some())
    }

    /// The first line.
    fn answer(&self) -> String {
        if self.missing > 0 {
            let tried = self.rows.len();
            let all = tried + self.missing;
            return format!(
                "INTERRUPTED: {tried} of {all} ways to use {} GPUs were tried",
                self.gpus
            );
        }
        let (Some(best), Some(together)) = (self.best_split(), self.together()) else {
            return "nothing was tried".to_owned();
        };
        let (apart, both) = (best.rate(), together.rate());
        let gpus = self.gpus;
        if apart == 0.0 && both == 0.0 {
            return format!("NO RATE on {gpus} GPUs meets the SLO, prefill and decode apart or not");
        }
        let rates = format!(
            "{} {} req/s, all {} doing both {} req/s",
            best.name(),
            significant_down(apart),
            self.replicas,
            significant_down(both)
        );
        if both == 0.0 {
            return format!("{gpus} GPUs: only apart is the SLO met: {rates}");
        }
        let ratio = apart / both;
        let word = if ratio > 1.0 { "APART HELPS" } else { "APART HURTS" };
        let by = if ratio > 1.0 { ratio - 1.0 } else { 1.0 - ratio };
        if by < 0.02 {
            return format!("{gpus} GPUs: apart or not is the same here: {rates}");
        }
        if overlap(best, together) {
            return format!(
                "{gpus} GPUs: NOT DECIDED whether apart is better, the intervals overlap: {rates}"
            );
        }
        format!("{gpus} GPUs: {word} by {}: {rates}", percent(by))
    }

    /// Why it helps or hurts here.
    fn why(&self) -> Option<String> {
        let (best, together) = (self.best_split()?, self.together()?);
        let limit = |row: &SplitRow| row.breaks.map_or_else(|| "nothing".to_owned(), First::words);
        if best.rate() > together.rate() {
            let gap = |row: &SplitRow| row.costs.map(|costs| time(costs.itl_s[1]));
            let gaps = gap(together)
                .zip(gap(best))
                .map_or_else(String::new, |(both, apart)| {
                    format!(" (p99 gap between tokens {both}, and {apart} apart)")
                });
            return Some(format!(
                "where all do both, {} breaks first, since prompts are computed between the tokens of answers{gaps}; \
                 apart, a decode step never waits for a prompt, and {} breaks first",
                limit(together),
                limit(best)
            ));
        }
        let (prefill, decode) = best.busy?;
        let is_late = limit(best).contains("TTFT") && prefill >= BUSY_WITH_PROMPTS;
        let (idle, share) = if prefill < decode {
            ("prefill", prefill)
        } else {
            ("decode", decode)
        };
        let (split_prefill, split_decode) = best.split?;
        let transfer = best.transfer_share.unwrap_or(0.0);
        let prompts = best
            .costs
            .and_then(|costs| costs.prompt_s)
            .map_or_else(String::new, |prompt_s| {
                let need = significant(best.rate() * prompt_s);
                format!(
                    " (prompts need {need} replicas of {})",
                    split_prefill + split_decode
                )
            });
        if is_late {
            // A step of a few sequences keeps a decode pool busy, too: how busy it is does not tell what it could hold.
            return Some(format!(
                "at {split_prefill}:{split_decode} the prefill pool is the limit, busy {} where {} breaks first, and what \
                 the decode pool has left no prompt can use{prompts}; the transfer is {} of TTFT",
                percent(prefill),
                limit(best),
                percent(transfer)
            ));
        }
        Some(format!(
            "at {split_prefill}:{split_decode} the {idle} pool is busy only {}, and what it leaves idle the other cannot \
             use{prompts}; {} breaks first there, and the transfer is {} of TTFT",
            percent(share),
            limit(best),
            percent(transfer)
        ))
    }
}

/// Share of its time from which prompts wait for each other in a prefill pool, so that a late first token is its.
const BUSY_WITH_PROMPTS: f64 = 0.6;

/// Whether the rates of two ways may be the same.
fn overlap(one: &SplitRow, other: &SplitRow) -> bool {
    let both = one.within_slo.zip(other.within_slo);
    both.is_some_and(|(one, other)| one.low <= other.high && other.low <= one.high)
}

impl SplitRow {
    /// Where its replicas' time and places go at its rate, by Little's law (PD-6).
    fn arithmetic(&self, replicas: u32) -> Option<String> {
        let (costs, rate) = (self.costs?, self.within_slo?.value);
        let decoding = self.split.map_or(replicas, |(_, decode)| decode);
        let sequences = rate * costs.output_tokens * costs.tpot_s / f64::from(decoding);
        let answers = format!(
            "{} req/s × {} tokens × {} TPOT / {decoding} = {} sequences on each replica that decodes",
            significant_down(rate),
            significant(costs.output_tokens),
            time(costs.tpot_s),
            significant(sequences),
        );
        let [median, p99] = costs.itl_s;
        let gaps = format!("gaps between tokens: median {}, p99 {}", time(median), time(p99));
        let (Some((prefill, _)), Some(prompt_s)) = (self.split, costs.prompt_s) else {
            return Some(format!(
                "{answers}; {gaps}, since a prompt in a step holds up all who decode in it"
            ));
        };
        let need = rate * prompt_s;
        let prompts = format!(
            "{} req/s × {} of prompt = {} prefill replicas at work of {prefill}",
            significant_down(rate),
            time(prompt_s),
            significant(need),
        );
        let transfer = costs.transfer.map_or_else(String::new, |(bytes, message_s)| {
            let mebibytes = significant(bytes / f64::from(1 << 20));
            format!("; {mebibytes} MiB of KV a request, {} a message", time(message_s))
        });
        Some(format!("{prompts}; {answers}; {gaps}{transfer}"))
    }
}

/// The arithmetic of the best split and of all doing both.
fn arithmetic(splits: &Splits) -> String {
    let rows = [splits.best_split(), splits.together()];
    let mut text = String::new();
    for row in rows.into_iter().flatten() {
        if let Some(words) = row.arithmetic(splits.replicas) {
            let _ = writeln!(text, "\n{}\n          {}", row.name(), wrapped(&words));
        }
    }
    text
}

/// Writes the table with its answer and its reason.
#[must_use]
pub fn text(splits: &Splits) -> String {
    let mut text = splits.answer() + "\n";
    let _ = writeln!(text, "SLO       {}", splits.promises);
    let _ = writeln!(text);
    let _ = writeln!(
        text,
        "  {:<22} {:>8}  {:>16}  {:>9}  {:>6} {:>6}  {:>8}  {:>7}  breaks first",
        "replicas", "req/s", "95 %", "saturates", "P busy", "D busy", "transfer", "$/M out"
    );
    let best = splits.best_split().map(SplitRow::rate);
    for row in &splits.rows {
        let mark = if row.within_slo.is_some() && Some(row.rate()) == best && row.split.is_some() {
            '▶'
        } else {
            ' '
        };
        let dash = || "–".to_owned();
        let rate = match (row.within_slo, row.bound) {
            (_, Some(bound)) => format!("≤ {}", significant(bound)),
            (rate, None) => rate.map_or_else(dash, |rate| significant_down(rate.value)),
        };
        let interval = row
            .within_slo
            .map_or_else(dash, |rate| interval_outwards(rate.low, rate.high));
        let saturation = row.saturation.map_or_else(dash, |rate| significant(rate.value));
        let busy = row.busy.map_or_else(
            || (dash(), dash()),
            |(prefill, decode)| (percent(prefill), percent(decode)),
        );
        let breaks = row.breaks.map_or_else(String::new, First::words);
        let line = format!(
            "{mark} {:<22} {:>8}  {:>16}  {:>9}  {:>6} {:>6}  {:>8}  {:>7}  {}",
            row.name(),
            rate,
            interval,
            saturation,
            busy.0,
            busy.1,
            row.transfer_share.map_or_else(dash, percent),
            row.usd_per_million_output_tokens().map_or_else(dash, dollars),
            match row.bound {
                Some(_) => "cannot win",
                None => breaks.as_str(),
            },
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if splits.rows.iter().any(|row| row.bound.is_some()) {
        let _ = writeln!(
            text,
            "  ≤ not searched: what one of its pools serves keeps it below ▶"
        );
    }
    if let Some(why) = splits.why() {
        let _ = writeln!(text, "\nwhy       {}", wrapped(&why));
    }
    if splits.explains {
        text += &arithmetic(splits);
        let _ = writeln!(text);
    }
    let _ = writeln!(text, "simulated {}", splits.subject);
    if !splits.price_source.is_empty() {
        let _ = writeln!(text, "prices    {}", wrapped(&splits.price_source));
    }
    text
}

/// Broken at blanks into lines of at most 90 columns, those after the first set in by 10.
fn wrapped(words: &str) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for word in words.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 90 {
            text.push_str("\n          ");
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text
}

/// The same for other programs: a row a split, full precision.
#[must_use]
pub fn csv(splits: &Splits) -> String {
    let mut text = "prefill,decode,both,rate,rate_low,rate_high,saturation,prefill_busy,decode_busy,transfer_share,breaks,bound,usd_per_hour,usd_per_million_output_tokens\n".to_owned();
    let cell = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for row in &splits.rows {
        let (prefill, decode) = row.split.unwrap_or((0, 0));
        let both = if row.split.is_none() { splits.replicas } else { 0 };
        let _ = writeln!(
            text,
            "{prefill},{decode},{both},{},{},{},{},{},{},{},{},{},{},{}",
            cell(row.within_slo.map(|rate| rate.value)),
            cell(row.within_slo.map(|rate| rate.low)),
            cell(row.within_slo.map(|rate| rate.high)),
            cell(row.saturation.map(|rate| rate.value)),
            cell(row.busy.map(|busy| busy.0)),
            cell(row.busy.map(|busy| busy.1)),
            cell(row.transfer_share),
            row.breaks.map_or_else(String::new, First::words),
            cell(row.bound),
            cell(row.usd_per_hour),
            cell(row.usd_per_million_output_tokens()),
        );
    }
    text
}

#[cfg(test)]
mod tests;
