//! `plimsoll compare`: variants of one scenario side by side, under the same seeds.

mod figures;

use std::io::Write;
use std::process::ExitCode;

use super::disk::Disk;
use super::outputs::{Format, OutputFlags, Writer};
use super::progress::{self, Progress};
use super::run::or_quickstart;
use super::terminal::Terminal;
use super::{Exit, files, interrupt, present, remarks, rent, subject};
use crate::analysis::{Experiment, simulate_watched};
use crate::calibrate::interval::model_interval_while;
use crate::config::flags::ScenarioFlags;
use crate::config::variant::{Said, variant};
use crate::config::{Diagnostic, Diagnostics, Resolved, RunLength, resolve, resolved_toml};
use crate::metrics::{Records, Waits};
use crate::report::chart::{self, Picture};
use crate::report::versus::{self, VariantView, Versus};
use crate::report::versus_caveats::gathered;
use crate::report::versus_data;
use crate::sim::Scenario;
use crate::sweep::matrix;
use crate::units::Picos;
use crate::workload::Arrivals;
use figures::{Run, moved};

/// Requests of a run where nobody says how many: two lengths would not be comparable.
const PROMPTS: u64 = 2000;
/// Most seeds: what is kept of each run takes memory.
const SEEDS_MAX: u32 = 10_000;
/// Most variants.
const VARIANTS_MAX: usize = 26;

/// What to compare.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll compare prefix-lpm \"--schedule-policy lpm\"
  plimsoll compare radix-cache \"tree: \" \"chain: --engine vllm@0.33\" --charts pictures
  plimsoll compare prefix-warm \"on: \" \"off: --no-enable-prefix-caching\" --seeds 16
  plimsoll compare prefix-cold prefix-warm
  plimsoll compare \"--max-num-batched-tokens 512\" \"--max-num-batched-tokens 8192\" --model Qwen/Qwen3-8B --gpu l40s --trace chat.jsonl

