//! How long a row's prompts and answers were, from its means and its words.
//!
//! Rows publish means, if anything. What is assumed about the rest is named in the plan and has a source here; none of
//! it was chosen by a row that predictions are judged by. Left out: prompts and answers that belong together (their
//! lengths' correlation in ShareGPT is −0.03).

use super::super::words::{after, had_hits, stated_total};
use super::{Draft, Reading, Unplanned};
use crate::results::{AROUND, Load, Measured};
use crate::stats::normal_cdf;

/// Spread of the logarithm of ShareGPT's prompts and answers: 1.40 and 1.02 over the 11,035 conversations of Sarathi-Serve's
/// published lengths (microsoft/sarathi-serve, `sharegpt_8k_filtered_stats`, Llama 2's tokenizer) that the filter of
/// `vllm bench serve` keeps (B-17).
const SHAREGPT_SIGMA: (f64, f64) = (1.4, 1.0);
/// Longest prompt that the filter keeps (B-17), and about where the data set's answers end: 99.9 % of those 30,731 have at
/// most 1,021 tokens.
const SHAREGPT_MAX: u64 = 1024;
/// A cut at less than so many means would not leave a long-tailed law its mean.
const MEANS_TO_CUT: f64 = 3.0;
/// How far lengths of one nominal value may be apart, either way of their mean: what InferenceX draws, which is 0.8 to 1.0
/// of nominal. Answers of one length keep all clients of a closed loop in step, so that their prompts wait for each other
/// wave after wave; any scatter ends that. What a row says is taken at its word, and the interval reaches to the scatter.
const NOMINAL_SCATTER: f64 = 0.111;
/// Prompts of a sweep whose lengths nobody tells: those of one full step, a quarter and four times of it.
const SWEPT: [f64; 3] = [2048.0, 8192.0, 32_768.0];
/// No sequence has more tokens than this; a row that says so is broken.
const LONGEST: f64 = (1_u64 << 30) as f64;
/// Tokens of a block: the last one of a prompt is computed whatever is cached.
const BLOCK: f64 = 16.0;

