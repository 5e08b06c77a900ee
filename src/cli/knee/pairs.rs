//! `--for-rate` of prefill and decode pools: the cheapest numbers of both that carry a rate, by simulating them.

use std::io::Write;
use std::process::ExitCode;

use super::super::outputs::{Format, Outputs};
use super::super::progress::Progress;
use super::super::{balance, files, interrupt, mix, present, rent, subject};
use super::model;
use super::one::assumptions;
use super::rate::{judged, long_enough, precision, run_at};
use super::roles::{self, Given, busy, split};
use super::sizing::{OF_A_LAW as REPLICAS_MAX, replacing};
use super::{Args, Terminal, ending, lengths_of_its_own, rate_of_a_run};
use crate::analysis::Precision;
use crate::analysis::knee::{Pair, PairEnding, PairOptions, Pairs, cheapest_pair, scales};
use crate::config::{Diagnostic, Diagnostics, Document, Place, Resolved, Source};
use crate::report::pairs::{self, Doubt, End, PairRow, PairSizing};
use crate::report::{self, json};
use crate::workload::mean_rate;

/// Runs of a search at most: two numbers are looked for.
const RUNS: usize = 60;
/// Requests of the run that tells what one costs each pool.
const PROBE: u64 = 2_000;
/// Share of what a pair can do at which its answers take hardly longer than they must.
const AT_EASE: f64 = 0.25;

/// Whether a scenario has one pool that prefills and one that decodes, whose numbers can be looked for.
pub(super) fn has_pair(resolved: &Resolved, document: &Document) -> bool {
    let has = |pool: &str| document.get(&format!("cluster.{pool}")).is_some();
    resolved.scenario.cluster.disaggregation.is_some()
        && resolved.scenario.pools.len() == 2
        && has("prefill")
        && has("decode")
}

/// What the search cannot count, or draw.
///
/// # Errors
/// Flags that set what is looked for, replicas that fail, traffic without a rate, and charts.
pub(super) fn check(resolved: &Resolved, document: &Document, outputs: &Outputs) -> anyhow::Result<()> {
    let several = roles::given(document).filter(|given| given.replicas > 1);
    if let Some(problem) = refused(several) {
        return Err(Diagnostics::from(problem).into());
    }
    let cluster = &resolved.scenario.cluster;
    if cluster.outages.is_some() || !cluster.changes.is_empty() {
        let problem = Diagnostic::new("--for-rate counts replicas that do not fail");
        let help = "leave the failures out, count, and see by `run` with so many and the failures whether they are enough";
        return Err(Diagnostics::from(problem.help(help)).into());
    }
    if outputs.charts.is_some() {
        let problem = Diagnostic::new(
            "--charts has no picture of numbers of prefill and decode replicas: the answer is a table",
        );
        let problem = problem.at(Place::Flag("--charts".to_owned()));
        let help = "leave it out; `knee --charts DIR` draws the search of the pair that is found";
        return Err(Diagnostics::from(problem.help(help)).into());
    }
    if mean_rate(&resolved.scenario.workload).is_none() {
        anyhow::bail!(
            "the traffic has no rate that could be raised: it is a closed loop or all at once; give --request-rate, or ask without -L, -S and --for-rate how \
             many a closed loop may have in flight"
        );
    }
    Ok(())
}

/// What is wrong with numbers that were given by flags; one of each makes pools of a scenario that has none.
fn refused(several: impl Iterator<Item = Given>) -> Option<Diagnostic> {
    let of_flag = |given: Given| match given.source {
        Source::Flag(flag) => Some(flag),
        _ => None,
    };
    let flags: Vec<String> = several.filter_map(of_flag).collect();
    let place = Place::Flag(flags.first()?.clone());
    let what = format!(
        "--for-rate finds how many replicas prefill and decode need: `{}` cannot be given",
        flags.join("` and `")
    );
    let one = flags.iter().map(|flag| format!("{flag} 1"));
    let help = format!("write {}", one.collect::<Vec<_>>().join(" "));
    Some(Diagnostic::new(what).at(place).help(help))
}