A variant is one argument: [NAME:] [SCENARIO] [FLAGS], put upon what all have in common. With one variant the scenario as it
stands is the base, with more the first variant is. A variant of one flag needs a blank or a name to be told from a flag of
all: \" --enforce-eager\".")]
pub struct Args {
    /// What all variants have in common.
    #[command(flatten)]
    pub scenario: ScenarioFlags,
    /// Variants: flags in quotes, or scenarios.
    #[arg(value_name = "VARIANT")]
    pub variants: Vec<String>,
    /// Seeds that every variant runs under, from --seed on.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub seeds: u32,
    /// What to write.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// A variant, ready to run.
struct Planned {
    name: String,
    said: String,
    resolved: Resolved,
}

/// Makes arguments of the command what clap takes for positionals: flags in quotes begin with a dash and hold a blank.
pub(super) fn quote_variants(args: &mut [String]) {
    for arg in args.iter_mut().filter(|arg| arg.starts_with('-')) {
        // A flag of all whose value holds a blank is one argument, too: `--label=two words`.
        let name = arg.split(['=', ' ']).next().unwrap_or_default();
        if arg[name.len()..].starts_with(' ') {
            arg.insert(0, ' ');
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Everything that is wrong with the input, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    let mut notes = Vec::new();
    let planned = plan(args, &mut notes)?;
    drop(nothing_yet);
    let outputs = args.output.resolve(&Default::default(), Writer::Compare)?;
    notes.extend(outputs.notes.iter().cloned());
    terminal.notes(&notes);
    if args.output.dry_run {
        let scenarios = planned
            .iter()
            .map(|one| format!("# {}  {}\n{}\n", one.name, one.said, resolved_toml(&one.resolved)));
        out.write_all(scenarios.collect::<String>().as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    outputs.check_places()?;
    terminal.notes(&outputs.told);
    let is_trace = planned
        .iter()
        .all(|one| matches!(one.resolved.scenario.workload.arrivals, Arrivals::Replay { .. }));
    let seeds = if is_trace { 1 } else { args.seeds };
    let runs = simulate_all(&planned, seeds, terminal);
    let compared = runs.first().map_or(0, Vec::len);
    let is_interrupted = compared < seeds as usize;
    if compared == 0 {
        let told = "interrupted before all variants had a run under one seed";
        match outputs.format {
            Format::Table | Format::Md => {
                let told = format!("{}\n", told.replacen("interrupted", "INTERRUPTED", 1));
                files::put(&told, outputs.file.as_deref(), out)?;
            }
            _ => terminal.notes(&[told.to_owned()]),
        }
        return Ok(Exit::Interrupted.into());
    }
    let mut view = Versus {
        interrupted_of: is_interrupted.then_some(seeds),
        ..view(&planned, &runs, is_trace)
    };
    if outputs.format != Format::Csv {
        for (variant, one) in view.variants.iter_mut().zip(&planned) {
            variant.model = model_interval_while(&one.resolved, &|| !interrupt::is_asked());
        }
    }
    if !is_interrupted && interrupt::is_asked() {
        terminal.notes(&["interrupted: the runs are whole, model intervals are left out".to_owned()]);
        view.interrupted_of = Some(seeds);
    }
    let is_interrupted = is_interrupted || interrupt::is_asked();
    let text = match outputs.format {
        Format::Table => versus::text(&view, terminal.style(outputs.file.as_deref()).width),
        Format::Md => versus::md(&view),
        Format::Csv => versus_data::csv(&view),
        Format::Json | Format::Jsonl => versus_data::json(&view),
    };
    files::put(&text, outputs.file.as_deref(), out)?;
    if let Some(folder) = &outputs.charts {
        files::save_pictures(folder, &charts(&view, &runs), terminal)?;
    }
    let is_broken = view.variants.iter().any(|one| !one.violations.is_empty());
    let exit = match (is_broken, is_interrupted) {
        (true, _) => Exit::Failure,
        (false, true) => Exit::Interrupted,
        (false, false) => Exit::Ok,
    };
    Ok(exit.into())
}

/// The variants in order, the base first; what must be said goes to `notes`.
fn plan(args: &Args, notes: &mut Vec<String>) -> Result<Vec<Planned>, Diagnostics> {
    let (common, said) = said(args, notes)?;
    let mut planned: Vec<Planned> = Vec::new();
    let mut problems: Vec<Diagnostic> = Vec::new();
    let names: Vec<String> = said.iter().filter_map(|one| one.name.clone()).collect();
    // A name that is a letter is no other's.
    let letters = (b'A'..=b'Z').map(|letter| char::from(letter).to_string());
    let mut letters = letters.filter(|letter| !names.contains(letter));
    for said in said {
        let letter = match &said.name {
            Some(name) => name.clone(),
            None => letters.next().expect("there are no more variants than letters"),
        };
        let input = variant(&common, &said, &Disk).and_then(|input| {
            for note in input.notes {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
            let resolved = resolve(input.document, &Disk)?;
            let help = "leave it out: `sweep` and `knee -L` say what settings cost, and take --price";
            rent::no_cost(
                &resolved,
                "--price has no effect on compare, which tells no cost",
                help,
            )?;
            Ok(resolved)
        });
        match input {
            Ok(mut resolved) => {
                let new: Vec<String> = resolved
                    .notes
                    .drain(..)
                    .filter(|note| !notes.contains(note))
                    .collect();
                notes.extend(new);
                fix_length(&mut resolved, notes);
                let words = said.words.join(" ");
                planned.push(Planned {
                    name: said.name.unwrap_or(letter),
                    said: if words.is_empty() {
                        "as the scenario has it".to_owned()
                    } else {
                        words
                    },
                    resolved,
                });
            }
            Err(wrong) => problems.extend(
                wrong
                    .0
                    .into_iter()
                    .map(|problem| of_variant(problem, said.name.as_deref().unwrap_or(&letter)))
                    .filter(|one| !problems.contains(one))
                    .collect::<Vec<_>>(),
            ),
        }
    }
    if problems.is_empty() {
        Ok(planned)
    } else {
        Err(Diagnostics(problems))
    }
}

/// Says of a misfit whose it is: others may fit.
fn of_variant(mut problem: Diagnostic, name: &str) -> Diagnostic {
    if problem.misfit.is_some() {
        problem.message = format!("variant {name}: {}", problem.message);
    }
    problem
}

/// What all have in common, and what each variant says.
fn said(args: &Args, notes: &mut Vec<String>) -> Result<(ScenarioFlags, Vec<Said>), Diagnostics> {
    let mut common = args.scenario.clone();
    let mut texts = args.variants.clone();
    // The first positional may be a variant where everything common stands in flags.
    let is_variant = |text: &String| text.contains(char::is_whitespace) || text.ends_with(':');
    if common.target.as_ref().is_some_and(is_variant) {
        texts.splice(0..0, common.target.take());
    }
    let (common, note) = or_quickstart(common);
    notes.extend(note);
    let mut said = texts
        .iter()
        .map(|text| Said::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    if said.len() == 1 {
        said.insert(
            0,
            Said {
                name: None,
                words: Vec::new(),
            },
        );
    }
    let problem = |text: &str, help: &str| Err(Diagnostic::new(text).help(help).into());
    if said.len() < 2 {
        return problem(
            "nothing to compare",
            "give a variant, its flags in quotes: plimsoll compare prefix-lpm \"--schedule-policy lpm\"; one that is a single \
             word is taken for a flag of all unless it begins with a blank or a name: \" --enforce-eager\", \
             \"small: --max-num-seqs=8\"",
        );
    }
    if said.len() > VARIANTS_MAX {
        return problem("more than 26 variants", "plimsoll sweep takes any number");
    }
    let mut names: Vec<&String> = said.iter().filter_map(|one| one.name.as_ref()).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return problem(
            &format!("two variants are named `{}`", twice[0]),
            "give each its own name",
        );
    }
    if args.seeds == 0 || args.seeds > SEEDS_MAX {
        return problem(
            &format!(
                "`--seeds` must lie between 1 and {SEEDS_MAX}: {} does not",
                args.seeds
            ),
            "8 is what stands without it; four times as many halve the intervals",
        );
    }
    Ok((common, said))
}

/// Runs that stop when they are precise would be of different lengths.
fn fix_length(resolved: &mut Resolved, notes: &mut Vec<String>) {
    if !matches!(resolved.length, RunLength::Auto { .. }) {
        return;
    }
    resolved.scenario.workload.num_prompts = Some(PROMPTS);
    resolved.length = RunLength::Requests(PROMPTS);
    let note =
        format!("runs have {PROMPTS} requests each, so that all are alike; --num-prompts says otherwise");
    if !notes.contains(&note) {
        notes.push(note);
    }
}

fn simulate_all(planned: &[Planned], seeds: u32, terminal: &Terminal) -> Vec<Vec<Run>> {
    let total = planned.len() * seeds as usize;
    let progress = std::sync::Mutex::new(Progress::new(terminal, Some(total as u64), "runs"));
    let evaluate = |row: usize, column: usize| {
        let resolved = &planned[row].resolved;
        let scenario = Scenario {
            seed: resolved.scenario.seed.wrapping_add(column as u64),
            ..resolved.scenario.clone()
        };
        let experiment = Experiment {
            stops_when_precise: false,
            ..present::experiment(resolved, Records::Requests)
        };
        let mut waits = Waits::default();
        let outcome = simulate_watched(&scenario, &experiment, &mut waits, |ended| {
            progress::goes_on(|| format!("{} of one that runs", crate::report::counted(ended, "request")))
        });
        if outcome.is_interrupted {
            return None;
        }
        let end = Picos::try_from_seconds(outcome.result.whole.duration_s).unwrap_or_default();
        let remarks = remarks::of_run(resolved, &outcome);
        Some(Run::of(outcome, &waits.finish(end), remarks, column == 0))
    };
    let tell = |done: usize| {
        let mut progress = progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        progress.at(done as u64);
    };
    matrix(planned.len(), seeds as usize, evaluate, tell)
}

fn view(planned: &[Planned], runs: &[Vec<Run>], is_trace: bool) -> Versus {
    let base = &planned[0].resolved;
    let is_paired = planned.iter().all(|one| {
        one.resolved.scenario.workload == base.scenario.workload
            && one.resolved.scenario.seed == base.scenario.seed
    });
    let variant = |(at, one): (usize, &Planned)| VariantView {
        name: one.name.clone(),
        said: one.said.clone(),
        model: None,
        trust: present::trust(&one.resolved),
        verdicts: runs[at].iter().map(|run| run.verdict).collect(),
        figures: (0..versus::MEASURES.len())
            .map(|measure| runs[at].iter().map(|run| run.figures[measure]).collect())
            .collect(),
        steady: (0..versus::MEASURES.len())
            .map(|measure| runs[at].iter().map(|run| run.steady.as_ref()?[measure]).collect())
            .collect(),
        remarks: gathered(runs[at].iter().map(|run| run.remarks.as_slice())),
        violations: runs[at].iter().flat_map(|run| run.violations.clone()).collect(),
        moved: if at > 0 && is_paired {
            moved(&runs[0], &runs[at])
        } else {
            None
        },
    };
    Versus {
        subject: subject::of_all(planned.iter().map(|one| &one.resolved)),
        variants: planned.iter().enumerate().map(variant).collect(),
        requests: runs[0].first().map_or(0, |run| run.sent),
        interrupted_of: None,
        is_paired,
        is_trace,
    }
}

/// The pictures of a comparison: (name, picture).
fn charts(view: &Versus, runs: &[Vec<Run>]) -> Vec<(&'static str, Picture)> {
    let shown = || {
        let each = view.variants.iter().zip(runs);
        each.filter_map(|(variant, runs)| Some((variant.name.clone(), runs.first()?.shown.as_ref()?)))
    };
    let ttfts: Vec<_> = shown().map(|(name, shown)| (name, &shown.whole.ttft)).collect();
    let series: Vec<_> = shown()
        .map(|(name, shown)| (name, shown.series.as_slice()))
        .collect();
    vec![
        ("difference", chart::difference(view)),
        ("ttft", chart::ttft_of_variants(view, &ttfts)),
        ("itl", chart::itl(&series, &view.subject)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_flags_are_variants_and_flags_of_all_are_not() {
        let mut args = [
            "compare",
            "--engine static",
            "--trace",
            "a b.jsonl",
            "--label=two words",
            "-tp 2",
        ]
        .map(String::from);
        quote_variants(&mut args);
        assert_eq!(
            args,
            [
                "compare",
                " --engine static",
                "--trace",
                "a b.jsonl",
                "--label=two words",
                " -tp 2"
            ]
        );
    }
}