impl Draft<'_> {
    /// Mean tokens of prompts and answers, from columns or words.
    fn means(&self) -> (Option<f64>, Option<f64>) {
        let setup = &self.row.setup;
        let workload = setup.workload.to_lowercase();
        let stated =
            |words: &str, key: &str| stated_total(setup, words).or_else(|| stated_mean(&workload, key));
        let input = setup.input_tokens.or_else(|| stated("input ~", "isl="));
        (input, setup.output_tokens.or_else(|| stated("output ~", "osl=")))
    }

    /// Tokens of the longest request that is written of these, prompt and answer; `None` where prompts have no length, or a law that is cut.
    pub(super) fn longest_request(&self) -> Option<f64> {
        let workload = self.row.setup.workload.to_lowercase();
        let (input, output) = self.means();
        let (input, output) = (input?, output.unwrap_or(0.0).max(1.0));
        let times = match after(&workload, "range_ratio=") {
            _ if workload.contains("sharegpt") => return None,
            Some(ratio) => 2.0 / (1.0 + ratio),
            None => match after(&workload, AROUND).filter(|ratio| *ratio > 0.0 && *ratio < 1.0) {
                Some(ratio) => 1.0 + ratio,
                None if workload.contains("<=") => 2.0,
                None => 1.0,
            },
        };
        Some(times * (input + output))
    }

    pub(super) fn lengths(&mut self) -> Result<(), Unplanned> {
        let setup = &self.row.setup;
        let workload = setup.workload.to_lowercase();
        let (input, output) = self.means();
        if input.is_none() && workload.contains("prefill sweep") {
            self.prefill_sweep();
            return Ok(());
        }
        let input = input.ok_or(Unplanned::Lengths("prompts"))?;
        let output = match (output, setup.load) {
            (Some(output), _) => output,
            (None, Load::StaticBatch { .. }) => 1.0,
            (None, _) => return Err(Unplanned::Lengths("answers")),
        };
        for (tokens, what) in [(input, "prompts"), (output, "answers")] {
            if tokens <= 0.0 || tokens > LONGEST {
                return Err(format!("the row says that {what} have {tokens} tokens").into());
            }
        }
        if workload.contains("sharegpt") {
            self.sharegpt(input, output);
        } else if let Some(ratio) = after(&workload, "range_ratio=") {
            let longest = |key: &str, mean: f64| after(&workload, key).unwrap_or(2.0 * mean / (1.0 + ratio));
            let (input, output) = (longest("isl=", input), longest("osl=", output));
            self.random_sglang(input, output);
            self.entry("range_ratio", &format!("{ratio:?}"));
        } else if let Some(ratio) = after(&workload, AROUND).filter(|ratio| *ratio > 0.0 && *ratio < 1.0) {
            self.text += &format!("\n{}", around(input, output, ratio));
        } else if workload.contains("<=") {
            self.assume("lengths are uniform from 1 to twice the row's means");
            self.random_sglang(2.0 * input, 2.0 * output);
        } else {
            self.nominal(input, output);
        }
        Ok(())
    }

    /// Prompts of several lengths one after the other, of which tokens a second are told: nearly the same at any length that
    /// fills a step, and the interval reaches to a quarter and to four times the assumed one.
    fn prefill_sweep(&mut self) {
        let [short, middle, long] = SWEPT.map(|input| fixed(input, 1.0));
        self.assume(format!(
            "prompts of {} tokens, one after the other; the row names no length",
            SWEPT[1]
        ));
        for put in [short, long] {
            let instead_of = middle.clone();
            self.readings.push(Reading { instead_of, put });
        }
        self.text += &format!("\n{middle}");
    }

    fn random_sglang(&mut self, input: f64, output: f64) {
        self.text += &format!("\n{}", law_of_sglang(input, output));
    }

    fn sharegpt(&mut self, input: f64, output: f64) {
        self.assume(format!(
            "ShareGPT's lengths are lognormal around the row's means with σ = {} and {}, cut at {} and {} tokens: the spread of \
             11,035 published lengths of that data set",
            SHAREGPT_SIGMA.0,
            SHAREGPT_SIGMA.1,
            longest(input),
            longest(output)
        ));
        let law = format!(
            "[workload.lengths.lognormal]\ninput = {}\noutput = {}\n",
            lognormal(input, SHAREGPT_SIGMA.0),
            lognormal(output, SHAREGPT_SIGMA.1)
        );
        self.readings.push(Reading {
            instead_of: law.clone(),
            put: fixed(input, output),
        });
        self.text += &format!("\n{law}");
    }

    /// Lengths that go by one value each.
    fn nominal(&mut self, input: f64, output: f64) {
        let shared = self.shared(input);
        let law = fixed(input - shared, output);
        if self.may_scatter(input, output) {
            // No mean of equal lengths is broken; how far others were apart is then not known, and SGLang's random lengths are
            // from nothing to twice their mean unless set.
            let is_broken = [input, output].iter().any(|mean| mean.fract() != 0.0);
            let (input, output) = (input - shared, output);
            self.scattered = Some(Reading {
                instead_of: law.clone(),
                put: match is_broken {
                    true => law_of_sglang(2.0 * input, 2.0 * output),
                    false => around(input, output, NOMINAL_SCATTER),
                },
            });
        }
        if matches!(self.row.setup.load, Load::Closed { clients } if clients > 1) {
            self.readings.push(Reading {
                instead_of: law.clone(),
                put: around(input - shared, output, NOMINAL_SCATTER),
            });
        }
        if shared == 0.0 && input > BLOCK && had_hits(&self.row.setup.notes) {
            // The same prompts in an earlier run of the server: they were cached, or gone again.
            let cached = ((input - 1.0) / BLOCK).floor() * BLOCK;
            self.readings.push(Reading {
                instead_of: law.clone(),
                put: fixed(input - cached, output) + &prefix(cached),
            });
        }
        self.text += &format!("\n{law}");
        if shared > 0.0 {
            self.text += &prefix(shared);
        }
    }

    /// Whether the row leaves open that its lengths were not equal: it says nothing of it, and has no totals that whole means
    /// follow from, which random lengths hardly have.
    fn may_scatter(&self, input: f64, output: f64) -> bool {
        let Measured { setup, outcome, .. } = self.row;
        let is_counted = outcome.input_tokens.is_some() && outcome.output_tokens.is_some();
        let is_whole = input.fract() == 0.0 && output.fract() == 0.0;
        let is_alone = matches!(
            setup.load,
            Load::StaticBatch { .. } | Load::Closed { clients: 1 } | Load::Offline
        );
        !is_alone && setup.has_fixed_lengths != Some(true) && !(is_counted && is_whole)
    }

    /// Tokens of a prompt that the row's notes say were in the prefix cache, in whole blocks of 16.
    fn shared(&mut self, input: f64) -> f64 {
        let notes = &self.row.setup.notes;
        let share = notes.split("about ").skip(1).find_map(|rest| {
            let (number, rest) = rest.split_once(" %")?;
            rest.contains("cache hits").then(|| number.parse::<f64>().ok())?
        });
        let Some(share) = share.filter(|share| (0.0..100.0).contains(share)) else {
            return 0.0;
        };
        let tokens = (input * share / 100.0 / BLOCK).floor() * BLOCK;
        self.assume(format!(
            "{tokens} tokens of every prompt are one shared prefix, as many as the notes say were cached"
        ));
        tokens.min(input - 1.0).max(0.0)
    }
}

fn whole(tokens: f64) -> String {
    (tokens.round() as u64).max(1).to_string()
}

