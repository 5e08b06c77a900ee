//! `--disaggregated --gpus N`: every way to share N GPUs out between prefill and decode, beside all doing both.

use std::io::Write;
use std::process::ExitCode;

use toml::Value;

use super::super::outputs::{Format, Outputs};
use super::super::progress::Progress;
use super::super::{Exit, files, interrupt, present, rent, subject};
use super::one::{find, options};
use super::roles::{self, Given, busy, split};
use super::{Args, Bracket, Disk, Terminal, precision, run_at};
use crate::analysis::Outcome;
use crate::analysis::costs::Rent;
use crate::analysis::knee::{Objective, SearchOptions, Statistic};
use crate::config::{Diagnostic, Diagnostics, Document, Place, Resolved, Source, resolve};
use crate::metrics::Stage;
use crate::report::First;
use crate::report::splits::{self, Costs, SplitRow, Splits};
use crate::report::{ClassPromise, Limit, json};
use crate::workload::{Arrivals, Prefix, mean_rate};

/// What sets the numbers of a split.
const FLAG: &str = "--disaggregated";

/// More GPUs make more splits than anybody reads.
const GPUS_MAX: u32 = 64;

/// Whether to share GPUs out between prefill and decode.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq)]
#[command(next_help_heading = "Prefill and decode apart")]
pub struct SplitFlags {
    /// Try every share of --gpus between prefill and decode, and all doing both.
    #[arg(long, requires = "gpus")]
    pub disaggregated: bool,
    /// GPUs to share out.
    #[arg(long, value_name = "N", requires = "disaggregated")]
    pub gpus: Option<u32>,
}

impl SplitFlags {
    /// Other flags of the command that say nothing beside it.
    pub(super) fn contradicted(self, args: &Args) -> Vec<Diagnostic> {
        let given = [
            (
                args.sizing.for_rate.is_some(),
                "--for-rate",
                "it compares ways to use a given number of GPUs, and --for-rate looks for a number",
                "see by --disaggregated which way serves the most, and count with the pools of that way",
            ),
            (
                args.output.charts.is_some(),
                "--charts",
                "it has no picture: its answer is a table, a line a way",
                "leave --charts out; `run --charts DIR` draws one way with its --prefill and --decode replicas",
            ),
            (
                args.axes.is_given(),
                "-L",
                "it is a search over shares already, one after another",
                "leave -L and -S out, and give each value in a command of its own",
            ),
        ];
        let told = given
            .into_iter()
            .filter(|(is_given, ..)| self.disaggregated && *is_given);
        told.map(|(_, flag, why, help)| {
            Diagnostic::new(format!("--disaggregated takes no {flag}: {why}"))
                .at(Place::Flag(flag.to_owned()))
                .help(help)
        })
        .collect()
    }

    /// GPUs to share out, if asked for.
    ///
    /// # Errors
    /// Fewer than two, or more than anybody reads a line for.
    pub(super) fn check(self) -> anyhow::Result<Option<u32>> {
        match self.gpus {
            Some(gpus) if self.disaggregated && !(2..=GPUS_MAX).contains(&gpus) => {
                anyhow::bail!("--gpus {gpus} cannot be shared out: give 2 to {GPUS_MAX}")
            }
            gpus => Ok(gpus.filter(|_| self.disaggregated)),
        }
    }
}

