//! What limits the knee, in one sentence: what breaks first above it, why, and which resource is pressed the hardest there.

use super::figures::{percent, significant, significant_down, time};
use super::views::ClassPromise;
use super::words::EngineWords;
use crate::analysis::knee::{Binding, Knee, Limiter, Lost, Point, Pressure, Statistic};
use crate::config::slo::LIMITS_IN_MS;
use crate::metrics::{Metric, Stage};

/// The pressure at the highest rate not above the knee.
fn pressure_at_knee(knee: &Knee) -> Option<Pressure> {
    let rate = knee.within_slo?.value;
    knee.up_to(rate).find_map(|point| point.pressure)
}

/// What binds first, why, and which resource is pressed the hardest.
pub(super) fn limited_by(
    knee: &Knee,
    classes: &[ClassPromise],
    varies: bool,
    words: EngineWords,
    pools: &[(String, EngineWords)],
) -> Option<String> {
    if knee.client.is_some_and(|client| client.is_within) {
        return Some(clients(knee));
    }
    if knee.within_slo.is_none() {
        return out_of_reach(knee, classes, varies);
    }
    let pool = pressure_at_knee(knee).and_then(|pressure| pools.get(pressure.pool?));
    let words = pool.map_or(words, |(_, words)| *words);
    let of_pool = pool.map(|(name, _)| name.as_str());
    // What presses ranks that step together is not told: then the promise alone says what breaks.
    let pressed = knee.limiter.zip(pressure_at_knee(knee));
    let first = first_to_break(knee, classes, varies, words, pressed);
    let Some(pressed) = pressed else {
        return Some(first);
    };
    Some(format!("{first}. {}", told_pressed(pressed, words, of_pool)))
}

/// The promise that breaks first beyond the knee, which has its figure `at` a load, why it does, and what is pressed the hardest there.
pub(super) fn breaks(
    (binding, at): (&Binding, &str),
    classes: &[ClassPromise],
    pressed: Option<(Limiter, Pressure)>,
    words: EngineWords,
    pool: Option<&str>,
) -> String {
    let over = binding.class.map_or("", |_| " over the whole run");
    let why = pressed.map(|(limiter, pressure)| why_late(binding, limiter, &pressure, words));
    let first = binds(binding, classes, &format!("{over}{at}"), why.as_deref());
    match pressed {
        Some(pressed) => format!("{first}. {}", told_pressed(pressed, words, pool)),
        None => first,
    }
}

/// `Hardest pressed is the host (host 41 % of step time, …)`: the resource that limits, of a pool where there are several, and the shares
/// of all.
fn told_pressed((limiter, pressure): (Limiter, Pressure), words: EngineWords, pool: Option<&str>) -> String {
    let of_pool = pool.map_or(String::new(), |name| format!(" of {name}"));
    if let Some(used) = pressure.links {
        let links = resource(limiter, words);
        return format!(
            "Hardest pressed are {links} ({} of their bandwidth used)",
            percent(used)
        );
    }
    // A pool that is half full presses nobody: its share is no share of a step's time, and is told apart from those.
    let pool = format!("{} {} at most", words.pool_share, percent(pressure.kv_blocks));
    let step = format!(
        "compute {} of roof, bandwidth {}, host {} of step time",
        percent(pressure.compute),
        percent(pressure.bandwidth),
        percent(pressure.host)
    );
    let shares = match limiter {
        Limiter::KvBlocks => format!("{pool}; of a step {step}"),
        Limiter::FrontEnd => {
            let more = words.more_api_servers;
            let more = more.map_or(String::new(), |flag| format!(", which {flag} shares out"));
            format!(
                "{} of its time{more}; of a step {step}",
                percent(pressure.front_end.min(1.0))
            )
        }
        Limiter::Loads => format!(
            "{} of step time; {step}; not full: {pool}",
            percent(pressure.loads)
        ),
        Limiter::PrefillCompute if pressure.compute < pressure.bandwidth.max(pressure.host) => {
            format!("in steps that prompts fill; of all steps {step}; not full: {pool}")
        }
        _ => format!("{step}; not full: {pool}"),
    };
    format!(
        "Hardest pressed is {}{of_pool} ({shares})",
        resource(limiter, words)
    )
}