fn fixed(input: f64, output: f64) -> String {
    let (input, output) = (whole(input), whole(output));
    format!("[workload.lengths.fixed]\ninput_len = {input}\noutput_len = {output}\n")
}

/// Uniform within a share of the means, either way, as vLLM's client draws them.
fn around(input: f64, output: f64, ratio: f64) -> String {
    let law = fixed(input, output).replacen("fixed", "random", 1);
    format!("{law}range_ratio = {ratio:?}\n")
}

/// Uniform up to the longest ones, as SGLang's client draws them.
fn law_of_sglang(input: f64, output: f64) -> String {
    fixed(input, output).replacen("fixed", "random_sglang", 1)
}

/// One prefix that all prompts begin with.
fn prefix(tokens: f64) -> String {
    format!(
        "\n[workload.prefix.groups]\ncount = 1\nprefix_len = {}\n",
        whole(tokens)
    )
}

/// Where the lengths of a data set of this mean are cut: ShareGPT's are at 1,024 tokens, those of longer ones later.
fn longest(mean: f64) -> u64 {
    let mut max = SHAREGPT_MAX;
    while mean * MEANS_TO_CUT > max as f64 {
        max *= 2;
    }
    max
}

/// The mean length that a workload's words name: `isl=1024`, or up to so many where they are scattered below it.
fn stated_mean(workload: &str, key: &str) -> Option<f64> {
    let named = after(workload, key)?;
    let ratio = after(workload, "range_ratio=").unwrap_or(1.0);
    Some(named * (1.0 + ratio) / 2.0)
}

/// A lognormal length that has its mean after what is above the cut was drawn again.
fn lognormal(mean: f64, sigma: f64) -> String {
    let max = longest(mean);
    let median = median(mean, sigma, max as f64);
    format!("{{ median = {median:?}, sigma = {sigma:?}, max = {max} }}")
}

/// The median before the cut `c` of a law with this mean after it: `E[X | X ≤ c] = m·e^(σ²/2)·Φ(z − σ)/Φ(z)` with
/// `z = ln(c/m)/σ`, solved by halving, as it rises in `m`.
fn median(mean: f64, sigma: f64, max: f64) -> f64 {
    let after_cut = |median: f64| {
        let z = (max / median).ln() / sigma;
        median * (sigma * sigma / 2.0).exp() * normal_cdf(z - sigma) / normal_cdf(z)
    };
    let (mut low, mut high) = (1.0_f64, max);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if after_cut(middle) < mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_law_keeps_its_mean() {
        for (mean, sigma) in [(217.0, 1.4), (200.0, 1.0), (30.0, 1.0)] {
            let median = median(mean, sigma, 1024.0);
            // The quantile function of the law after the cut, summed.
            let inside = normal_cdf((1024.0 / median).ln() / sigma);
            let steps = 200_000;
            let draw = |index: i32| {
                let p = inside * (f64::from(index) + 0.5) / f64::from(steps);
                median * (sigma * normal_quantile(p)).exp()
            };
            let found = (0..steps).map(draw).sum::<f64>() / f64::from(steps);
            assert!((found / mean - 1.0).abs() < 0.01, "{mean}, {sigma}: {found}");
        }
        assert!(lognormal(500.0, 1.0).contains("max = 2048"));
    }

    /// By halving, which is all that a test needs.
    fn normal_quantile(p: f64) -> f64 {
        let (mut low, mut high) = (-9.0_f64, 9.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if normal_cdf(middle) < p {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The constants are those of the published lengths, where they are at hand.
    #[test]
    fn sharegpts_spread_is_that_of_its_published_lengths() {
        let Some(folder) = crate::results::published::data("the published lengths are not looked at") else {
            return;
        };
        let path = folder.join("traces/sharegpt_8k_filtered_stats_llama2_tokenizer.csv");
        let text = std::fs::read_to_string(path).unwrap();
        let lengths = text.lines().skip(1).map(|line| {
            let mut numbers = line.split(',').map(|number| number.parse::<f64>().unwrap());
            (numbers.next().unwrap(), numbers.next().unwrap())
        });
        let kept: Vec<(f64, f64)> = lengths
            .filter(|(prompt, answer)| {
                (4.0..=1024.0).contains(prompt) && *answer >= 4.0 && prompt + answer <= 2048.0
            })
            .collect();
        assert_eq!(kept.len(), 11_035);
        let spread = |of: fn(&(f64, f64)) -> f64| {
            let logs: crate::stats::Running = kept.iter().map(|pair| of(pair).ln()).collect();
            logs.variance().sqrt()
        };
        assert!((spread(|pair| pair.0) - SHAREGPT_SIGMA.0).abs() < 0.03);
        assert!((spread(|pair| pair.1) - SHAREGPT_SIGMA.1).abs() < 0.03);
    }
}
