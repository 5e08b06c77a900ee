//! What a server says of itself: where it is, how it is now and then, and what it has done.

use std::time::Duration;

use crate::analysis::class_limits;
use crate::cli::terminal::Terminal;
use crate::config::Resolved;
use crate::report::figures::{count, time};
use crate::report::text_parts::class_table;
use crate::report::trust_mark;
use crate::serve::Rows;
use crate::serve::pacer::Tally;
use crate::serve::server::{Done, Server, Terms};
use crate::sim::{Role, Scenario};

/// What is served, and where.
pub(super) fn opening(resolved: &Resolved, server: &Server, speed: f64) -> String {
    let pools = resolved.scenario.pools.iter().map(|pool| {
        let role = match (pool.name.as_str(), pool.role) {
            ("", Role::Both) => String::new(),
            ("", Role::Prefill) => "prefill: ".to_owned(),
            ("", Role::Decode) => "decode: ".to_owned(),
            (name, _) => format!("{name}: "),
        };
        let gpus = match pool.gpus {
            1 => pool.device.clone(),
            gpus => format!("{gpus} {}", pool.device),
        };
        format!("{role}{} × {} on {gpus}", pool.replicas, pool.model)
    });
    let pools: Vec<String> = pools.collect();
    let classes = resolved.scenario.workload.classes.iter();
    let classes: Vec<&str> = classes.map(|class| class.name.as_str()).collect();
    let classes = match classes.as_slice() {
        [] => String::new(),
        classes => format!("\nmodels of their own: {}", classes.join(", ")),
    };
    let pace = if speed == 1.0 {
        String::new()
    } else {
        format!("   clock × {speed}")
    };
    format!(
        "simulated {} on http://{}   OpenAI's API, /metrics   trust {}{pace}\n{}\n",
        resolved.scenario.first_pool().engine.profile(),
        server.address(),
        trust_mark(resolved.trust),
        pools.join("\n") + &classes,
    )
}

/// How it is now, and since it was looked at last.
pub(super) fn status(tally: &Tally, last: &Tally, since: Duration, classes: &Classes) -> String {
    let rate = (tally.asked - last.asked) as f64 / since.as_secs_f64();
    let load = tally.load;
    format!(
        "{rate:.1} req/s now   running {}   waiting {}   KV {:.0} %   answered {}   refused {}   gone {}   {}{}",
        load.running,
        load.waiting,
        load.kv_usage * 100.0,
        tally.answered,
        tally.refused,
        tally.gone,
        pacing(tally),
        classes.inside(tally),
    )
}

/// How late this machine is.
fn pacing(tally: &Tally) -> String {
    match (tally.lateness.quantile(0.5), tally.lateness.quantile(0.99)) {
        (Some(median), Some(p99)) => format!(
            "late {} p50, {} p99, {} at most",
            time(median.as_secs_f64()),
            time(p99.as_secs_f64()),
            time(tally.lateness.longest().as_secs_f64())
        ),
        _ => "nothing said yet".to_owned(),
    }
}

/// What it has done.
pub(super) fn closing(done: &Done, classes: &Classes) -> String {
    let tally = &done.tally;
    let all = format!(
        "{} requests: {} answered with {} tokens, {} refused, {} gone before their end, {} lost with a replica, {} cut off   {}\n",
        count(tally.asked),
        count(tally.answered),
        count(tally.output_tokens),
        count(tally.refused),
        count(tally.gone),
        count(tally.lost),
        count(tally.inside()),
        pacing(tally),
    );
    all + &classes.table(done)
}

/// The classes of requests, as far as there are any: what they are called, and whether anything is promised to them.
pub(super) struct Classes(Vec<(String, bool)>);

impl Classes {
    pub(super) fn of(scenario: &Scenario, terms: &Terms) -> Classes {
        let limits = class_limits(scenario, terms.limits);
        let classes = scenario.workload.classes.iter().zip(limits);
        Classes(
            classes
                .map(|(class, limits)| (class.name.clone(), limits.any()))
                .collect(),
        )
    }

    /// How many of each are inside.
    fn inside(&self, tally: &Tally) -> String {
        let inside = self.0.iter().zip(&tally.inside_of);
        let inside: Vec<String> = inside
            .map(|((name, _), inside)| format!("{name} {inside}"))
            .collect();
        match inside.as_slice() {
            [] => String::new(),
            inside => format!("   inside {}", inside.join(", ")),
        }
    }

    /// What became of each.
    fn table(&self, done: &Done) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let classes = self
            .0
            .iter()
            .map(|(name, is_promised)| (name.as_str(), *is_promised));
        class_table(classes.zip(&done.ends.by_class), done.tally.now.seconds())
    }
}

/// Says what was written of what was asked; whether all of it was.
pub(super) fn trace(rows: Option<Rows>, file: Option<&str>, terminal: &Terminal) -> bool {
    let (Some(rows), Some(file)) = (rows, file) else {
        return true;
    };
    let rest = match rows.unanswered {
        0 => String::new(),
        unanswered => format!(
            "; {} of them were not answered whole, and have the length that they would have had",
            count(unanswered)
        ),
    };
    terminal.notes(&[format!("{file} holds {} requests{rest}", count(rows.rows))]);
    match rows.error {
        None => true,
        Some(error) => {
            terminal.error(&anyhow::Error::new(error).context(format!("{file} holds no more requests")));
            false
        }
    }
}