/// Searches every split's knee and prints them.
///
/// # Errors
/// Inputs that are wrong once pools have roles, and files that cannot be written.
pub(super) fn execute(
    document: &Document,
    gpus: u32,
    bracket: Bracket,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let together = all_do_both(document, 1)?;
    let each = together.placement.gpus();
    let pair = split(document, (1, 1), FLAG)?;
    let of = |pool: usize| pair.scenario.pools[pool].gpus;
    let ways: Vec<(u32, u32)> = (1..=gpus / of(0))
        .filter_map(|prefill| {
            let rest = gpus.checked_sub(prefill * of(0))?;
            (rest > 0 && rest % of(1) == 0).then_some((prefill, rest / of(1)))
        })
        .collect();
    if ways.is_empty() || !gpus.is_multiple_of(each) {
        anyhow::bail!(
            "{gpus} GPUs cannot be shared out: a replica that prefills has {}, one that decodes {}, one that does both {each}",
            of(0),
            of(1)
        );
    }
    let objective = present::objective(&pair);
    let asked = ways.len() + 1;
    let try_one = |way: Option<(u32, u32)>| {
        let resolved = match way {
            Some(way) => split(document, way, FLAG)?,
            None => all_do_both(document, gpus / each)?,
        };
        row(&resolved, way, &objective, bracket, terminal)
    };
    let rows = search(&ways, scales(&pair), terminal, try_one)?;
    let splits = Splits {
        explains: outputs.why,
        gpus,
        replicas: gpus / each,
        promises: promised(&objective, &present::class_promises(&pair)),
        missing: asked - rows.len(),
        rows,
        price_source: rent::prices(pair.scenario.pools.iter().chain(&together.scenario.pools)),
        subject: subject::subject(&together),
        scenario: together.scenario_name(),
        seed: together.scenario.seed,
    };
    let text = match outputs.format {
        Format::Table => splits::text(&splits),
        Format::Csv => splits::csv(&splits),
        Format::Json | Format::Jsonl => json::splits(&splits) + "\n",
        Format::Md => anyhow::bail!("--disaggregated writes a table, --format json or --format csv"),
    };
    files::put(&text, outputs.file.as_deref(), out)?;
    let code = match (interrupt::is_asked(), splits.is_kept()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::NotMet,
    };
    Ok(code.into())
}

/// A flag that sets what is looked for; what a file says of it is the split that the file is about.
fn refused(given: Given) -> Option<Diagnostic> {
    let Source::Flag(flag) = given.source else {
        return None;
    };
    let what = format!("`{flag}` has no effect with --disaggregated, which tries every share of --gpus");
    let help = format!("leave {flag} out, or search the knee of that one split without --disaggregated");
    Some(Diagnostic::new(what).at(Place::Flag(flag)).help(help))
}

/// Fewer ways are all searched.
const PRUNED_FROM: usize = 5;
/// What the noise of a saturation may hide, beyond its interval.
const MARGIN: f64 = 1.05;

/// Whether a pool of n replicas serves at most n times what one serves: not where prompts share what caches keep, of which
/// more replicas behind a router that looks for it keep more.
fn scales(resolved: &Resolved) -> bool {
    let parts = resolved.scenario.workload.parts();
    parts
        .iter()
        .all(|part| part.prefix == Prefix::None && !matches!(part.arrivals, Arrivals::Replay { .. }))
}

/// Searches every way that can be the best split, and all doing both; in the order of `ways`.
///
/// The splits with one replica that prefills and with one that decodes come first. With x replicas that prefill no more
/// than x times the first's saturation is served: it has as many that decode as there can be, so either its one prefill
/// replica was at its end, or no decode pool serves more. The same holds of the other with y. A way whose bound is below the
/// best found is not searched, and the best split is the one of a search of all.
fn search(
    ways: &[(u32, u32)],
    scales: bool,
    terminal: &Terminal,
    mut try_one: impl FnMut(Option<(u32, u32)>) -> anyhow::Result<SplitRow>,
) -> anyhow::Result<Vec<SplitRow>> {
    let mut progress = Progress::new(terminal, Some(ways.len() as u64 + 1), "ways");
    let mut rows: Vec<(usize, SplitRow)> = Vec::new();
    let mut done = 0;
    let ends = [0, ways.len() - 1];
    let mut bounds = vec![f64::INFINITY; ways.len()];
    let mut pending: Vec<usize> = (0..ways.len()).collect();
    if scales && ways.len() >= PRUNED_FROM {
        pending.retain(|at| !ends.contains(at));
        let mut caps = [f64::INFINITY; 2];
        for (at, cap) in ends.into_iter().zip(&mut caps) {
            let row = try_one(Some(ways[at]))?;
            // A search that was cut short says nothing of its way.
            if interrupt::is_asked() {
                return Ok(in_order(rows));
            }
            if let Some(saturation) = row.saturation {
                *cap = saturation.high * MARGIN;
            }
            rows.push((at, row));
            done += 1;
            progress.at(done);
        }
        for (bound, &(prefill, decode)) in bounds.iter_mut().zip(ways) {
            let of = |count: u32, one: u32, cap: f64| f64::from(count) / f64::from(one) * cap;
            *bound = of(prefill, ways[ends[0]].0, caps[0]).min(of(decode, ways[ends[1]].1, caps[1]));
        }
        pending.sort_by(|&a, &b| bounds[b].total_cmp(&bounds[a]).then(a.cmp(&b)));
    }
    for at in pending {
        let best = rows.iter().map(|(_, row)| row.rate()).fold(0.0, f64::max);
        let row = if bounds[at] < best {
            SplitRow::beaten(ways[at], bounds[at])
        } else {
            try_one(Some(ways[at]))?
        };
        if interrupt::is_asked() {
            return Ok(in_order(rows));
        }
        rows.push((at, row));
        done += 1;
        progress.at(done);
    }
    let together = try_one(None)?;
    if !interrupt::is_asked() {
        rows.push((ways.len(), together));
    }
    Ok(in_order(rows))
}

