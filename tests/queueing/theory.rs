//! Closed forms that a simulation must reproduce.
//!
//! Rates are per second, times in seconds; anything consistent works. A queue at or above saturation has no steady
//! state and gives `None`.

/// A queue's means: numbers inside and times spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Queue {
    /// Utilisation ρ of a server.
    pub(crate) utilisation: f64,
    /// Mean wait before service.
    pub(crate) wait: f64,
    /// Mean time in the system.
    pub(crate) sojourn: f64,
    /// Mean number waiting.
    pub(crate) waiting: f64,
    /// Mean number in the system.
    pub(crate) inside: f64,
}

/// M/G/1 (Pollaczek–Khinchine): `Wq = ρ(1 + c²)S / (2(1 − ρ))`, `scv` the squared coefficient of variation c² of
/// service times.
pub(crate) fn m_g_1(rate: f64, service: f64, scv: f64) -> Option<Queue> {
    let load = rate * service;
    let wait = load * (1.0 + scv) * service / (2.0 * (1.0 - load));
    (load < 1.0).then(|| queue(rate, load, wait, service))
}

/// M/M/1: exponential service.
pub(crate) fn m_m_1(rate: f64, service: f64) -> Option<Queue> {
    m_g_1(rate, service, 1.0)
}

/// M/D/1: constant service.
pub(crate) fn m_d_1(rate: f64, service: f64) -> Option<Queue> {
    m_g_1(rate, service, 0.0)
}

/// The `p`-quantile of the time in an M/M/1 system: `−ln(1 − p)/(μ − λ)`.
pub(crate) fn m_m_1_sojourn_quantile(rate: f64, service: f64, p: f64) -> Option<f64> {
    (rate * service < 1.0).then(|| -(1.0 - p).ln() / (1.0 / service - rate))
}

/// G/G/1, Kingman's approximation of the mean wait in heavy traffic, with squared coefficients of variation of gaps and
/// services. Gamma gaps of burstiness κ have `1/κ`. It is no bound: bursty gaps wait longer at light load. A bound puts
/// `gap_scv/ρ²` for `gap_scv`.
pub(crate) fn kingman_wait(rate: f64, service: f64, gap_scv: f64, service_scv: f64) -> Option<f64> {
    let load = rate * service;
    (load < 1.0).then(|| load / (1.0 - load) * (gap_scv + service_scv) / 2.0 * service)
}

/// Erlang's loss formula: the share of arrivals that find all `servers` busy and go away, `offered = λ/μ`.
pub(crate) fn erlang_b(servers: u32, offered: f64) -> f64 {
    (1..=servers).fold(1.0, |blocked, j| {
        offered * blocked / (f64::from(j) + offered * blocked)
    })
}

/// Erlang's delay formula: the share of arrivals that wait in M/M/c.
pub(crate) fn erlang_c(servers: u32, offered: f64) -> Option<f64> {
    let load = offered / f64::from(servers);
    let blocked = erlang_b(servers, offered);
    (load < 1.0).then(|| blocked / (1.0 - load * (1.0 - blocked)))
}

/// M/M/c.
pub(crate) fn m_m_c(rate: f64, service: f64, servers: u32) -> Option<Queue> {
    let waits = erlang_c(servers, rate * service)?;
    let wait = waits / (f64::from(servers) / service - rate);
    Some(queue(rate, rate * service / f64::from(servers), wait, service))
}

/// M/G/1 processor sharing: a job of size `service` takes `service/(1 − ρ)`, whatever the law of sizes. A decode
/// engine whose step time is proportional to its batch is one.
pub(crate) fn processor_sharing(rate: f64, service: f64) -> Option<Queue> {
    let load = rate * service;
    (load < 1.0).then(|| queue(rate, load, service / (1.0 - load) - service, service))
}

fn queue(rate: f64, utilisation: f64, wait: f64, service: f64) -> Queue {
    let sojourn = wait + service;
    Queue {
        utilisation,
        wait,
        sojourn,
        waiting: rate * wait,
        inside: rate * sojourn,
    }
}