/// What breaks first above a knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum First {
    /// The client holds requests back, and the server's knee was not seen.
    Client,
    /// The highest rate allowed is kept.
    Nothing,
    /// Requests that nobody answers.
    LostRequests,
    /// A promise.
    Promise(Metric, Statistic),
    /// The queue, before any promise does.
    Saturation,
}

impl First {
    /// Of a search.
    #[must_use]
    pub fn of(knee: &Knee) -> First {
        let lowest = || knee.points.iter().find(|point| !point.is_blind())?.binding;
        let of_none = || knee.within_slo.is_none().then(lowest).flatten();
        let highest_is_within = knee.points.last().is_some_and(Point::is_within);
        match knee.binding.or_else(of_none) {
            _ if knee.client.is_some_and(|client| client.is_within) => First::Client,
            _ if highest_is_within => First::Nothing,
            _ if knee.loss.is_some() => First::LostRequests,
            Some(binding) => First::Promise(binding.metric, binding.statistic),
            None => First::Saturation,
        }
    }

    /// In a word or two: `p99 TTFT`.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            First::Client => "the client".to_owned(),
            First::Nothing => "nothing yet".to_owned(),
            First::LostRequests => "lost requests".to_owned(),
            First::Promise(metric, of) => format!("{} {}", statistic(of), metric.name().to_uppercase()),
            First::Saturation => "saturation".to_owned(),
        }
    }

    /// As files spell it: `p99_ttft`.
    #[must_use]
    pub fn code(self) -> String {
        match self {
            First::Client => "client".to_owned(),
            First::Nothing => "nothing".to_owned(),
            First::LostRequests => "lost_requests".to_owned(),
            First::Promise(metric, of) => format!("{}_{}", statistic(of), metric.name()),
            First::Saturation => "saturation".to_owned(),
        }
    }
}

/// The resource that is pressed the hardest at the knee, as files spell it; `None` where no rate meets the SLO, and where what presses
/// is not told.
pub(super) fn hardest_pressed(knee: &Knee) -> Option<&'static str> {
    if knee.client.is_some_and(|client| client.is_within) {
        return None;
    }
    pressure_at_knee(knee)?;
    knee.limiter.map(limiter_code)
}

/// A resource, as files spell it.
#[must_use]
pub fn limiter_code(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::PrefillCompute => "compute",
        Limiter::HbmBandwidth => "memory_bandwidth",
        Limiter::KvBlocks => "kv_blocks",
        Limiter::MaxNumSeqs => "max_num_seqs",
        Limiter::TokenBudget => "max_num_batched_tokens",
        Limiter::Host => "host",
        Limiter::Loads => "kv_loads",
        Limiter::FrontEnd => "front_end",
        Limiter::KvLinks => "kv_links",
    }
}

/// The client as the limit, with what it leaves to the server.
fn clients(knee: &Knee) -> String {
    let over = knee.points.iter().find(|point| !point.keeps_up());
    let waits = over.and_then(|over| Some((over.rate, over.client_queue_s?)));
    let waits = waits.map_or(String::new(), |(rate, (mean_s, _))| {
        format!(
            ": at {} req/s a request waits {} at its client on average, and in no latency, for one before it to be answered, while \
             hardly any wait in the server",
            significant(rate),
            time(mean_s)
        )
    });
    format!("the client, not the server{waits}. A larger --max-concurrency, or none, shows the server's knee")
}

