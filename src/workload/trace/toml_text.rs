//! A fitted workload as the `[workload]` part of a scenario file, with what it was fitted to and how well in comments.

use std::fmt::Write as _;

use serde::Serialize;

use super::describe::Description;
use super::fit::FittedWorkload;
use super::hits::cache_size;
use crate::quantity::significant;

/// Numbers on a line of an array.
const PER_LINE: usize = 16;

impl FittedWorkload {
    /// The workload as a scenario file's `[workload]`. `name` is the trace's file name; `credit` (source and licence)
    /// stands in the first lines where given.
    #[must_use]
    pub fn toml(&self, name: &str, credit: Option<&str>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        self.write_toml(&mut text, name, credit)
            .expect("a string takes every write");
        text
    }

    /// The trace's numbers beside those of the twin drawn from the fit.
    #[must_use]
    pub fn comparison(&self) -> Vec<Compared> {
        let rates = self.hit_rates.iter().map(|rates| Compared {
            what: format!("hits, cache of {} tokens", cache_size(rates.cache_tokens)),
            trace: rates.trace,
            twin: rates.twin,
        });
        let mut rows = comparison(&self.source, &self.twin);
        rows.extend(rates);
        rows
    }

    fn write_toml(&self, out: &mut String, name: &str, credit: Option<&str>) -> std::fmt::Result {
        let one_line: String = name
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        writeln!(
            out,
            "# Workload fitted to {one_line} ({}, {} requests) by `plimsoll trace --fit`.",
            self.source.format, self.source.requests
        )?;
        for line in credit.unwrap_or_default().lines() {
            writeln!(out, "# {line}")?;
        }
        writeln!(
            out,
            "# It holds no row of the trace: quantiles are means of neighbouring rows, rounded to three figures.\n#"
        )?;
        writeln!(out, "# {:<28}{:>12}{:>12}{:>10}", "", "trace", "twin", "error")?;
        for Compared { what, trace, twin } in self.comparison() {
            let error = if trace == 0.0 {
                String::new()
            } else {
                format!("{:+.1} %", 100.0 * (twin / trace - 1.0))
            };
            writeln!(
                out,
                "# {what:<28}{:>12}{:>12}{error:>10}",
                significant(trace),
                significant(twin)
            )?;
        }
        writeln!(out, "# ({})", self.twin_basis())?;
        writeln!(out, "#\n# The twin loses:")?;
        for loss in &self.losses {
            writeln!(out, "# - {loss}")?;
        }
        for said in self.source.warnings.iter().chain(&self.source.notes) {
            writeln!(out, "# Said when the trace was read: {said}")?;
        }
        self.write_tables(out)
    }

    fn write_tables(&self, out: &mut String) -> std::fmt::Result {
        match &self.arrivals {
            Some(arrivals) => {
                writeln!(
                    out,
                    "\n[workload.arrivals.profile]\npiece = \"{} s\"",
                    arrivals.piece_s
                )?;
                array(
                    out,
                    "rates",
                    &arrivals.rates,
                    "requests/s in each piece, repeated at the end",
                )?;
                writeln!(
                    out,
                    "burstiness = {:?}  # shape of the gamma gaps; 1 is Poisson, below 1 burstier",
                    arrivals.burstiness
                )?;
            }
            None if self.source.arrivals.is_some() => writeln!(
                out,
                "\n[workload]\nnum_prompts = {}  # all at once, as in the trace\n\n[workload.arrivals.all_at_once]",
                self.source.requests
            )?,
            None => writeln!(
                out,
                "\n# The trace has no arrival times: add an arrivals table, e.g.\n# [workload.arrivals.poisson]\n# request_rate = 1.0"
            )?,
        }
        writeln!(out, "\n[workload.lengths.quantiles]")?;
        array(
            out,
            "input",
            &self.input,
            "prompt tokens at equally spaced probabilities from 0 to 1",
        )?;
        array(out, "output", &self.output, "output tokens likewise")?;
        writeln!(
            out,
            "correlation = {:?}  # of the normal scores",
            self.correlation
        )?;
        if let Some(prefix) = &self.prefix {
            writeln!(
                out,
                "\n[workload.prefix.reuse]\nsystem_len = {}",
                prefix.system_len
            )?;
            let rest = [("probability", prefix.probability), ("share", prefix.share)];
            for (key, value) in rest {
                writeln!(out, "{key} = {value:?}")?;
            }
            array(
                out,
                "distances",
                &prefix.distances,
                "shares of those who continue one of 1, 2 to 3, 4 to 7, … requests before",
            )?;
        }
        Ok(())
    }
}

/// One number of a trace beside its twin's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Which, with its unit.
    pub what: String,
    /// The trace's.
    pub trace: f64,
    /// That of requests drawn from the fit.
    pub twin: f64,
}

/// Everything that both describe.
fn comparison(trace: &Description, twin: &Description) -> Vec<Compared> {
    let mut rows = Vec::new();
    let mut compare = |what: &str, trace: Option<f64>, twin: Option<f64>| {
        rows.extend(trace.zip(twin).map(|(trace, twin)| Compared {
            what: what.to_owned(),
            trace,
            twin,
        }));
    };
    if let (Some(a), Some(b)) = (&trace.arrivals, &twin.arrivals) {
        compare("request rate (1/s)", a.request_rate, b.request_rate);
        compare("gap CV", a.gap_cv, b.gap_cv);
        compare(
            "busiest minute / mean",
            a.peak_to_mean_minute,
            b.peak_to_mean_minute,
        );
        compare("busiest 10 s / mean", a.peak_to_mean_10s, b.peak_to_mean_10s);
        for a in &a.dispersion {
            let same = b.dispersion.iter().find(|b| b.window_s == a.window_s);
            compare(
                &format!("dispersion over {} s", a.window_s),
                Some(a.index),
                same.map(|b| b.index),
            );
        }
    }
    for (name, a, b) in [
        ("input", trace.input, twin.input),
        ("output", trace.output, twin.output),
    ] {
        for (what, a, b) in [
            ("mean", a.mean, b.mean),
            ("p50", a.p50, b.p50),
            ("p90", a.p90, b.p90),
            ("p99", a.p99, b.p99),
        ] {
            compare(&format!("{name} {what} (tokens)"), Some(a), Some(b));
        }
    }
    compare("p99 wait at 70 % load (s)", trace.p99_wait_s, twin.p99_wait_s);
    compare("rank correlation", trace.rank_correlation, twin.rank_correlation);
    compare(
        "prompt tokens seen before",
        trace.prefix.map(|share| share.tokens),
        twin.prefix.map(|share| share.tokens),
    );
    rows
}

/// An array over several lines.
fn array(out: &mut String, key: &str, values: &[f64], comment: &str) -> std::fmt::Result {
    writeln!(out, "{key} = [  # {comment}")?;
    for line in values.chunks(PER_LINE) {
        let numbers: Vec<String> = line.iter().map(|value| format!("{value:?}")).collect();
        writeln!(out, "    {},", numbers.join(", "))?;
    }
    writeln!(out, "]")
}