/// A closed network's means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClosedNetwork {
    /// Completions per second.
    pub(crate) throughput: f64,
    /// Mean time from leaving to entering the thinking state.
    pub(crate) response: f64,
}

/// A closed network of single-server queues with service `demands` and a think time, `customers` inside: exact
/// mean value analysis (Reiser and Lavenberg 1980).
pub(crate) fn mean_value_analysis(demands: &[f64], think: f64, customers: u32) -> ClosedNetwork {
    let mut queued = vec![0.0; demands.len()];
    let mut network = ClosedNetwork {
        throughput: 0.0,
        response: 0.0,
    };
    for n in 1..=customers {
        let times: Vec<f64> = demands
            .iter()
            .zip(&queued)
            .map(|(demand, queue)| demand * (1.0 + queue))
            .collect();
        let response: f64 = times.iter().sum();
        let throughput = f64::from(n) / (think + response);
        queued = times.iter().map(|time| throughput * time).collect();
        network = ClosedNetwork { throughput, response };
    }
    network
}

/// The asymptotic bounds of a closed network: most throughput, least response.
pub(crate) fn closed_bounds(demands: &[f64], think: f64, customers: u32) -> ClosedNetwork {
    let (total, largest) = demands
        .iter()
        .fold((0.0, 0.0f64), |(sum, max), &d| (sum + d, max.max(d)));
    let n = f64::from(customers);
    ClosedNetwork {
        throughput: (n / (total + think)).min(1.0 / largest),
        response: total.max(n * largest - think),
    }
}

/// The customers at which a closed network's asymptotes cross, `(D + Z)/D_max`.
pub(crate) fn asymptote_crossing(demands: &[f64], think: f64) -> f64 {
    let (total, largest) = demands
        .iter()
        .fold((0.0, 0.0f64), |(sum, max), &d| (sum + d, max.max(d)));
    (total + think) / largest
}

/// A continuous-batching engine with an affine step time and no cap on its batch, as a fluid: a step of `b`
/// sequences takes `base + per_sequence·b`, and prompts add `per_prompt_token` each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AffineDecode {
    /// Step time at an empty batch, a.
    pub(crate) base: f64,
    /// Step time for each sequence, c.
    pub(crate) per_sequence: f64,
    /// Decode steps of a request, n.
    pub(crate) decode_steps: f64,
    /// Prompt tokens of a request, m.
    pub(crate) prompt_tokens: f64,
    /// Time for each prompt token, p.
    pub(crate) per_prompt_token: f64,
}

impl AffineDecode {
    /// Engine time that a request adds, `n·c + m·p`: its reciprocal is the saturation rate.
    pub(crate) fn demand(&self) -> f64 {
        self.decode_steps * self.per_sequence + self.prompt_tokens * self.per_prompt_token
    }

    /// Time per output token at a rate: `a/(1 − λ(nc + mp))`.
    pub(crate) fn tpot(&self, rate: f64) -> Option<f64> {
        let load = rate * self.demand();
        (load < 1.0).then(|| self.base / (1.0 - load))
    }

    /// Mean batch at a rate: `λ·n·TPOT`.
    pub(crate) fn batch(&self, rate: f64) -> Option<f64> {
        self.tpot(rate).map(|tpot| rate * self.decode_steps * tpot)
    }

    /// Saturation rate with at most `cap` sequences: `b/(n(a + c·b) + b·m·p)`.
    pub(crate) fn saturation_with_cap(&self, cap: f64) -> f64 {
        let decoding = self.decode_steps * (self.base + self.per_sequence * cap);
        cap / (decoding + cap * self.prompt_tokens * self.per_prompt_token)
    }
}

fn close(got: Option<f64>, expected: f64, relative: f64) {
    let got = got.expect("below saturation");
    assert!(
        (got - expected).abs() <= relative * expected,
        "{got} instead of {expected}"
    );
}