/// What breaks first above the knee: requests that are lost, a promise, or the queue itself.
fn first_to_break(
    knee: &Knee,
    classes: &[ClassPromise],
    varies: bool,
    words: EngineWords,
    pressed: Option<(Limiter, Pressure)>,
) -> String {
    if let Some(highest) = knee.points.last().filter(|point| point.is_within()) {
        let rate = significant_down(highest.rate);
        return format!("nothing up to {rate} req/s, the highest rate tried");
    }
    if let Some(loss) = knee.loss {
        return lost(loss, classes);
    }
    let Some(binding) = knee.binding else {
        let what = match varies {
            true => "what is served falls behind",
            false => "the backlog grows",
        };
        let busy = pressed.map_or(String::new(), |(_, pressure)| {
            format!(" (the engine is busy {} of the time)", percent(pressure.busy))
        });
        return format!("saturation: {what} before any SLO is seen to be missed{busy}");
    };
    // Of a class only the whole run's latencies are kept, ramp and drain in them.
    let over = binding.class.map_or("", |_| " over the whole run");
    let at = rate_of(knee, &binding).map_or(String::new(), |rate| {
        format!("{over} at {} req/s", significant_down(rate))
    });
    let why = pressed.map(|(limiter, pressure)| why_late(&binding, limiter, &pressure, words));
    binds(&binding, classes, &at, why.as_deref())
}

/// Why no rate meets the SLO, as the lowest rate has it.
fn out_of_reach(knee: &Knee, classes: &[ClassPromise], varies: bool) -> Option<String> {
    let known = knee.points.iter().find(|point| !point.is_blind());
    let lowest = known.or(knee.points.first())?;
    if let Some((_, what)) = knee
        .loss
        .filter(|&(rate, what)| rate == lowest.rate && what.unanswered() > 0.0)
    {
        return Some(lost((lowest.rate, what), classes));
    }
    let Some(binding) = lowest.binding else {
        let rate = significant(lowest.rate);
        return (!lowest.has_steady_state())
            .then(|| format!("saturation: the backlog grows at {rate} req/s, the lowest rate tried"));
    };
    let figure = format!(
        "{} {}{} of {} against a limit of {}",
        binding.metric.name().to_uppercase(),
        statistic(binding.statistic),
        of_class(&binding, classes),
        time(binding.value_s),
        time(binding.limit_s)
    );
    Some(if lowest.is_hopeless() {
        format!(
            "the requests themselves: {figure} at {} req/s, where {}, and no lower rate meets the SLO. {LIMITS_IN_MS}",
            significant(lowest.rate),
            if lowest.is_alone() && varies {
                "they hardly ever meet others than those sent with them"
            } else if lowest.is_alone() {
                "they hardly ever meet"
            } else {
                "too many would miss it alone in the server"
            }
        )
    } else {
        format!(
            "{figure} at {} req/s, the lowest rate {}",
            significant(lowest.rate),
            if lowest.rate > knee.points[0].rate {
                "that tells"
            } else {
                "tried"
            }
        )
    })
}

/// Requests without an answer as the reason why a rate is not kept up with.
fn lost((rate, lost): (f64, Lost), classes: &[ClassPromise]) -> String {
    let class = lost.class.and_then(|class| classes.get(class));
    let of = class.map_or(String::new(), |class| format!(" of class {}", class.name));
    let ways = [
        (lost.refused, "refused by the server"),
        (lost.too_long, "with prompts longer than the server takes"),
        (lost.given_up, "given up by their clients"),
        (lost.failed, "lost with the replica they were on"),
    ];
    let named = ways.iter().filter(|(share, _)| *share > 0.0);
    let named: Vec<String> = named
        .map(|(share, how)| format!("{}{of} {how}", percent(*share)))
        .collect();
    format!(
        "requests without an answer, which are not good ({} at {} req/s); those served wait less because of them",
        named.join(", "),
        significant(rate)
    )
}

/// The rate whose run has this binding.
fn rate_of(knee: &Knee, binding: &Binding) -> Option<f64> {
    let of = |point: &&Point| point.binding.as_ref() == Some(binding);
    knee.points.iter().rev().find(of).map(|point| point.rate)
}

fn statistic(statistic: Statistic) -> String {
    match statistic {
        Statistic::Mean => "mean".to_owned(),
        Statistic::Quantile(p) => format!("p{}", (p * 1e6).round() / 1e4),
    }
}

/// The promise that breaks first, and what its latency is spent on.
fn binds(binding: &Binding, classes: &[ClassPromise], at: &str, why: Option<&str>) -> String {
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    let how = match binding.used() > 1.0 {
        true => "is beyond its limit first",
        false => "reaches its limit first",
    };
    format!(
        "{} {}{}, which {how} ({} of {}{at}){why}",
        binding.metric.name().to_uppercase(),
        statistic(binding.statistic),
        of_class(binding, classes),
        time(binding.value_s),
        time(binding.limit_s)
    )
}

