//! `--timeline` of run: what engines did step by step, written as it happens.

use std::path::Path;

use super::piecewise::Piecewise;
use super::{files, subject};
use crate::config::Resolved;
use crate::report::counted;
use crate::report::figures::{count, time};
use crate::report::timeline::{Held, TimeWindow, Timeline, TimelineReplica};
use crate::sim::{Fact, Observer};

/// Whether to write it, and of which part of the run.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct TimelineFlags {
    /// Write what the engine did, step by step, for ui.perfetto.dev or chrome://tracing (Chrome trace, JSON).
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<String>,
    /// Part of the run that --timeline holds, in simulated time: 10s (the first ten seconds, also without this), 60s..70s, 60s.. (from then on).
    #[arg(long, value_name = "SPAN", requires = "timeline", value_parser = TimeWindow::parse)]
    pub timeline_window: Option<TimeWindow>,
}

impl TimelineFlags {
    /// Finds out before a long simulation whether the file can be written.
    ///
    /// # Errors
    /// If it cannot, or is the screen.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Some(file) = &self.timeline else {
            return Ok(());
        };
        anyhow::ensure!(
            file != "-",
            "--timeline writes beside the result and not to the screen\n  help: name a file, as --timeline steps.json"
        );
        files::check_file(Path::new(file), "--timeline")
    }

    /// Begins the file, if one is asked for.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn begin(&self, resolved: &Resolved) -> anyhow::Result<Option<TimelineFile>> {
        let Some(file) = &self.timeline else {
            return Ok(None);
        };
        let window = self.timeline_window.unwrap_or_default();
        Ok(Some(TimelineFile {
            name: file.clone(),
            window,
            timeline: Timeline::new(&replicas(resolved), &about(resolved), window),
            file: Piecewise::begin(Path::new(file))?,
        }))
    }
}

/// A timeline that is written as it grows.
pub(super) struct TimelineFile {
    name: String,
    window: TimeWindow,
    timeline: Timeline,
    file: Piecewise,
}

/// Text that is gathered before it is written.
const PIECE: usize = 1 << 16;

impl Observer for TimelineFile {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.timeline.observe(fact);
        if self.timeline.pending() > PIECE {
            self.file.add(&self.timeline.take());
        }
    }
}

impl TimelineFile {
    /// The run is over: the file takes its place. What is to be said of it.
    ///
    /// # Errors
    /// If it could not be written.
    pub(super) fn end(mut self) -> anyhow::Result<Vec<String>> {
        let held = self.timeline.finish();
        self.file.add(&self.timeline.take());
        self.file.end()?;
        Ok(vec![told(&self.name, self.window, held)])
    }
}

/// What a file holds of a run.
fn told(name: &str, window: TimeWindow, held: Held) -> String {
    const OPEN: &str = "open it in ui.perfetto.dev or chrome://tracing";
    let all = held.steps + held.left_out;
    if held.steps == 0 && all > 0 {
        return format!(
            "no step lies in the window {window}, and {name} holds none: the run had {}, the last of which ended after {}",
            counted(all, "step"),
            time(held.last_end.seconds())
        );
    }
    if held.left_out == 0 {
        return format!("{name} holds all {}: {OPEN}", counted(all, "step"));
    }
    format!(
        "{name} holds {} of {}, those in the window {window} of {}: {OPEN}; --timeline-window 0s.. holds all",
        count(held.steps),
        counted(all, "step"),
        time(held.last_end.seconds())
    )
}

/// What a run is of, as the file says it.
fn about(resolved: &Resolved) -> [(&'static str, String); 7] {
    let listed = |each: &mut dyn Iterator<Item = &str>| {
        let mut all: Vec<&str> = Vec::new();
        each.for_each(|one| {
            if !all.contains(&one) {
                all.push(one);
            }
        });
        all.join(", ")
    };
    let pools = &resolved.scenario.pools;
    [
        ("plimsoll", env!("CARGO_PKG_VERSION").to_owned()),
        ("subject", subject::subject(resolved)),
        (
            "scenario",
            resolved
                .scenario_name()
                .unwrap_or_else(|| "from flags".to_owned()),
        ),
        (
            "engine",
            listed(&mut pools.iter().map(|pool| pool.engine.profile())),
        ),
        ("model", listed(&mut pools.iter().map(|pool| pool.model.as_str()))),
        ("gpu", listed(&mut pools.iter().map(|pool| pool.device.as_str()))),
        ("seed", resolved.scenario.seed.to_string()),
    ]
}

/// The replicas of all pools, each by its name.
fn replicas(resolved: &Resolved) -> Vec<TimelineReplica> {
    let scenario = &resolved.scenario;
    let has_pools = scenario.pools.len() > 1;
    let mut all = Vec::new();
    for (pool, server) in scenario.pools.iter().zip(&resolved.servers) {
        let is_staged = server.placement.stages() > 1;
        for index in 0..pool.replicas {
            all.push(TimelineReplica {
                name: match scenario.lock_step {
                    _ if has_pools => format!("{} {index}", pool.name),
                    Some(_) => format!("rank {index}"),
                    None => format!("replica {index}"),
                },
                steps: if is_staged {
                    "steps, as they leave the last stage".to_owned()
                } else {
                    "steps".to_owned()
                },
                kv_blocks: pool.engine.usable_blocks(),
                block_size: pool.engine.block_size(),
                answers_whole: pool.engine.answers_whole(),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Picos;

    #[test]
    fn what_is_left_out_is_told_and_how_to_have_it() {
        let held = |steps, left_out| {
            let last_end = Picos::from_seconds(123.4);
            let held = Held {
                steps,
                left_out,
                last_end,
            };
            told("t.json", TimeWindow::default(), held)
        };
        assert_eq!(
            held(1200, 34_567),
            "t.json holds 1,200 of 35,767 steps, those in the window 0 s..10 s of 123 s: open it in ui.perfetto.dev or chrome://tracing; \
             --timeline-window 0s.. holds all"
        );
        assert_eq!(
            held(1, 0),
            "t.json holds all 1 step: open it in ui.perfetto.dev or chrome://tracing"
        );
        assert_eq!(
            held(0, 7),
            "no step lies in the window 0 s..10 s, and t.json holds none: the run had 7 steps, the last of which ended after 123 s"
        );
    }
}