fn in_order(mut rows: Vec<(usize, SplitRow)>) -> Vec<SplitRow> {
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The scenario with one replica of each role: what is asked of pools with roles, whether the input has any or not.
///
/// # Errors
/// A flag that sets what is looked for, and what is wrong once pools have roles.
pub(super) fn one_of_each(document: &Document) -> anyhow::Result<Resolved> {
    let problems: Vec<Diagnostic> = roles::given(document).filter_map(refused).collect();
    if !problems.is_empty() {
        return Err(Diagnostics(problems).into());
    }
    let mut pair = split(document, (1, 1), FLAG)?;
    // What has no effect on one replica each may have one on the other ways.
    if let Ok(several) = split(document, (2, 2), FLAG) {
        let (lone, ignored) = std::mem::take(&mut pair.ignored)
            .into_iter()
            .partition(|sentence| !several.ignored.contains(sentence));
        let lone: Vec<String> = lone;
        pair.ignored = ignored;
        pair.notes.retain(|sentence| !lone.contains(sentence));
    }
    Ok(pair)
}

/// Takes prefill and decode pools, and what is between them, out of a scenario: its replicas do both.
pub(in crate::cli) fn do_both(document: &mut Document) {
    for key in ["prefill", "decode", "link"] {
        document.remove(&format!("cluster.{key}"));
    }
    document.remove("engine.kv_transfer_config");
}

/// The scenario with so many replicas that do both.
fn all_do_both(document: &Document, replicas: u32) -> anyhow::Result<Resolved> {
    let mut document = document.clone();
    do_both(&mut document);
    document.set(
        "cluster.replicas",
        Value::Integer(replicas.into()),
        "--disaggregated",
    );
    Ok(resolve(document, &Disk)?)
}

/// Refuses a client that lets in no more than so many: every way would serve what that client sends, and none could be told from
/// another.
///
/// # Errors
/// There is such a limit.
pub(super) fn refuse_limit(resolved: &Resolved) -> Result<(), Diagnostics> {
    let Some(most) = resolved.scenario.workload.client.max_concurrency else {
        return Ok(());
    };
    let mut given = resolved.provenance.iter();
    let given = given.find(|value| value.key.ends_with("max_concurrency"));
    let place = given.map_or(Place::Nowhere, |value| match &value.source {
        Source::Flag(flag) => Place::Flag(flag.clone()),
        _ => Place::Nowhere,
    });
    let problem = Diagnostic::new(format!(
        "--disaggregated looks for the rates that ways to use GPUs serve, and max_concurrency = {most} is the limit of all of them: the client \
         holds back what is beyond"
    ));
    let help = "leave it out; how many may be in flight on one way is asked by --prefill 1 --decode 1 --request-rate inf --max-concurrency N, \
                without --disaggregated";
    Err(problem.at(place).help(help).into())
}

/// The rate of the traffic, which every way is searched at multiples of.
///
/// # Errors
/// If it has none.
pub(super) fn rate_of(resolved: &Resolved) -> Result<f64, Diagnostics> {
    mean_rate(&resolved.scenario.workload).ok_or_else(|| {
        let problem = Diagnostic::new("--disaggregated looks for rates, and the traffic has none: it is a closed loop or all at once");
        let help = "give --request-rate, or ask without --disaggregated how many may be in flight on one split: --prefill 1 --decode 1";
        problem.help(help).into()
    })
}

/// The knee of one way, and what the pools do there.
fn row(
    resolved: &Resolved,
    split: Option<(u32, u32)>,
    objective: &Objective,
    bracket: Bracket,
    terminal: &Terminal,
) -> anyhow::Result<SplitRow> {
    let own_rate = rate_of(resolved)?;
    let precision = precision(resolved);
    let mut progress = Progress::new(terminal, None, "rates");
    let knee = find(
        resolved,
        objective,
        precision,
        &SearchOptions {
            // Splits are told apart by more than an interval has to be narrow for.
            width: None,
            ..options(bracket, own_rate, &precision)
        },
        &mut |tried| progress.at(tried),
    )?
    .knee;
    let there = knee
        .within_slo
        .map(|rate| run_at(resolved, rate.value, precision));
    let rent = rent::of(resolved).ok();
    Ok(SplitRow {
        split,
        within_slo: knee.within_slo,
        saturation: knee.saturation,
        breaks: Some(First::of(&knee)),
        busy: there.as_ref().map(|there| busy(there, split)),
        transfer_share: there
            .as_ref()
            .and_then(|there| there.result.relays.as_ref())
            .map(|relays| relays.stage_s(Stage::Transfer) / relays.ttft_s().max(f64::MIN_POSITIVE)),
        costs: there.as_ref().and_then(|there| costs(there, split)),
        usd_per_hour: rent.as_ref().map(Rent::usd_per_hour),
        usd_by_pool: rent.map_or_else(Vec::new, |rent| rent.by_pool()),
        bound: None,
    })
}

/// What a request costs there; `None` of a run that answered none.
fn costs(outcome: &Outcome, split: Option<(u32, u32)>) -> Option<Costs> {
    let result = &outcome.result;
    let whole = &result.whole;
    let completed = (whole.completed > 0).then_some(whole.completed as f64)?;
    let prompt_s = split.map(|(prefill, _)| {
        let prefills = result.by_replica.iter().take(prefill as usize);
        prefills.map(|replica| replica.busy_s).sum::<f64>() / completed
    });
    Some(Costs {
        prompt_s,
        prompt_tokens: whole.input_tokens as f64 / completed,
        output_tokens: whole.output_tokens as f64 / completed,
        tpot_s: whole.tpot.mean_s()?,
        itl_s: [whole.itl.quantile_s(0.5)?, whole.itl.quantile_s(0.99)?],
        transfer: result.relays.as_ref().map(|relays| {
            let each = relays.bytes as f64 / relays.requests.max(1) as f64;
            (each, relays.message_s[0])
        }),
    })
}

/// What is promised, in words.
fn promised(objective: &Objective, classes: &[ClassPromise]) -> String {
    let share = objective
        .attainment
        .map(|share| format!("{} % of requests", (share * 1000.0).round() / 10.0));
    let limits = objective
        .limits
        .iter()
        .map(|(metric, limit_s)| format!("{} ≤ {} ms", metric.name().to_uppercase(), limit_s * 1e3));
    let limits: Vec<String> = limits.collect();
    let classes = classes
        .iter()
        .filter(|class| !class.limits.is_empty())
        .map(|class| {
            let limit =
                |limit: &Limit| format!("{} ≤ {} ms", limit.metric.to_uppercase(), limit.limit_s * 1e3);
            let limits: Vec<String> = class.limits.iter().map(limit).collect();
            format!("{} with {}", class.name, limits.join(" and "))
        });
    let classes: Vec<String> = classes.collect();
    let percentiles = objective.constraints.iter().map(|limit| {
        let statistic = match limit.statistic {
            Statistic::Mean => "mean".to_owned(),
            Statistic::Quantile(p) => format!("p{}", (p * 1000.0).round() / 10.0),
        };
        format!(
            "{statistic} {} ≤ {} ms",
            limit.metric.name().to_uppercase(),
            limit.limit_s * 1e3
        )
    });
    let per_request = match (share, limits.is_empty()) {
        (Some(share), _) if !classes.is_empty() => {
            Some(format!("{share} of each class: {}", classes.join("; ")))
        }
        (Some(share), false) => Some(format!("{share} with {}", limits.join(" and "))),
        _ => None,
    };
    per_request
        .into_iter()
        .chain(percentiles)
        .collect::<Vec<_>>()
        .join(" · ")
}

#[cfg(test)]
mod tests;