/// ` of class chat`; nothing where a promise is to all.
fn of_class(binding: &Binding, classes: &[ClassPromise]) -> String {
    let class = binding.class.and_then(|class| classes.get(class));
    class.map_or(String::new(), |class| format!(" of class {}", class.name))
}

/// What the latency of a promise that breaks is spent on.
fn why_late(binding: &Binding, limiter: Limiter, pressure: &Pressure, words: EngineWords) -> String {
    let held = match pressure.batch {
        0.0 => "its steps hold pieces of prompts alone".to_owned(),
        batch => format!(
            "a step decodes {} sequences on average, {} of the steps carry pieces of prompts too",
            significant(batch),
            percent(pressure.mixed)
        ),
    };
    let steps = format!(
        "{held}, and the engine is busy {} of the time",
        percent(pressure.busy)
    );
    let spent = binding.stages.map(spent);
    match (limiter, binding.queue) {
        (Limiter::KvLinks, _) => {
            spent.unwrap_or_else(|| "KV takes its time from prefill to decode".to_owned())
        }
        (Limiter::KvBlocks, _) if pressure.preemptions > 0.001 => words.preempted.to_owned(),
        (Limiter::KvBlocks, _) => format!("requests wait for room in {}", words.pool),
        (Limiter::MaxNumSeqs, _) => format!("requests wait for a place among {}", words.running),
        (Limiter::TokenBudget, _) => format!("prompts wait for room in {}", words.prompt_tokens),
        (Limiter::FrontEnd, Some(queue)) if binding.metric == Metric::Ttft => format!(
            "{} of it is the wait for a first step, in the API server and behind it; {steps}",
            percent(queue)
        ),
        _ if spent.is_some() => format!("{}; {steps}", spent.unwrap_or_default()),
        (_, Some(queue)) if binding.metric == Metric::Ttft => format!(
            "{} of it is the wait for a first step, the rest the prompt's own steps; {steps}",
            percent(queue)
        ),
        _ => steps,
    }
}

/// What the first token waits for between prefill and decode, the largest share first.
fn spent(stages: [f64; 7]) -> String {
    let share = |of: &[Stage]| of.iter().map(|stage| stages[*stage as usize]).sum::<f64>();
    let mut parts = [
        (share(&[Stage::PrefillQueue]), "the wait for a prefill"),
        (share(&[Stage::Prefill]), "the prompt's own steps"),
        (share(&[Stage::Transfer]), "the KV's transfer and the wait for it"),
        (
            share(&[Stage::DecodeMemory, Stage::DecodePlace, Stage::DecodeStep]),
            "the decode replica's queue, place and first step",
        ),
        (share(&[Stage::Forward]), "the way between the two"),
        (
            1.0 - stages.iter().sum::<f64>(),
            "the token's way out of the engine",
        ),
    ];
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named = parts.iter().filter(|(share, _)| *share >= 5e-3);
    let named: Vec<String> = named
        .map(|(share, what)| format!("{} is {what}", percent(*share)))
        .collect();
    format!("of the mean TTFT {}", named.join(", "))
}

/// A resource in words, by the names that the engine has for its limits.
#[must_use]
pub fn resource(limiter: Limiter, words: EngineWords) -> &'static str {
    match limiter {
        Limiter::PrefillCompute => "compute",
        Limiter::HbmBandwidth => "memory bandwidth",
        Limiter::KvBlocks => words.pool,
        Limiter::MaxNumSeqs => words.running,
        Limiter::TokenBudget => words.prompt_tokens,
        Limiter::Host => "the host",
        Limiter::Loads => "the loading of KV from outside the GPU",
        Limiter::FrontEnd => {
            "the API server, which takes requests in and hands tokens on one after the other"
        }
        Limiter::KvLinks => "the KV links",
    }
}

#[cfg(test)]
pub(super) mod tests;
