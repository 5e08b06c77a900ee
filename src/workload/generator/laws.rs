//! What any traffic must obey, whatever it is made of.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::tests::{Fate, seconds, serve, sessions};
use super::*;
use crate::ids::SegmentId;
use crate::workload::{Client, Draws, Endings, Lengths, LognormalLength, MemorylessLength, MmppState};

fn any_arrivals() -> impl Strategy<Value = Arrivals> {
    let rate = || 0.01..1000.0;
    let sojourn = || (0.1..100.0).prop_map(Picos::from_seconds);
    let state = (0.0..100.0, sojourn()).prop_map(|(request_rate, mean_sojourn)| MmppState {
        request_rate,
        mean_sojourn,
    });
    prop_oneof![
        rate().prop_map(|request_rate| Arrivals::Poisson { request_rate }),
        (rate(), 0.05..20.0).prop_map(|(request_rate, burstiness)| Arrivals::Gamma {
            request_rate,
            burstiness
        }),
        rate().prop_map(|request_rate| Arrivals::Constant { request_rate }),
        Just(Arrivals::AllAtOnce),
        (1..50_u32, 0.0..5.0).prop_map(|(users, think)| Arrivals::Users {
            users,
            think_time: seconds(think)
        }),
        (rate(), rate(), any::<bool>()).prop_map(|(start_rate, end_rate, exponential)| Arrivals::Ramp {
            start_rate,
            end_rate,
            exponential
        }),
        prop::collection::vec(state, 1..4).prop_map(|mut states| {
            states[0].request_rate += 0.1;
            Arrivals::Mmpp { states }
        }),
        (sojourn(), prop::collection::vec(0.0..50.0, 1..6), 0.1..5.0).prop_map(
            |(piece, mut rates, burstiness)| {
                rates[0] += 0.1;
                Arrivals::Profile {
                    piece,
                    rates: rates.into(),
                    burstiness,
                }
            }
        ),
    ]
}

fn any_lengths() -> impl Strategy<Value = Lengths> {
    let length = || 1..5000_u32;
    let lognormal = || {
        (1.0..4000.0, 0.0..3.0).prop_map(|(median, sigma)| LognormalLength {
            median,
            sigma,
            max: 8000,
        })
    };
    let quantiles = || {
        prop::collection::vec(0.0..9000.0, 1..12).prop_map(|mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values.into()
        })
    };
    let memoryless = || (1.0..400.0).prop_map(|mean| MemorylessLength::Drawn { mean, max: 8000 });
    prop_oneof![
        (memoryless(), memoryless(), any::<bool>()).prop_map(|(input, output, is_geometric)| {
            Lengths::Memoryless {
                input,
                output,
                is_geometric,
            }
        }),
        (length(), length()).prop_map(|(input_len, output_len)| Lengths::Fixed {
            input_len,
            output_len
        }),
        (length(), length(), 0.0..0.99, 0.0..0.99).prop_map(
            |(input_len, output_len, range_ratio, output_range_ratio)| Lengths::RandomVllm {
                input_len,
                output_len,
                range_ratio,
                output_range_ratio,
            }
        ),
        (length(), length(), 0.0..=1.0).prop_map(|(input_len, output_len, range_ratio)| {
            Lengths::RandomSglang {
                input_len,
                output_len,
                range_ratio,
            }
        }),
        (lognormal(), lognormal(), -0.9..0.9).prop_map(|(input, output, correlation)| Lengths::Lognormal {
            input,
            output,
            correlation
        }),
        (quantiles(), quantiles(), -0.9..0.9).prop_map(|(input, output, correlation)| Lengths::Quantiles {
            input,
            output,
            correlation
        }),
        prop::collection::vec((length(), length()), 1..9)
            .prop_map(|pairs| Lengths::Empirical { pairs: pairs.into() }),
    ]
}

fn any_prefix() -> impl Strategy<Value = Prefix> {
    prop_oneof![
        Just(Prefix::None),
        (1..40_u32, 0..3000_u32, 0.0..2.0, any::<bool>()).prop_map(
            |(count, prefix_len, zipf, exact_shares)| {
                Prefix::Groups {
                    count,
                    prefix_len,
                    zipf,
                    exact_shares,
                }
            }
        ),
        (1..9_u32, any::<bool>(), 0..500_u32).prop_map(|(turns, fixed_turns, system)| sessions(
            f64::from(turns),
            fixed_turns,
            system
        )),
    ]
}

prop_compose! {
    fn any_spec()(
        arrivals in any_arrivals(),
        lengths in any_lengths(),
        prefix in any_prefix(),
        max_concurrency in prop::option::of(1..20_u32),
        rescale_arrivals in any::<bool>(),
        draws in prop_oneof![Just(Draws::Own), Just(Draws::Vllm), Just(Draws::Sglang)],
        timeout in prop::option::of((0.0..9.0).prop_map(Picos::from_seconds)),
        priorities in prop_oneof![Just(vec![]), Just(vec![(0, 1.0), (5, 3.0)])],
        num_prompts in 1..300_u64,
        duration in prop::option::weighted(0.3, (0.0..50.0).prop_map(Picos::from_seconds)),
        endings in prop_oneof![
            Just(None),
            (0.0..=1.0).prop_map(|per_token| Some(Endings::Hazard { per_token })),
            (0.0..=1.0).prop_map(|early| Some(Endings::Share { early })),
        ],
    ) -> WorkloadSpec {
        let client = Client { max_concurrency, rescale_arrivals, draws, timeout, priorities };
        WorkloadSpec { arrivals, lengths, prefix, client, num_prompts: Some(num_prompts), duration, endings, classes: Vec::new() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_traffic_obeys_its_laws(spec in any_spec(), seed in 0..1000_u64, service in 0..8_u64) {
        let service = move |request: &Request| {
            (seconds(0.3 * ((request.id.0 * 7 + service) % 11) as f64), Fate::Answered)
        };
        let served = serve(&spec, seed, usize::MAX, service);
        if spec.duration.is_none() {
            prop_assert_eq!(served.len() as u64, spec.num_prompts.unwrap());
        }
        let mut texts: BTreeSet<SegmentId> = BTreeSet::new();
        let mut before = Picos::ZERO;
        for (index, (request, _)) in served.iter().enumerate() {
            prop_assert_eq!(request.id, RequestId(index as u64));
            prop_assert!(request.arrival >= before, "time went back");
            before = request.arrival;
            prop_assert!(spec.duration.is_none_or(|end| request.arrival < end));
            prop_assert!(request.client_queue_time <= request.arrival);
            prop_assert!(request.prompt_tokens >= 1 && request.output_tokens >= 1);
            prop_assert!(request.output_tokens <= request.max_tokens);
            prop_assert!(texts.insert(request.output_segment), "an answer has a name of its own");
            if let Prompt::Pieces(pieces) = &request.prompt {
                prop_assert!(pieces.iter().all(|piece| piece.tokens > 0));
                prop_assert_eq!(pieces.iter().map(|piece| piece.tokens).sum::<u32>(), request.prompt_tokens);
                prop_assert!(texts.insert(pieces[pieces.len() - 1].segment), "new tokens have a name of their own");
            }
        }
        if let Some(limit) = spec.client.max_concurrency {
            for (request, _) in &served {
                let now = request.arrival;
                let inside = |other: &&(Request, Picos)| other.0.arrival <= now && other.1 > now;
                prop_assert!(served.iter().filter(inside).count() <= limit as usize);
            }
        }
        prop_assert_eq!(served, serve(&spec, seed, usize::MAX, service));
    }
}
