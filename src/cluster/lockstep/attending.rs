//! TensorRT-LLM's ranks in the loop over all of them: who waits before they are shared out, and what a pass launches (TR-9 to TR-15).

use std::collections::VecDeque;

use super::group::{LockStep, vllm};
use super::sharing::{Active, AttentionDp, PutOff, handed_out, share_out};
use crate::cluster::dispatch::tokens_of;
use crate::engine::{AtHand, Engine, Handle, Refusal};
use crate::facts::{Completion, Fact, Observer};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::window::Window;
use crate::workload::Request;

/// What the executors of all ranks know alike.
#[derive(Debug)]
pub(super) struct Attending {
    how: AttentionDp,
    /// Who has reached the server and no rank, with the time of that, in its order.
    waiting: VecDeque<(Picos, Request)>,
    /// Where everybody else is.
    placed: Window<(usize, Handle)>,
    /// Of each rank: tokens of the prompts that are placed there.
    prompt_tokens: Vec<u64>,
    /// When those who wait were last looked at.
    looked: Option<Picos>,
    put_off: PutOff,
}

impl Attending {
    pub(super) fn new(how: AttentionDp, ranks: usize) -> Attending {
        Attending {
            how,
            waiting: VecDeque::new(),
            placed: Window::default(),
            prompt_tokens: vec![0; ranks],
            looked: None,
            put_off: PutOff::default(),
        }
    }

    /// Who has yet to be shared out.
    pub(super) fn unplaced(&self) -> usize {
        self.waiting.len()
    }

    /// When somebody next reaches the server whom no pass has looked at.
    pub(super) fn next_request(&self) -> Option<Picos> {
        let is_seen = |&(entry, _): &(Picos, Request)| self.looked.is_some_and(|looked| entry <= looked);
        let seen = self.waiting.partition_point(is_seen);
        self.waiting.get(seen).map(|&(entry, _)| entry)
    }

    /// Takes in a request that reaches the server at `entry`.
    pub(super) fn take_in(&mut self, entry: Picos, request: &mut Request) {
        self.waiting.push_back((entry, std::mem::take(request)));
    }

    /// Whoever has left is on no rank any more.
    pub(super) fn forget(&mut self, ended: &[Completion]) {
        for completion in ended {
            if let Some((rank, _)) = self.placed.remove(completion.id) {
                self.prompt_tokens[rank] -= u64::from(completion.prompt_tokens);
            }
        }
    }

    /// Ranks have leapt over so many steps.
    pub(super) fn pass_over(&mut self, steps: u64) {
        self.put_off.pass_over(self.how, steps);
    }
}

impl LockStep {
    /// A request reaches the server of TensorRT-LLM at `entry`; which rank gets it is decided there.
    pub(super) fn take_in(&mut self, entry: Picos, request: &mut Request) -> Result<(), Refusal> {
        // All ranks are alike.
        if let Some(refusal) = self.engines[0].refusal(request) {
            return Err(refusal);
        }
        if let Some(attending) = &mut self.attending {
            attending.take_in(entry, request);
        }
        Ok(())
    }

    /// The client of a request that was taken in gave up at `now`.
    pub(crate) fn abort_taken_in<O: Observer>(
        &mut self,
        id: RequestId,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        let attending = self.attending.as_mut()?;
        if let Some((rank, handle)) = attending.placed.remove(id) {
            let completion = self.engines[rank].abort(handle, now, observer)?;
            attending.prompt_tokens[rank] -= u64::from(completion.prompt_tokens);
            return Some(completion);
        }
        let mut waiting = attending.waiting.iter();
        let at = waiting.position(|(_, request)| request.id == id)?;
        let (entry, mut request) = attending.waiting.remove(at)?;
        // The first rank's queue stands for all; whoever was still on the way there leaves nothing behind that would come later.
        let handle = self.place(0, now, entry.min(now), &mut request, observer);
        self.engines[0].abort(handle, now, observer)
    }

    /// A request goes to a rank, in whose queue it counts as having been since it reached the server.
    fn place<O: Observer>(
        &mut self,
        rank: usize,
        now: Picos,
        entry: Picos,
        request: &mut Request,
        observer: &mut O,
    ) -> Handle {
        let id = request.id;
        let handle = self.engines[rank].offer(entry, request);
        observer.observe(&Fact::Sent {
            now,
            replica: ReplicaId(rank as u32),
            id,
            entry,
        });
        handle.expect("whom no rank can take is refused")
    }

    /// Whoever waits is shared out, as far as there are seats (TR-10, TR-11).
    fn share_out<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        let Some(attending) = &mut self.attending else {
            return;
        };
        attending.looked = Some(now);
        let due = attending.waiting.partition_point(|(entry, _)| *entry <= now);
        if due == 0 {
            return;
        }
        let ranks = self.engines.iter().zip(&attending.prompt_tokens);
        let active: Vec<Active> = ranks
            .map(|(engine, &prompt_tokens)| Active {
                requests: engine.inside() as u64,
                prompt_tokens,
            })
            .collect();
        let handed = handed_out(&active, attending.how.max_batch_size, due);
        let mut handed: Vec<(Picos, Request)> = attending.waiting.drain(..handed).collect();
        let prompts: Vec<u32> = handed.iter().map(|(_, request)| request.prompt_tokens).collect();
        for (at, rank) in share_out(&prompts, &active) {
            let (entry, request) = &mut handed[at];
            let (id, tokens) = (request.id, tokens_of(request));
            let handle = self.place(rank, now, *entry, request, observer);
            self.lane.dispatch.sent(rank, id, tokens);
            if let Some(attending) = &mut self.attending {
                attending.placed.insert(id, (rank, handle));
                attending.prompt_tokens[rank] += u64::from(prompts[at]);
            }
        }
    }

    /// Every rank takes in whom it gets at `now`; then all launch, a dummy where nobody is. Nobody launches where somebody is on a rank of
    /// which nobody can compute, since the last tokens of all are being computed (TR-13): that step ends first.
    pub(super) fn launch_attending<O: Observer>(&mut self, now: Picos, observer: &mut O) -> bool {
        self.share_out(now, observer);
        if self.engines.iter().all(|engine| engine.inside() == 0) {
            if self.shares.is_empty() {
                self.is_running = false;
                let attending = self.attending.as_ref();
                self.next_pass = attending.and_then(|all| all.next_request());
            }
            return false;
        }
        let at_hand = |engine: &mut Engine| match engine.inside() {
            0 => AtHand {
                prompts: 0,
                decodes: 1,
            },
            _ => vllm(engine).at_hand(now),
        };
        let at_hand: Vec<AtHand> = self.engines.iter_mut().map(at_hand).collect();
        let attending = self.attending.as_mut();
        let is_put_off = attending.is_some_and(|all| all.put_off.decide(all.how, &at_hand));
        if at_hand.iter().any(|rank| rank.prompts + rank.decodes == 0) {
            assert!(
                !self.shares.is_empty(),
                "whoever can compute nothing waits for a step in flight"
            );
            return false;
        }
        for engine in &mut self.engines {
            let rank = vllm(engine);
            rank.put_prompts_off(is_put_off);
            rank.launch(now, observer);
        }
        true
    }
}
