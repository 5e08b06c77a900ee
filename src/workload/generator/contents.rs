//! What is asked and answered, apart from what prompts share.

use std::hint::cold_path;
use std::sync::Arc;

use crate::ids::RequestId;
use crate::units::Picos;
use crate::workload::bench::{BenchLengths, BenchRun};
use crate::workload::classes::Classes;
use crate::workload::endings::EndingSampler;
use crate::workload::lengths::LengthSampler;
use crate::workload::request::{Prompt, Request};
use crate::workload::segments;
use crate::workload::{Arrivals, WorkloadSpec};

/// What is asked and answered.
#[derive(Debug)]
pub(super) struct Contents {
    texts: Texts,
    classes: Option<Classes>,
    pub(super) endings: Option<EndingSampler>,
}

#[derive(Debug)]
enum Texts {
    Drawn(Box<LengthSampler>),
    Bench(Box<BenchLengths>),
    Given(Arc<[Request]>),
}

impl Contents {
    pub(super) fn new(spec: &WorkloadSpec, seed: u64) -> Contents {
        let of_bench = BenchRun::of(spec, seed).and_then(|run| run.lengths());
        let texts = match (&spec.arrivals, of_bench) {
            (Arrivals::Replay { requests, .. }, _) => Texts::Given(requests.clone()),
            (_, Some(lengths)) => Texts::Bench(Box::new(lengths)),
            _ => Texts::Drawn(Box::new(LengthSampler::new(&spec.lengths, seed))),
        };
        Contents {
            texts,
            classes: Classes::new(&spec.classes, seed),
            endings: spec.endings.map(|endings| EndingSampler::new(endings, seed)),
        }
    }

    /// The next (prompt, output, max) tokens.
    #[inline(always)]
    pub(super) fn draw(&mut self) -> (u32, u32, u32) {
        let (prompt_tokens, max_tokens) = match &mut self.texts {
            Texts::Drawn(lengths) => lengths.draw(),
            Texts::Bench(lengths) => lengths.draw(),
            Texts::Given(_) => unreachable!("a replayed trace brings its own lengths"),
        };
        (
            prompt_tokens,
            self.end(max_tokens).unwrap_or(max_tokens),
            max_tokens,
        )
    }

    #[inline]
    fn end(&mut self, max_tokens: u32) -> Option<u32> {
        self.endings.as_mut().map(|endings| endings.draw(max_tokens))
    }

    /// Request `id` as far as it does not depend on when it is sent.
    #[inline(always)]
    pub(super) fn request(&mut self, id: RequestId) -> Request {
        if let Texts::Given(requests) = &self.texts {
            cold_path();
            let mut request = requests[id.0 as usize].clone();
            request.id = id;
            request.output_tokens = self.end(request.max_tokens).unwrap_or(request.output_tokens);
            return request;
        }
        let Some(classes) = &mut self.classes else {
            let (prompt_tokens, output_tokens, max_tokens) = self.draw();
            return request(id, prompt_tokens, output_tokens, max_tokens);
        };
        let (class, priority) = classes.draw();
        let (prompt_tokens, max_tokens) = classes.lengths(class);
        let output_tokens = self.end(max_tokens).unwrap_or(max_tokens);
        Request {
            class,
            priority,
            ..request(id, prompt_tokens, output_tokens, max_tokens)
        }
    }
}

/// A request that stands alone.
pub(super) fn request(id: RequestId, prompt_tokens: u32, output_tokens: u32, max_tokens: u32) -> Request {
    Request {
        id,
        arrival: Picos::ZERO,
        client_queue_time: Picos::ZERO,
        prompt_tokens,
        output_tokens,
        max_tokens,
        priority: 0,
        prompt: Prompt::Unique,
        output_segment: segments::output(id),
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    }
}
