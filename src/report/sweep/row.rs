//! What a run's object says of it: its figures, what is known of them, and its state.

use serde_json::Value;

use super::SweepRow;
use super::columns::BESIDE_CLOSED_FORM;
use crate::report::figures::percent;
use crate::stats::Z_95;

/// Fewer of the requests in a second than this part are answered in one only where they pile up, however short the run.
const KEEPS_UP: f64 = 0.25;

impl SweepRow<'_> {
    /// A key of the run; percentiles that were not asked for stand among those that are always written.
    pub(in crate::report) fn number(&self, key: &str) -> Option<f64> {
        let always = || self.run.pointer(&format!("/plimsoll/whole/{key}"));
        self.run.get(key).or_else(always)?.as_f64()
    }

    /// A figure as `run` shows it: of the steady stretch where there is one, else of the whole run.
    pub(in crate::report) fn figure(&self, key: &str) -> Option<f64> {
        let steady = self.run.pointer(&format!("/plimsoll/steady/{key}"));
        let steady = steady.filter(|_| !self.of_whole);
        steady.and_then(Value::as_f64).or_else(|| self.number(key))
    }

    /// Share of good requests among those that left, one without an answer being none; `None` where no limits were set.
    pub(in crate::report) fn good(&self) -> Option<f64> {
        let (good, answered) = (
            self.figure("request_goodput")?,
            self.figure("request_throughput")?,
        );
        let count = |key: &str| self.counted(key).unwrap_or(0.0);
        let (lost, completed) = (
            count("rejected") + count("timed_out") + count("failed"),
            count("completed"),
        );
        let share_answered = if lost > 0.0 {
            completed / (completed + lost)
        } else {
            1.0
        };
        Some(if answered > 0.0 {
            good / answered * share_answered
        } else {
            0.0
        })
    }

    /// A count of the steady stretch where there is one, else of the whole run.
    pub(in crate::report) fn counted(&self, key: &str) -> Option<f64> {
        self.stretch()?.get(key)?.as_f64()
    }

    /// The steady stretch where there is one, else the whole run.
    fn stretch(&self) -> Option<&Value> {
        let steady = self.run.pointer("/plimsoll/steady");
        let stretch = steady.filter(|steady| !steady.is_null() && !self.of_whole);
        stretch.or_else(|| self.run.pointer("/plimsoll/whole"))
    }

    pub(super) fn has_steady(&self) -> bool {
        let steady = self.run.pointer("/plimsoll/steady");
        steady.is_some_and(|steady| !steady.is_null())
    }

    /// Of what its shares are.
    pub(in crate::report) fn shares_of(&self) -> &'static str {
        match self.has_steady() {
            _ if !self.is_simulated() => "",
            true if !self.of_whole => "steady",
            _ => "whole",
        }
    }

    /// Share of prompt tokens found in the prefix cache; `None` where none was looked for.
    pub(in crate::report) fn hit_rate(&self) -> Option<f64> {
        let asked = self
            .counted("cache_queries_tokens")
            .filter(|asked| *asked > 0.0)?;
        Some(self.counted("cache_hit_tokens")? / asked)
    }

    /// Share of prompt tokens that were found in the prefix cache or loaded from a tier of KV, over the whole run; `None` without tiers.
    pub(in crate::report) fn found_anywhere(&self) -> Option<f64> {
        let tiers = self.run.pointer("/plimsoll/kv_tiers")?.as_object()?;
        let asked = tiers.get("asked_tokens")?.as_f64().filter(|asked| *asked > 0.0)?;
        let served = tiers
            .values()
            .filter_map(|tier| tier.get("served_tokens")?.as_f64());
        Some((tiers.get("local_tokens")?.as_f64()? + served.sum::<f64>()) / asked)
    }

    /// A figure by its name in CSV, of what the table shows: the steady stretch where there is one. What tokens cost is that of
    /// the run's own object, of the steady stretch also where the other figures are [told](SweepRow::of_whole) of whole runs.
    pub(in crate::report) fn named(&self, key: &str) -> Option<f64> {
        let own = |part: &str| self.run.pointer(&format!("/plimsoll/{part}/{key}"))?.as_f64();
        let state = |key: &str| {
            let key = format!("occupancy/{key}");
            self.stretch()?.pointer(&format!("/{key}"))?.as_f64()
        };
        match key {
            "good_share" => self.good(),
            "output_tok_s_per_user" => self.tokens_per_user(),
            "output_tok_s_per_gpu" => self.tokens_per_gpu(),
            "prefix_cache_hit_rate" => self.hit_rate(),
            "found_anywhere" => self.found_anywhere(),
            "preemptions" | "steps" => self.counted(key),
            "mfu" | "memory_bandwidth" => own("utilisation"),
            "replica_hours" => own("scaling"),
            _ if key.starts_with(BESIDE_CLOSED_FORM) => {
                self.beside_closed_form(key.trim_start_matches(BESIDE_CLOSED_FORM))
            }
            _ if key.starts_with("closed_form_") => self.closed_form(key.trim_start_matches("closed_form_")),
            "usd_per_hour" | "usd_per_million_output_tokens" | "usd_per_million_tokens" => own("cost"),
            "running" | "running_max" | "waiting" | "waiting_max" | "kv_usage" | "kv_usage_max" | "busy" => {
                state(key)
            }
            _ => self.figure(key),
        }
    }

    /// What the books say of a figure.
    fn closed_form(&self, key: &str) -> Option<f64> {
        let told = self.run.pointer("/plimsoll/closed_form")?;
        told.get(key)?.as_f64()
    }

    /// The same as it was simulated, over the stretch that the closed form is of: the steady one where there is one, whatever the other
    /// figures are [told](SweepRow::of_whole) of.
    fn beside_closed_form(&self, key: &str) -> Option<f64> {
        self.closed_form(key)?;
        let own = SweepRow {
            of_whole: false,
            ..self.clone()
        };
        own.figure(key)
    }

    /// A figure by its name as a file has it: shares of the stretch that `shares_of` names, and all else of the whole run.
    pub(super) fn in_file(&self, key: &str) -> Option<f64> {
        match key {
            "good_share" | "prefix_cache_hit_rate" => self.named(key),
            _ => self.named_of_whole(key),
        }
    }

    /// The same over the whole run, as CSV has it, where it can be.
    pub(in crate::report) fn named_of_whole(&self, key: &str) -> Option<f64> {
        let whole = SweepRow {
            of_whole: true,
            ..self.clone()
        };
        whole.named(key)
    }

    /// Output tokens a second that each user gets once they come, by the median; `None` where answers leave whole.
    pub(in crate::report) fn tokens_per_user(&self) -> Option<f64> {
        let gap = self.figure("median_tpot_ms").filter(|gap| *gap > 0.0)?;
        Some(1e3 / gap)
    }

    /// Output tokens a second for each GPU that is rented.
    pub(in crate::report) fn tokens_per_gpu(&self) -> Option<f64> {
        Some(self.figure("output_throughput")? / self.gpus()?)
    }

    /// GPUs that are rented; of replicas that come and go as many as there are on average.
    pub(in crate::report) fn gpus(&self) -> Option<f64> {
        let told = |key: &str| self.run.pointer(&format!("/plimsoll/scenario/{key}"))?.as_f64();
        match self.named("replica_hours") {
            Some(hours) => Some(told("gpus_per_replica")? * hours * 3600.0 / self.number("duration")?),
            None => told("gpus"),
        }
    }

    /// Whether it meets the SLO, if there is one, as `run` judges it.
    pub(in crate::report) fn keeps(&self) -> bool {
        let judged = self.run.pointer("/plimsoll/slo_kept").and_then(Value::as_bool);
        let is_served = !matches!(self.verdict(), "unstable" | "no_answers" | "collapsed");
        let has_share = |asked: f64| is_served && self.good().is_some_and(|good| good >= asked);
        // A run that is too short to be judged goes by its share.
        judged.unwrap_or_else(|| self.attainment.is_none_or(has_share))
    }

    /// Whether anything is promised.
    pub(in crate::report) fn is_promised(&self) -> bool {
        let judged = self.run.pointer("/plimsoll/slo_kept");
        self.attainment.is_some() || judged.is_some_and(Value::is_boolean)
    }

    /// Output tokens per second, least and most by its interval, or by what so few requests tell; the figure itself where neither is.
    pub(in crate::report) fn output(&self) -> Option<(f64, f64, f64)> {
        let value = self.figure("output_throughput")?;
        let by_number = || {
            self.known_by_number()
                .map(|part| (value * (1.0 - part), value * (1.0 + part)))
        };
        let interval = self.interval("output_throughput").or_else(by_number);
        let (low, high) = interval.unwrap_or((value, value));
        Some((value, low, high))
    }

    /// How far the output of a whole run of an open loop, which has no interval, may be off by chance, as a part of it: of so many
    /// requests that come at random with answers that scatter like their mean the tokens in a second have a relative variance of
    /// 2/n. Nor is what one run serves more than another while its last requests drain any more of it for longer. `None` of what is
    /// sent as it is answered or all at once, whose tokens come as fast as they can, and in overload, where they do, too: where fewer than
    /// [`KEEPS_UP`] of the requests in a second are answered in one.
    pub(in crate::report) fn known_by_number(&self) -> Option<f64> {
        let rate = self.number("request_rate")?;
        let is_held = self.run.get("max_concurrency").is_some_and(Value::is_number);
        let is_open = !is_held && self.number("request_throughput")? >= KEEPS_UP * rate;
        let is_short = self.of_whole || matches!(self.verdict(), "too_short" | "finite");
        let completed = self.number("completed").filter(|completed| *completed > 0.0)?;
        let is_told = is_open && is_short && self.verdict() != "unstable";
        let has_interval = self.interval("output_throughput").is_some();
        (is_told && !has_interval).then(|| (Z_95 * (2.0 / completed).sqrt()).min(1.0))
    }

    /// The 95 % interval of a figure as the file has it; `None` of whole runs, because it is one of the steady stretch.
    pub(in crate::report) fn interval(&self, key: &str) -> Option<(f64, f64)> {
        // A median is the percentile 50 there.
        let key = key.replace("median_", "p50_");
        let path = format!("/plimsoll/intervals_95/{key}");
        let ends = self.run.pointer(&path).filter(|_| !self.of_whole)?;
        Some((ends.get(0)?.as_f64()?, ends.get(1)?.as_f64()?))
    }

    /// Whether a limit is set on gaps between tokens, of each request or of all.
    pub(in crate::report) fn limits_gaps(&self) -> bool {
        let names = |of: &str| {
            let limits = self.run.pointer(of).and_then(Value::as_object);
            limits.is_some_and(|limits| limits.keys().any(|name| name.ends_with("itl")))
        };
        names("/plimsoll/goodput_s") || names("/plimsoll/percentile_limits_s")
    }

    /// Whether a conservation law is broken, which is a failure whatever else it says.
    #[must_use]
    pub fn has_violations(&self) -> bool {
        let violations = self.run.pointer("/plimsoll/violations").and_then(Value::as_array);
        violations.is_some_and(|violations| !violations.is_empty())
    }

    pub(in crate::report) fn is_finished(&self) -> bool {
        !self.run.is_null()
    }

    /// Whether the model does not fit there, so that nothing was simulated.
    pub(in crate::report) fn is_misfit(&self) -> bool {
        self.verdict() == "does_not_fit"
    }

    /// Whether it cannot be run for another reason.
    pub(in crate::report) fn is_refused(&self) -> bool {
        self.verdict() == "refused"
    }

    /// Whether there are figures.
    pub(in crate::report) fn is_simulated(&self) -> bool {
        self.is_finished() && !self.is_misfit() && !self.is_refused()
    }

    pub(in crate::report) fn verdict(&self) -> &str {
        if !self.is_finished() {
            return "not_run";
        }
        self.run
            .pointer("/plimsoll/verdict")
            .and_then(Value::as_str)
            .unwrap_or("?")
    }

    /// Whether requests piled up, so that its figures grow with the run's length.
    pub(in crate::report) fn is_unstable(&self) -> bool {
        self.verdict() == "unstable"
    }

    /// Whether load is offered at a rate of its own, and served: what comes out says nothing but what went in.
    pub(in crate::report) fn is_carried(&self) -> bool {
        self.is_open_loop() && self.verdict() == "stable"
    }

    /// Whether load is offered at a rate of its own.
    pub(in crate::report) fn is_open_loop(&self) -> bool {
        let is_held = self.run.get("max_concurrency").is_some_and(Value::is_number);
        !is_held && self.number("request_rate").is_some()
    }

    /// Whether the SLO is missed, as far as that is known.
    pub(in crate::report) fn breaks(&self) -> bool {
        self.is_finished() && self.is_promised() && !self.keeps()
    }

    /// Whether a promise is neither surely kept nor surely broken.
    pub(in crate::report) fn is_open(&self) -> bool {
        let decided = self.run.pointer("/plimsoll/slo_decided").and_then(Value::as_bool);
        decided == Some(false)
    }

    /// The verdict, how many requests were turned away, what ended the run before its traffic did, and whether the SLO
    /// is missed, which overload always does.
    pub(in crate::report) fn state(&self) -> String {
        let broken = match self.breaks() && self.verdict() != "unstable" {
            _ if self.is_open() => match self.verdict() {
                // Whose own figures are well known: only a longer run would tell.
                "stable" | "critical" => ", too short for the SLO",
                _ => ", SLO not decided",
            },
            true => ", misses the SLO",
            false => "",
        };
        let ended_by = match self.run.pointer("/plimsoll/ended_by").and_then(Value::as_str) {
            Some("livelock") => ", ended by a livelock",
            Some("overfull") => ", ended with too many inside",
            Some("clock") => ", ended with the clock",
            _ => "",
        };
        self.fate() + ended_by + broken
    }

    /// The verdict, and how many requests were turned away.
    pub(in crate::report) fn fate(&self) -> String {
        let verdict = self.verdict().replace('_', " ");
        if let (true, Some(why)) = (self.is_refused(), self.run.pointer("/plimsoll/in_short")) {
            return format!("{verdict}: {}", why.as_str().unwrap_or_default());
        }
        let count = |key: &str| self.number(key).unwrap_or(0.0);
        let (failed, completed) = (count("failed"), count("completed"));
        let share = failed / (failed + completed).max(1.0);
        if share >= 0.01 {
            let whole = |key: &str| {
                self.run
                    .pointer(&format!("/plimsoll/whole/{key}"))
                    .and_then(Value::as_f64)
            };
            let fates = [
                ("rejected", "refused"),
                ("timed_out", "given up"),
                ("failed", "failed"),
            ];
            let left = (failed + completed).max(1.0);
            let told = fates.into_iter().filter_map(|(key, fate)| {
                let share = whole(key).filter(|number| *number > 0.0)? / left;
                Some(format!(", {} {fate}", percent(share)))
            });
            verdict + &told.collect::<String>()
        } else {
            verdict
        }
    }
}
