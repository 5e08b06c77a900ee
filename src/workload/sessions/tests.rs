//! Conversations: each turn repeats what was said, and a turn that fails is the last.

use super::*;
use crate::units::Picos;
use crate::workload::generator::tests::{Fate, answered_after, pieces, seconds, serve, sessions, spec};
use crate::workload::{Arrivals, Lengths, Request};

#[test]
fn a_turn_repeats_everything_said_before() {
    let mut talk = spec(Arrivals::Poisson { request_rate: 0.1 });
    talk.prefix = sessions(3.0, true, 100);
    talk.lengths = Lengths::Fixed {
        input_len: 10,
        output_len: 5,
    };
    talk.num_prompts = Some(3);
    let served = answered_after(&talk, 0, seconds(1.0));
    let [first, second, third] = [&served[0].0, &served[1].0, &served[2].0];
    assert_eq!(
        [110, 125, 140],
        [first.prompt_tokens, second.prompt_tokens, third.prompt_tokens]
    );
    assert_eq!(pieces(second)[..2], *pieces(first));
    assert_eq!(
        pieces(second)[2],
        Piece {
            segment: first.output_segment,
            start: 110,
            tokens: 5
        }
    );
    assert_eq!(pieces(third)[..4], *pieces(second));
    assert_eq!(
        pieces(third)[4],
        Piece {
            segment: second.output_segment,
            start: 125,
            tokens: 5
        }
    );
    let gaps = [second.arrival - served[0].1, third.arrival - served[1].1];
    assert!(
        gaps.iter().all(|gap| *gap > Picos::ZERO),
        "a think time lies before each later turn"
    );
}

#[test]
fn a_conversation_breaks_off_when_a_turn_fails() {
    let mut talk = spec(Arrivals::Constant { request_rate: 0.01 });
    talk.prefix = sessions(5.0, true, 0);
    talk.num_prompts = Some(10);
    let second_fails = |request: &Request| {
        (
            seconds(1.0),
            if request.id == RequestId(1) {
                Fate::Failed
            } else {
                Fate::Answered
            },
        )
    };
    let served = serve(&talk, 0, usize::MAX, second_fails);
    assert_eq!(
        served.len(),
        7,
        "three turns of the first conversation are sent by nobody"
    );
}

#[test]
fn texts_of_a_conversation_do_not_depend_on_the_server() {
    let mut talk = spec(Arrivals::Poisson { request_rate: 2.0 });
    talk.prefix = sessions(4.0, false, 0);
    talk.lengths = Lengths::RandomVllm {
        input_len: 100,
        output_len: 100,
        range_ratio: 0.9,
        output_range_ratio: 0.9,
    };
    let texts = |service: f64| {
        let mut texts: Vec<_> = answered_after(&talk, 3, seconds(service))
            .iter()
            .map(|(request, _)| (request.prompt_tokens, request.output_tokens))
            .collect();
        texts.sort_unstable();
        texts
    };
    assert_eq!(texts(0.1), texts(30.0));
}

#[test]
fn closed_conversations_answer_before_they_open() {
    let mut talk = spec(Arrivals::AllAtOnce);
    talk.client.max_concurrency = Some(3);
    talk.num_prompts = None;
    talk.prefix = sessions(5.0, true, 0);
    let served = serve(&talk, 0, 3000, |_| (seconds(1.0), Fate::Answered));
    let opened = served
        .iter()
        .filter(|(request, _)| pieces(request).len() == 1)
        .count();
    // 3000 requests in five turns each; what is open at the end is about 3·(R + Z)/R = 9 conversations.
    assert!((600..630).contains(&opened), "{opened} conversations were opened");
}
