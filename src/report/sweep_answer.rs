//! The first line of a sweep: which setting serves the most within the promise, and whether more than chance is behind it.
//!
//! Law: what may keep the promise and serves more than the setting that surely keeps it is named beside it.

use super::figures::{counted, percent, significant};
use super::sweep::SweepRow;
use super::sweep_layout::is_named;
use crate::analysis::CONFIDENCE;
use crate::stats::{Running, student_t};
use crate::sweep::{self, Best, Candidate};

/// Outputs without intervals are alike where they differ by less than this part of them.
const ALIKE_WITHIN: f64 = 0.01;

/// The first line: how many runs, whether that is all of them, how many cannot be, and which served the most.
pub(super) fn answer(rows: &[SweepRow<'_>]) -> String {
    let best = best(rows);
    let finished = rows.iter().filter(|row| row.is_simulated()).count();
    let misfits = rows.iter().filter(|row| row.is_misfit()).count();
    let refused = rows.iter().filter(|row| row.is_refused()).count();
    let all = counted((rows.len() - misfits - refused) as u64, "run");
    let unfit = match misfits {
        0 => String::new(),
        1 => "; 1 cell does not fit".to_owned(),
        more => format!("; {more} cells do not fit"),
    };
    let unfit = match refused {
        0 => unfit,
        1 => unfit + "; 1 cell is refused",
        more => format!("{unfit}; {more} cells are refused"),
    };
    match finished + misfits + refused < rows.len() {
        true => format!("INTERRUPTED: {finished} of {all} finished{unfit}{best}"),
        false => format!("{all}{unfit}{best}"),
    }
}

/// Which run served the most among those that keep the promise, whether more than chance is behind it, and which may keep it
/// and serves more.
fn best(rows: &[SweepRow<'_>]) -> String {
    let groups = settings_apart_from_seeds(rows);
    let candidates: Vec<Option<Candidate>> = groups.iter().map(|(_, runs)| together(runs)).collect();
    let is_promised = rows.iter().any(SweepRow::is_promised);
    let open = rows.iter().filter(|row| row.is_open()).count();
    if none_keeps(rows) && open == 0 {
        return "; none keeps the promise".to_owned();
    }
    let broken = rows.iter().filter(|row| row.breaks() && !row.is_open()).count();
    let breaks = match broken {
        0 => String::new(),
        1 => "; 1 breaks the promise".to_owned(),
        more => format!("; {more} break the promise"),
    };
    let undecided = match open {
        0 => String::new(),
        1 => "; 1 is too short for the promise".to_owned(),
        more => format!("; {more} are too short for the promise"),
    };
    let surely = if open > 0 { " surely" } else { "" };
    let within = match (is_promised, broken + open) {
        (false, _) => String::new(),
        (true, 0) => " within the promise".to_owned(),
        (true, _) => format!("{surely} within it"),
    };
    let noise = Noise::of(rows);
    let best = match noise.best(&candidates) {
        Best::NoneKeeps => String::new(),
        Best::Alike(tokens) => noise.alike(&within, tokens),
        Best::Overlapping {
            index, tokens_per_s, ..
        } => {
            most(&within, tokens_per_s, &groups[index])
                + ", though the runs' intervals overlap: more prompts would tell"
        }
        Best::One {
            index,
            tokens_per_s,
            within_noise,
        } => most(&within, tokens_per_s, &groups[index]) + &noise.others(within_noise),
    };
    breaks + &undecided + &best + &more_undecided(&groups, &candidates, noise)
}

/// The setting that serves the most.
fn most(within: &str, tokens_per_s: f64, (settings, runs): &Setting<'_, '_>) -> String {
    let seeds = match runs.len() {
        1 => String::new(),
        seeds => format!(", mean of {}", counted(seeds as u64, "seed")),
    };
    let tokens = significant(tokens_per_s);
    format!("; most output{within} {tokens} tok/s{}{seeds}", at(settings))
}

/// What outputs must differ by more than to be told apart.
#[derive(Clone, Copy)]
enum Noise {
    /// Their intervals, where any has one.
    Intervals,
    /// What the number of requests in whole runs leaves open: this part of the output.
    Number(f64),
    /// [`ALIKE_WITHIN`].
    Little,
}

impl Noise {
    fn of(rows: &[SweepRow<'_>]) -> Noise {
        let by_number = rows.iter().filter_map(SweepRow::known_by_number);
        match by_number.max_by(f64::total_cmp) {
            Some(part) => Noise::Number(part),
            None if rows.iter().any(|row| row.interval("output_throughput").is_some()) => Noise::Intervals,
            None => Noise::Little,
        }
    }

    /// Which of them stands out. Of so few requests that their number decides nothing is known, however far apart they are.
    fn best(self, candidates: &[Option<Candidate>]) -> Best {
        match (self, sweep::best(candidates)) {
            (Noise::Number(_), Best::Overlapping { tokens_per_s, .. }) => Best::Alike(tokens_per_s),
            (_, best) => best,
        }
    }

    /// That none of them stands out.
    fn alike(self, within: &str, tokens: f64) -> String {
        let tokens = significant(tokens);
        match self {
            Noise::Intervals => format!("; output{within} alike within noise, about {tokens} tok/s"),
            Noise::Little => format!("; output{within} alike within 1 %, about {tokens} tok/s"),
            Noise::Number(part) => format!(
                "; which has the most output{within} cannot be told from so few requests, about {tokens} tok/s ± {}: a longer run tells",
                percent(part)
            ),
        }
    }

    /// How many others may serve as much as the best.
    fn others(self, number: usize) -> String {
        let others = counted(number as u64, "other");
        match self {
            _ if number == 0 => String::new(),
            Noise::Intervals => format!(" ({others} within noise of it)"),
            Noise::Little => format!(" ({others} within 1 % of it)"),
            Noise::Number(_) => format!(" ({others} cannot be told from it by so few requests)"),
        }
    }
}

/// Which setting, of those that may keep the promise, serves the most, where it is more than any that surely keeps it.
fn more_undecided(groups: &[Setting<'_, '_>], candidates: &[Option<Candidate>], noise: Noise) -> String {
    let sure = candidates.iter().flatten().filter(|one| one.keeps);
    let sure = sure.map(|one| one.output.2).fold(f64::NEG_INFINITY, f64::max);
    let may_keep = |runs: &[&SweepRow<'_>]| {
        let finished = || runs.iter().filter(|run| run.is_simulated());
        finished().any(|run| run.is_open()) && finished().all(|run| run.is_open() || run.keeps())
    };
    let open: Vec<Option<Candidate>> = (groups.iter().zip(candidates))
        .map(|((_, runs), one)| {
            let keeps = may_keep(runs);
            one.filter(|one| one.output.1 > sure)
                .map(|one| Candidate { keeps, ..one })
        })
        .collect();
    match noise.best(&open) {
        Best::NoneKeeps => String::new(),
        Best::Alike(tokens) => {
            let alike = groups.iter().zip(&open);
            let alike = alike.filter(|(_, one)| one.is_some_and(|one| one.keeps));
            let runs: Vec<&SweepRow<'_>> = alike.flat_map(|((_, runs), _)| runs.iter().copied()).collect();
            let undecided = match noise {
                // More requests tell both.
                Noise::Number(_) => "",
                Noise::Intervals | Noise::Little => ", not decided",
            };
            let so_far = so_far(&runs);
            format!("{}{undecided} ({so_far} so far)", noise.alike("", tokens))
        }
        Best::One {
            index,
            tokens_per_s,
            within_noise,
        }
        | Best::Overlapping {
            index,
            tokens_per_s,
            others: within_noise,
        } => {
            let (settings, runs) = &groups[index];
            format!(
                "; {} tok/s{}{} not decided ({} so far)",
                significant(tokens_per_s),
                at(settings),
                noise.others(within_noise),
                so_far(runs)
            )
        }
    }
}

/// What is seen of a promise that is not decided: `100 % good`, of several runs `at least 99.2 % good`; `kept` where no share is
/// asked.
fn so_far(runs: &[&SweepRow<'_>]) -> String {
    let mut good: Vec<f64> = runs.iter().filter_map(|run| run.good()).collect();
    good.sort_by(f64::total_cmp);
    match good[..] {
        [least, .., most] if percent(least) != percent(most) => format!("at least {} good", percent(least)),
        [least, ..] => format!("{} good", percent(least)),
        [] if runs.iter().all(|run| run.keeps()) => "kept".to_owned(),
        [] => "not kept".to_owned(),
    }
}

/// What was set, and the runs that have it.
type Setting<'r, 's> = (Vec<(String, String)>, Vec<&'r SweepRow<'s>>);

/// Runs that differ in their seed alone are one setting, told without the seed.
fn settings_apart_from_seeds<'r, 's>(rows: &'r [SweepRow<'s>]) -> Vec<Setting<'r, 's>> {
    let mut groups: Vec<Setting<'_, '_>> = Vec::new();
    for row in rows {
        let is_seed = |setting: &&(String, String)| is_named(&setting.0, "seed");
        let seeds = |row: &SweepRow<'s>| -> Vec<String> {
            let seeds = row.settings.iter().filter(is_seed);
            seeds.map(|(_, seed)| seed.clone()).collect()
        };
        let settings: Vec<_> = row.settings.iter().filter(|set| !is_seed(set)).cloned().collect();
        let is_its = |group: &&mut Setting<'r, 's>| {
            group.0 == settings && group.1.iter().all(|run| seeds(run) != seeds(row))
        };
        match groups.iter_mut().find(is_its) {
            Some((_, runs)) => runs.push(row),
            None => groups.push((settings, vec![row])),
        }
    }
    groups
}

/// The runs of a setting as one: their mean output with its interval, by the runs' own where all have one, else by how far
/// the runs lie apart. The promise is kept where every run keeps it. `None` where none has an output.
fn together(runs: &[&SweepRow<'_>]) -> Option<Candidate> {
    let known: Vec<(f64, f64, f64)> = runs.iter().filter_map(|run| run.output()).collect();
    let number = known.len() as f64;
    let mut means = Running::default();
    known.iter().for_each(|(value, ..)| means.add(*value));
    let have_intervals = known.iter().all(|(_, low, high)| high > low);
    // Where nothing is known of chance, what is nearly the same is no difference.
    let least = if have_intervals {
        0.0
    } else {
        ALIKE_WITHIN / 2.0 * means.mean()
    };
    let half = if known.is_empty() {
        return None;
    } else if known.len() == 1 {
        let (_, low, high) = known[0];
        (known[0].0 - low, high - known[0].0)
    } else if have_intervals {
        let squares = |end: fn(&(f64, f64, f64)) -> f64| -> f64 {
            known.iter().map(|one| end(one).powi(2)).sum::<f64>().sqrt() / number
        };
        (squares(|one| one.0 - one.1), squares(|one| one.2 - one.0))
    } else {
        let half = student_t(CONFIDENCE, number - 1.0) * (means.variance() / number).sqrt();
        (half, half)
    };
    let finished = runs.iter().filter(|run| run.is_simulated());
    Some(Candidate {
        output: (
            means.mean(),
            means.mean() - half.0.max(least),
            means.mean() + half.1.max(least),
        ),
        keeps: finished.into_iter().all(|run| run.keeps() && !run.is_open()),
    })
}

/// Whether there is a promise, and no finished run keeps it.
#[must_use]
pub fn none_keeps(rows: &[SweepRow<'_>]) -> bool {
    let mut finished = rows.iter().filter(|row| row.is_simulated()).peekable();
    finished.peek().is_some() && finished.all(SweepRow::breaks)
}

/// ` at rate = 4, gpu = h100`; nothing where nothing was set.
fn at(settings: &[(String, String)]) -> String {
    let parts = settings.iter().map(|(axis, value)| format!("{axis} = {value}"));
    match parts.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        parts => format!(" at {parts}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_first_line_crowns_what_keeps_the_promise_and_no_noise() {
        let run = |tokens: f64, good: f64, half: f64| {
            serde_json::json!({
                "output_throughput": tokens, "request_throughput": 1.0, "request_goodput": good,
                "plimsoll": {"verdict": "stable",
                    "intervals_95": {"output_throughput": [tokens - half, tokens + half]}},
            })
        };
        let first = |runs: &[Value], attainment| {
            let settings: Vec<_> = (0..runs.len())
                .map(|at| [("rate".to_owned(), at.to_string())])
                .collect();
            let rows: Vec<SweepRow<'_>> = runs
                .iter()
                .zip(&settings)
                .map(|(run, settings)| SweepRow {
                    of_whole: false,
                    settings,
                    run,
                    attainment,
                })
                .collect();
            answer(&rows)
        };
        let runs = [run(100.0, 1.0, 5.0), run(200.0, 0.5, 5.0)];
        assert_eq!(first(&runs, None), "2 runs; most output 200 tok/s at rate = 1");
        assert_eq!(
            first(&runs, Some(0.99)),
            "2 runs; 1 breaks the promise; most output within it 100 tok/s at rate = 0"
        );
        let some_alike = [
            run(100.0, 1.0, 5.0),
            run(103.0, 1.0, 5.0),
            run(101.0, 0.2, 5.0),
            run(60.0, 0.0, 5.0),
        ];
        assert_eq!(
            first(&some_alike, Some(0.99)),
            "4 runs; 2 break the promise; output within it alike within noise, about 103 tok/s"
        );
        assert_eq!(first(&runs[1..], Some(0.99)), "1 run; none keeps the promise");
        let mut open = runs.clone();
        open[1]["plimsoll"]["slo_decided"] = Value::Bool(false);
        assert_eq!(
            first(&open, Some(0.99)),
            "2 runs; 1 is too short for the promise; most output surely within it 100 tok/s at rate = 0; 200 tok/s at \
             rate = 1 not decided (50.0 % good so far)"
        );
        assert_eq!(
            first(&open[1..], Some(0.99)),
            "1 run; 1 is too short for the promise; 200 tok/s at rate = 0 not decided (50.0 % good so far)"
        );
        // What is not more than chance has it is not named.
        open[1]["output_throughput"] = 104.0.into();
        open[1]["plimsoll"]["intervals_95"]["output_throughput"] = serde_json::json!([99.0, 109.0]);
        let alike = first(&open, Some(0.99));
        assert!(
            alike.ends_with("surely within it 100 tok/s at rate = 0"),
            "{alike}"
        );
        let noise = [run(100.0, 1.0, 5.0), run(103.0, 1.0, 5.0)];
        assert_eq!(
            first(&noise, None),
            "2 runs; output alike within noise, about 103 tok/s"
        );
        // Of a closed loop in lock-step hardly anything is known, and one still serves two and a half times as much.
        let wide = [run(2200.0, 1.0, 1700.0), run(5510.0, 1.0, 4000.0)];
        let told = "most output 5,510 tok/s at rate = 1, though the runs' intervals overlap: more prompts would tell";
        assert_eq!(first(&wide, None), format!("2 runs; {told}"));
        let told = told.replace("output", "output within the promise");
        assert_eq!(first(&wide, Some(0.99)), format!("2 runs; {told}"));
        let mut open = wide.clone();
        (open.iter_mut()).for_each(|run| run["plimsoll"]["slo_decided"] = Value::Bool(false));
        let undecided = first(&open, Some(0.99));
        assert!(
            undecided.ends_with(
                "; 5,510 tok/s at rate = 1 (1 other within noise of it) not decided (100 % good so far)"
            ),
            "{undecided}"
        );
    }

    /// Their steady stretches have intervals, which say nothing of whole runs.
    #[test]
    fn whole_runs_that_hardly_differ_are_alike() {
        let first = |tokens: &[f64], may_keep: &[bool]| {
            let runs: Vec<Value> = (tokens.iter().zip(may_keep))
                .map(|(tokens, is_decided)| {
                    serde_json::json!({
                        "output_throughput": tokens,
                        "plimsoll": {"verdict": "too_short", "slo_kept": true, "slo_decided": is_decided,
                            "intervals_95": {"output_throughput": [tokens - 300.0, tokens + 300.0]}},
                    })
                })
                .collect();
            let settings: Vec<_> = (0..runs.len())
                .map(|at| [("chunk".to_owned(), at.to_string())])
                .collect();
            let row = |(run, settings)| SweepRow {
                of_whole: true,
                settings,
                run,
                attainment: None,
            };
            let settings = settings.iter().map(|one| &one[..]);
            answer(&runs.iter().zip(settings).map(row).collect::<Vec<_>>())
        };
        assert_eq!(
            first(&[825.84, 826.0, 825.9], &[true; 3]),
            "3 runs; output within the promise alike within 1 %, about 826 tok/s"
        );
        assert_eq!(
            first(&[800.0, 826.0, 825.0], &[true; 3]),
            "3 runs; most output within the promise 826 tok/s at chunk = 1 (1 other within 1 % of it)"
        );
        assert_eq!(
            first(&[825.84, 826.0], &[true, false]),
            "2 runs; 1 is too short for the promise; most output surely within it 826 tok/s at chunk = 0"
        );
        assert_eq!(
            first(&[825.84, 826.0], &[false; 2]),
            "2 runs; 2 are too short for the promise; output alike within 1 %, about 826 tok/s, not decided (kept so far)"
        );
    }

    /// Open loops serve what they are sent: what a short run of them serves more is chance, and how its last requests drain.
    #[test]
    fn none_is_crowned_by_so_few_requests() {
        let of = |tokens: &[f64], requests: u64, rate: Value, in_flight: Option<u64>| {
            let runs: Vec<Value> = (tokens.iter())
                .map(|tokens| {
                    serde_json::json!({
                        "output_throughput": tokens, "request_rate": rate, "completed": requests,
                        "request_throughput": 1.9, "max_concurrency": in_flight,
                        "plimsoll": {"verdict": "finite"},
                    })
                })
                .collect();
            let settings: Vec<_> = (0..runs.len())
                .map(|at| [("seqs".to_owned(), at.to_string())])
                .collect();
            let row = |(run, settings)| SweepRow {
                of_whole: false,
                settings,
                run,
                attainment: None,
            };
            let settings = settings.iter().map(|one| &one[..]);
            answer(&runs.iter().zip(settings).map(row).collect::<Vec<_>>())
        };
        let first = |tokens: &[f64], requests, rate| of(tokens, requests, rate, None);
        // A client that holds requests back and an engine in which they pile up serve what they can.
        let told = "2 runs; most output 397 tok/s at seqs = 1";
        assert_eq!(of(&[366.0, 397.0], 300, 2.0.into(), Some(8)), told);
        assert_eq!(first(&[366.0, 397.0], 300, 1000.0.into()), told);
        // 1.96 · √(2/300) = 16 %.
        assert_eq!(
            first(&[394.0, 366.0, 397.0], 300, 2.0.into()),
            "3 runs; which has the most output cannot be told from so few requests, about 397 tok/s ± 16.0 %: a longer run tells"
        );
        assert_eq!(
            first(&[200.0, 366.0, 397.0], 300, 2.0.into()),
            "3 runs; most output 397 tok/s at seqs = 2 (1 other cannot be told from it by so few requests)"
        );
        // 0.88 % either way.
        let many = first(&[394.0, 366.0, 398.0], 100_000, 2.0.into());
        assert!(
            many.contains("most output 398 tok/s at seqs = 2 (1 other"),
            "{many}"
        );
        // All at once they come as fast as they can.
        assert_eq!(
            first(&[394.0, 366.0, 397.0], 300, "inf".into()),
            "3 runs; most output 397 tok/s at seqs = 2 (1 other within 1 % of it)"
        );
    }

    #[test]
    fn no_seed_is_crowned() {
        let run = |tokens: f64| {
            serde_json::json!({"output_throughput": tokens, "plimsoll": {"verdict": "stable",
                "intervals_95": {"output_throughput": [tokens - 3.0, tokens + 3.0]}}})
        };
        let cell = |seed: &str, rate: &str| {
            vec![
                ("workload.seed".to_owned(), seed.to_owned()),
                ("request-rate".to_owned(), rate.to_owned()),
            ]
        };
        let cells = [cell("1", "4"), cell("2", "4"), cell("1", "8"), cell("2", "8")];
        let runs = [run(100.0), run(104.0), run(220.0), run(200.0)];
        let row = |(settings, run)| SweepRow {
            of_whole: false,
            settings,
            run,
            attainment: None,
        };
        let rows: Vec<SweepRow<'_>> = cells.iter().map(Vec::as_slice).zip(&runs).map(row).collect();
        assert_eq!(
            answer(&rows),
            "4 runs; most output 210 tok/s at request-rate = 8, mean of 2 seeds"
        );
        // Seeds alone are one setting, which is like no other.
        let seeds: Vec<Vec<_>> = cells[..2].iter().map(|cell| cell[..1].to_vec()).collect();
        let rows: Vec<SweepRow<'_>> = seeds.iter().map(Vec::as_slice).zip(&runs).map(row).collect();
        assert_eq!(answer(&rows), "2 runs; most output 102 tok/s, mean of 2 seeds");
        // Runs that say nothing of a seed are no seeds.
        let same = [cells[0][1..].to_vec(), cells[1][1..].to_vec()];
        let rows: Vec<SweepRow<'_>> = same.iter().map(Vec::as_slice).zip(&runs).map(row).collect();
        assert!(!answer(&rows).contains("seeds"), "{}", answer(&rows));
    }
}