#[test]
fn single_servers_match_the_textbook() {
    for (load, sojourn, waiting, constant) in
        [(0.5, 2.0, 0.5, 0.5), (0.8, 5.0, 3.2, 2.0), (0.9, 10.0, 8.1, 4.5)]
    {
        close(m_m_1(load, 1.0).map(|q| q.sojourn), sojourn, 1e-12);
        close(m_m_1(load, 1.0).map(|q| q.waiting), waiting, 1e-12);
        close(m_d_1(load, 1.0).map(|q| q.wait), constant, 1e-12);
    }
    for (scv, wait) in [(0.25, 2.5), (2.0, 6.0), (4.0, 10.0)] {
        close(m_g_1(0.8, 1.0, scv).map(|q| q.wait), wait, 1e-12);
    }
    for (p, sojourn) in [(0.5, 3.466), (0.9, 11.51), (0.95, 14.98), (0.99, 23.03)] {
        close(m_m_1_sojourn_quantile(0.8, 1.0, p), sojourn, 1e-3);
    }
    assert_eq!(m_m_1(1.0, 1.0), None);
    close(kingman_wait(0.8, 1.0, 1.0, 1.0), 4.0, 1e-12);
    close(processor_sharing(0.8, 1.0).map(|q| q.sojourn), 5.0, 1e-12);
}

#[test]
fn many_servers_match_erlangs_tables() {
    for (servers, offered, b, c, wait) in [
        (2, 1.5, 0.310_345, 0.642_857, 1.285_714),
        (4, 3.0, 0.206_107, 0.509_434, 0.509_434),
        (10, 8.0, 0.121_661, 0.409_180, 0.204_590),
        (16, 14.0, 0.114_507, 0.508_482, 0.254_241),
        (64, 56.0, 0.033_125_7, 0.215_123, 0.026_890_4),
    ] {
        close(Some(erlang_b(servers, offered)), b, 1e-5);
        close(erlang_c(servers, offered), c, 1e-5);
        close(m_m_c(offered, 1.0, servers).map(|q| q.wait), wait, 1e-5);
    }
}

#[test]
fn the_affine_engine_matches_its_table() {
    let engine = |m: f64| AffineDecode {
        base: 6.0,
        per_sequence: 0.030,
        decode_steps: 200.0,
        prompt_tokens: m,
        per_prompt_token: 0.016,
    };
    // In milliseconds: a rate of 5 per second is 0.005 per millisecond.
    for (rate, m, tpot, batch) in [
        (5.0, 0.0, 6.186, 6.19),
        (20.0, 0.0, 6.818, 27.3),
        (50.0, 0.0, 8.571, 85.7),
        (100.0, 0.0, 15.0, 300.0),
        (20.0, 1024.0, 10.863, 43.45),
    ] {
        close(engine(m).tpot(rate / 1000.0), tpot, 1e-3);
        close(engine(m).batch(rate / 1000.0), batch, 2e-3);
    }
    assert_eq!(engine(0.0).tpot(0.2), None);
    close(
        Some(engine(0.0).saturation_with_cap(1e9)),
        1.0 / engine(0.0).demand(),
        1e-6,
    );
}

#[test]
fn a_closed_loop_keeps_its_population_and_its_bounds() {
    let demands = [0.4, 0.1];
    for customers in [1, 3, 10, 40] {
        let exact = mean_value_analysis(&demands, 2.0, customers);
        let bounds = closed_bounds(&demands, 2.0, customers);
        close(
            Some(exact.throughput * (exact.response + 2.0)),
            f64::from(customers),
            1e-12,
        );
        assert!(exact.throughput <= bounds.throughput * (1.0 + 1e-12));
        assert!(exact.response >= bounds.response * (1.0 - 1e-12));
    }
    // Two balanced exponential stations: X(N) = N/(N + 1)/D.
    close(
        Some(mean_value_analysis(&[1.0, 1.0], 0.0, 5).throughput),
        5.0 / 6.0,
        1e-12,
    );
    close(Some(asymptote_crossing(&demands, 2.0)), 6.25, 1e-12);
}