/// What was given and has no effect beside it.
pub(super) fn without_effect(args: &Args, resolved: &Resolved, document: &Document) -> Vec<String> {
    let bounds = [
        (args.min_rate.is_some(), "--min-rate"),
        (args.max_rate.is_some(), "--max-rate"),
        (args.output.why, "--why"),
    ];
    let given = bounds.into_iter().filter(|(is_given, _)| *is_given);
    let given = given.map(|(_, flag)| {
        format!("{flag} has no effect where --for-rate counts prefill and decode replicas: all runs have that rate")
    });
    let several = roles::given(document).filter(|given| given.replicas > 1);
    let several = several.map(|Given { key, replicas, .. }| {
        format!("{key} = {replicas} has no effect where --for-rate counts prefill and decode replicas")
    });
    let rate = rate_of_a_run(resolved).map(|rate| {
        format!(
            "request_rate = {rate} has no effect where --for-rate counts prefill and decode replicas but on the guess that the search \
             begins with"
        )
    });
    given
        .chain(several)
        .chain(rate)
        .chain(lengths_of_its_own(resolved))
        .collect()
}

/// The first pair that is tried, by what the balance of the pools (PD-6) allows each of their replicas at most, and the requests
/// inside by Little's law.
struct Guess {
    start: (u64, u64),
    each_per_s: Option<(f64, f64)>,
    inside: f64,
}

impl Guess {
    /// From a run of one of each, at so low a rate that its answers take hardly longer than they must.
    fn of(one: &Resolved, rate: f64, precision: Precision) -> Guess {
        let probe = Precision {
            min_requests: PROBE.min(precision.min_requests),
            max_requests: PROBE,
            ..precision
        };
        let own_rate = mean_rate(&one.scenario.workload).unwrap_or(rate).min(rate);
        let mut outcome = run_at(one, own_rate, probe);
        let balance = balance::demand(one, &outcome.result).map(|demand| demand.balance());
        // What a request asks of each pool hardly hangs on the rate of the run that says it. How long answers take does.
        let at_ease = balance.map(|balance| AT_EASE * balance.limit().1);
        if let Some(at_ease) = at_ease.filter(|at_ease| *at_ease > 0.0 && *at_ease < own_rate) {
            outcome = run_at(one, at_ease, probe);
        }
        let each_per_s = balance.map(|balance| (balance.prefill, balance.decode));
        let needed = |each: f64| (rate / each).ceil().max(1.0) as u64;
        let stay_s = outcome.result.whole.e2el.mean_s().unwrap_or_default();
        Guess {
            start: each_per_s.map_or((1, 1), |(prefill, decode)| (needed(prefill), needed(decode))),
            each_per_s,
            inside: rate * stay_s,
        }
    }

    /// # Errors
    /// A rate that takes more replicas of a pool than are simulated.
    fn check(&self, rate: f64) -> Result<(), Diagnostics> {
        let (prefill, decode) = self.start;
        if prefill.max(decode) <= REPLICAS_MAX {
            return Ok(());
        }
        let problem = Diagnostic::new(format!(
            "--for-rate {rate} takes {prefill} prefill and {decode} decode replicas at least, by the balance of the pools, and more than \
             {REPLICAS_MAX} of a pool are not simulated"
        ));
        let help = "count for a part of the rate: replicas behind a router serve parts of it alike";
        Err(problem.at(Place::Flag("--for-rate".to_owned())).help(help).into())
    }
}

/// What one replica of each pool takes.
struct Each {
    gpus: [u64; 2],
    /// US dollars an hour; `None` where a card has no price.
    usd: Option<[f64; 2]>,
}

impl Each {
    fn of(one: &Resolved) -> Each {
        let rent = rent::of(one).ok();
        Each {
            gpus: [0, 1].map(|pool: usize| u64::from(one.scenario.pools[pool].gpus)),
            usd: rent.map(|rent| [0, 1].map(|pool: usize| rent.pools[pool].2)),
        }
    }

    /// What is saved: dollars or, where a card has no price, GPUs.
    fn costs(&self) -> (f64, f64) {
        match self.usd {
            Some([prefill, decode]) if prefill > 0.0 && decode > 0.0 => (prefill, decode),
            _ => (self.gpus[0] as f64, self.gpus[1] as f64),
        }
    }

    fn end(&self, prefill: u64, decode: u64) -> End {
        let [each, other] = self.gpus;
        End {
            prefill,
            decode,
            gpus: prefill * each + decode * other,
        }
    }

    fn row(&self, pair: &Pair, busy: Option<(f64, f64)>) -> PairRow {
        let usd = |[each, other]: [f64; 2]| pair.prefill as f64 * each + pair.decode as f64 * other;
        PairRow {
            pair: pair.clone(),
            gpus: self.end(pair.prefill, pair.decode).gpus,
            usd_per_hour: self.usd.map(usd),
            busy,
        }
    }
}

/// What to count for.
struct Sought<'a> {
    resolved: &'a Resolved,
    document: &'a Document,
    rate: f64,
    precision: Precision,
    ignored: &'a [String],
}

impl Sought<'_> {
    fn pair(&self, prefill: u64, decode: u64) -> anyhow::Result<Resolved> {
        split(self.document, (prefill as u32, decode as u32), "--for-rate")
    }

    /// The search, and how busy both pools of the pairs were that it tried.
    fn search(&self, guess: &Guess, costs: (f64, f64), terminal: &Terminal) -> anyhow::Result<(Pairs, Used)> {
        let objective = present::objective(self.resolved);
        let mut progress = Progress::new(terminal, None, "pairs of prefill and decode replicas");
        let (mut wrong, mut used, mut inside) = (None, Used::new(), guess.inside);
        let evaluate = |prefill: u64, decode: u64| {
            let many = match self.pair(prefill, decode) {
                Ok(many) => many,
                Err(error) => {
                    wrong = Some(error);
                    return None;
                }
            };
            let outcome = long_enough(&many, self.rate, &objective, replacing(self.precision, inside));
            if !progress.at(used.len() as u64 + 1) {
                return None;
            }
            let point = judged(&many, self.rate, &objective, &outcome);
            let both = (prefill as u32, decode as u32);
            used.push(((prefill, decode), busy(&outcome, Some(both))));
            if point.keeps_up() {
                inside = point.in_system.unwrap_or(inside);
            }
            Some(point)
        };
        let options = PairOptions {
            start: guess.start,
            costs,
            replicas_max: REPLICAS_MAX,
            runs_max: RUNS,
        };
        let found = cheapest_pair(evaluate, &options);
        match wrong {
            Some(error) => Err(error),
            None => Ok((found, used)),
        }
    }

    /// How far the knee of the answer may be off because the step time's parameters are, and the cheapest pairs at both ends: those
    /// that carry a rate so much lower, and so much higher, as predicted.
    fn doubt(
        &self,
        answer: &Resolved,
        (start, each, guess): ((u64, u64), &Each, &Guess),
        terminal: &Terminal,
    ) -> anyhow::Result<Result<Doubt, String>> {
        let objective = present::objective(self.resolved);
        let knee = match model::of_fleet(answer, &objective, self.rate) {
            _ if interrupt::is_asked() => return Ok(Err("interrupted before it was".to_owned())),
            Ok(knee) => knee,
            Err(why) => return Ok(Err(why)),
        };
        if knee.worst().is_none() {
            let known = Some(each.end(start.0, start.1));
            return Ok(Ok(Doubt {
                knee,
                fast: known,
                slow: known,
            }));
        }
        let (slow, fast) = knee.factors_90();
        let mut ends = Vec::new();
        for factor in [fast, slow] {
            if !scales(factor) {
                ends.push(None);
                continue;
            }
            let sought = Sought {
                rate: self.rate / factor,
                ..*self
            };
            let guess = Guess { start, ..*guess };
            let (found, _) = sought.search(&guess, each.costs(), terminal)?;
            ends.push(match found.ending {
                PairEnding::Found {
                    prefill,
                    decode,
                    is_cheapest: true,
                } => Some(each.end(prefill, decode)),
                _ => None,
            });
        }
        Ok(Ok(Doubt {
            knee,
            fast: ends[0],
            slow: ends[1],
        }))
    }

    /// What is told of it.
    fn view(
        &self,
        (one, each, guess): (&Resolved, &Each, &Guess),
        (found, used): (&Pairs, &Used),
        terminal: &Terminal,
    ) -> anyhow::Result<PairSizing> {
        let resolved = self.resolved;
        // What is sought from here on says how sure the answer is, and makes it no other.
        let is_interrupted = interrupt::is_asked();
        let answer = match found.ending {
            PairEnding::Found { prefill, decode, .. } => {
                Some(((prefill, decode), self.pair(prefill, decode)?))
            }
            _ => None,
        };
        let doubt = match &answer {
            Some((start, pair)) => Some(self.doubt(pair, (*start, each, guess), terminal)?),
            None => None,
        };
        let answer = answer.map(|(_, pair)| pair);
        let row = |tried: &Pair| {
            let mut used = used.iter();
            let busy = used.find(|(pair, _)| *pair == (tried.prefill, tried.decode));
            each.row(tried, busy.map(|(_, busy)| *busy))
        };
        let told = answer.as_ref().unwrap_or(resolved);
        let slo = &resolved.slo;
        let (limits, classes) = (present::printed_limits(slo), present::class_promises(resolved));
        Ok(PairSizing {
            rate: self.rate,
            ending: found.ending,
            rows: found.tried.iter().map(row).collect(),
            start: guess.start,
            each_per_s: guess.each_per_s,
            gpu: [0, 1].map(|pool: usize| resolved.servers[pool].device.id.clone()),
            gpus_each: each.gpus,
            router: present::router(&self.pair(2, 2)?),
            usd_each: each.usd,
            price_source: rent::prices(one.scenario.pools.iter()),
            promises: report::promised(&limits, &classes, &present::promises(slo), slo.attainment),
            beside: mix::beside(&resolved.scenario.workload),
            subject: subject::subject(answer.as_ref().unwrap_or(one)),
            scenario: one.scenario_name(),
            seed: one.scenario.seed,
            trust: present::trust(resolved),
            doubt,
            // The link between them, for one, is that of as many GPUs.
            assumptions: assumptions(told, &self.precision),
            notes: told.other_notes(),
            ignored: [&resolved.ignored, self.ignored].concat(),
            is_interrupted,
        })
    }
}

/// Pairs and the shares of time in which their pools' replicas ran a step.
type Used = Vec<((u64, u64), (f64, f64))>;

/// Searches and prints.
///
/// # Errors
/// What is wrong with pools of so many replicas, and files that cannot be written.
pub(super) fn execute(
    (resolved, document): (&Resolved, &Document),
    rate: f64,
    ignored: &[String],
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let view = view((resolved, document), rate, ignored, terminal)?;
    put(&view, outputs, out, terminal)
}

/// The cheapest numbers of both for a scenario that has no such pools.
///
/// # Errors
/// What is wrong with pools of so many replicas, and a rate that takes more than are simulated.
pub(in crate::cli) fn counted(
    document: &Document,
    rate: f64,
    terminal: &Terminal,
) -> anyhow::Result<PairSizing> {
    let one = split(document, (1, 1), "--disaggregated")?;
    view((&one, document), rate, &[], terminal)
}

fn view(
    (resolved, document): (&Resolved, &Document),
    rate: f64,
    ignored: &[String],
    terminal: &Terminal,
) -> anyhow::Result<PairSizing> {
    let sought = Sought {
        resolved,
        document,
        rate,
        precision: precision(resolved),
        ignored,
    };
    let one = sought.pair(1, 1)?;
    let (each, guess) = (Each::of(&one), Guess::of(&one, rate, sought.precision));
    guess.check(rate)?;
    let (found, used) = sought.search(&guess, each.costs(), terminal)?;
    sought.view((&one, &each, &guess), (&found, &used), terminal)
}

fn put(
    view: &PairSizing,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let file = outputs.file.as_deref();
    let text = match outputs.format {
        Format::Table => pairs::text(view, terminal.style(file)),
        Format::Csv => pairs::csv(view),
        Format::Md => pairs::md(view),
        Format::Json | Format::Jsonl => json::pairs(view) + "\n",
    };
    files::put(&text, file, out)?;
    Ok(ending(view.best().is_some()))
}
