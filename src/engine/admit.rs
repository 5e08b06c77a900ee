//! Part B of `schedule()`: whoever waits is admitted, the head of the line first (V1-17 to V1-21).
//!
//! Sequences whose KV has come from outside go before the waiting queue (V1-3); under the priority policy the one of
//! the two heads that ranks first.

use std::hint::cold_path;

use super::Handle;
use super::budget::Budget;
use super::external::{Arrived, Offer};
use super::replica::Replica;
use super::sequence::Phase;
use super::step::Step;
use super::waiting::Rank;
use super::{EngineConfig, Policy};
use crate::facts::{Fact, Observer};
use crate::kv::{Match, Taken};
use crate::units::Picos;
use crate::workload::Prompt;

/// Whose turn it is.
#[derive(Clone, Copy)]
enum Head {
    /// Somebody whose KV has come.
    Arrived(Arrived),
    /// The head of the waiting queue.
    Waiting(Handle),
}

/// What became of the head of the line.
enum Turn {
    /// It was admitted, or began to load.
    Done,
    /// It is passed over in this step.
    SetAside,
    /// Nobody behind it is looked at; `true` if that stays so until something is freed.
    Stop(bool),
}

impl Replica {
    /// Admits who waits with what is left of the budget.
    #[inline(always)]
    pub(super) fn admit<O: Observer>(
        &mut self,
        step: &mut Step,
        budget: &mut Budget,
        now: Picos,
        observer: &mut O,
    ) {
        self.admission_closed = self.nobody_waits();
        self.admission_needs = u32::MAX;
        if !self.preempted.is_empty() {
            return;
        }
        let mut nobody_aside = true;
        while budget.has_room()
            && let Some(head) = self.head()
        {
            if self.sequences.running >= self.config.max_num_seqs {
                self.admission_closed = true;
                break;
            }
            let turn = match head {
                Head::Arrived(arrived) => {
                    cold_path();
                    self.admit_arrived(arrived, step, budget, now, observer)
                }
                Head::Waiting(handle) => self.admit_head(handle, step, budget, now, observer),
            };
            match (turn, head) {
                (Turn::Done, _) => {}
                (Turn::SetAside, head) => {
                    cold_path();
                    nobody_aside = false;
                    match head {
                        Head::Arrived(_) => self.set_arrived_aside(),
                        Head::Waiting(_) => self.set_aside.extend(self.waiting.pop()),
                    }
                }
                (Turn::Stop(closed), _) => {
                    self.admission_closed = closed && nobody_aside;
                    break;
                }
            }
        }
        if nobody_aside {
            self.admission_closed |= self.nobody_waits();
        } else {
            cold_path();
            self.put_back();
        }
    }

    /// Those who were passed over in this step wait on.
    fn put_back(&mut self) {
        self.put_back_arrived();
        // 0.11 sets aside who comes new (VS-6), and turns their order round; 0.33 in a pipeline who is not ready to come back.
        if self.stages.is_some() && self.config.switches.stale_output_drains {
            self.set_aside.reverse();
        }
        for handle in self.set_aside.drain(..) {
            self.waiting
                .push_front(handle, &self.sequences[handle.slot].request);
        }
    }

    /// Whose turn it is: somebody whose KV has come, or else the head of the waiting queue.
    #[inline]
    fn head(&self) -> Option<Head> {
        let waiting = self.waiting.head();
        match &self.external {
            None => waiting.map(Head::Waiting),
            Some(external) => {
                cold_path();
                match external.first_ready() {
                    None => waiting.map(Head::Waiting),
                    Some((rank, &arrived)) => Some(self.first_of_two(waiting, rank, arrived)),
                }
            }
        }
    }

    fn first_of_two(&self, waiting: Option<Handle>, rank: &Rank, arrived: Arrived) -> Head {
        match waiting {
            Some(handle)
                if self.config.policy == Policy::Priority
                    && Rank::of(&self.sequences[handle.slot].request) < *rank =>
            {
                Head::Waiting(handle)
            }
            _ => Head::Arrived(arrived),
        }
    }

    /// The head of the waiting queue is admitted, or begins to load, if there is room.
    #[inline(always)]
    fn admit_head<O: Observer>(
        &mut self,
        handle: Handle,
        step: &mut Step,
        budget: &mut Budget,
        now: Picos,
        observer: &mut O,
    ) -> Turn {
        let slot = handle.slot;
        if self.is_stale(slot) {
            cold_path();
            self.defer(slot);
            return Turn::SetAside;
        }
        let known = self.sequences[slot].known_tokens();
        // Only what a preemption of 0.11 left (V1-26), and then nothing is looked up.
        let kept = self.sequences[slot].computed;
        let is_alone = self.is_alone(slot);
        let found = match kept == 0 && !is_alone {
            true => self.find(slot, known),
            false => Match::MISS,
        };
        let hit = found.blocks * self.config.block_size;
        let offer = if kept == 0 {
            self.offer_from_outside(now, slot, hit)
        } else {
            Offer::Nothing
        };
        let external = match offer {
            Offer::Nothing => 0,
            Offer::WithStep(tokens) => tokens,
            Offer::Aside(tokens) => return self.admit_aside(slot, found, tokens, now),
        };
        let computed = kept + hit + external;
        assert!(computed < known, "a token is left to be computed");
        let tokens = match self.padded_admission(computed, known - computed, budget) {
            // Rather not at all than without drafts (V1-58).
            Some(padded) if padded > budget.most() => return Turn::Stop(false),
            Some(padded) => padded,
            None => match share_of(&self.config, known - computed, budget, budget.most()) {
                Ok(tokens) => tokens,
                Err(turn) => return turn,
            },
        };
        let scheduled = self.reach(computed + tokens, kept == 0);
        let new_blocks = match self.blocks_to_admit(known, scheduled, found) {
            Ok(new_blocks) => new_blocks,
            Err(need) => {
                cold_path();
                // Fewer once a hit that nobody uses is evicted: the windows behind it are shorter.
                self.admission_needs = if found.unreferenced > 0 { 0 } else { need };
                // And more may be offered from outside then than is worth a retrieval now, for which there may be room.
                return Turn::Stop(self.external.is_none() || found.unreferenced == 0);
            }
        };
        self.waiting.pop();
        let held = &mut self.sequences[slot].held;
        if is_alone {
            self.pool.admit_alone(held, new_blocks);
        } else {
            *held = self.pool.admit(found, new_blocks);
        }
        budget.spend(tokens);
        if external > 0 {
            cold_path();
            self.ask_to_load(now, slot, hit, external);
        }
        let sequence = &mut self.sequences[slot];
        sequence.settled = hit;
        sequence.computed = computed;
        sequence.drafting.reach = scheduled;
        self.start(slot, hit, external, now, observer);
        step.carries_prefill |= computed + 1 < known;
        self.share_out(slot, tokens, step);
        Turn::Done
    }

    /// What is cached of the first tokens of a sequence.
    #[inline(never)]
    fn find(&mut self, slot: usize, known: u32) -> Match {
        self.pool.settle();
        let pieces = &self.sequences[slot].pieces;
        self.without_last(self.pool.look_up(pieces, known), pieces)
    }

    /// Nobody has what it begins with, and never had: there is nothing to look up, and nobody will look for it but itself.
    #[inline]
    fn is_alone(&self, slot: usize) -> bool {
        let sequence = &self.sequences[slot];
        matches!(sequence.request.prompt, Prompt::Unique)
            && !sequence.story.has_run()
            && self.external.is_none()
    }

    /// Takes blocks for tokens that are loaded aside. Those that prefills under way still lack are left to them
    /// (V1-30).
    #[cold]
    fn admit_aside(&mut self, slot: usize, found: Match, external: u32, now: Picos) -> Turn {
        let known = self.sequences[slot].known_tokens();
        let hit = found.blocks * self.config.block_size;
        assert!(external > 0 && hit + external <= known, "known tokens are loaded");
        let reserved = self.reserved_blocks();
        let new = self.blocks_to_admit(known, hit + external, found).ok();
        let Some(new) = new
            .filter(|new| new.all() + found.unreferenced + self.watermark() + reserved <= self.pool.free())
        else {
            return Turn::Stop(true);
        };
        self.waiting.pop();
        let held = self.pool.admit(found, new);
        self.begin_load(now, slot, held, hit, external);
        Turn::Done
    }

    /// Blocks that prefills under way lack until their known tokens have them, loads included; 0.33's
    /// `_inflight_prefill_reserved_blocks`, which came with [`super::VersionSwitches::reserve_full_isl`].
    fn reserved_blocks(&self) -> u32 {
        if !self.config.switches.reserve_full_isl {
            return 0;
        }
        let lacking = self.singles.iter().map(|&slot| {
            let sequence = &self.sequences[slot];
            let known = sequence.known_tokens().min(self.config.max_model_len);
            let is_prefill = !sequence.sampled_last && sequence.phase == Phase::Single;
            u32::from(is_prefill) * (self.pool.blocks_for(known) - self.pool.blocks_for(sequence.computed))
        });
        let loading = self.external.as_ref().map_or(0, |external| external.lacking());
        lacking.sum::<u32>() + loading
    }

    /// Somebody whose KV has come computes the rest.
    #[inline(never)]
    fn admit_arrived<O: Observer>(
        &mut self,
        arrived: Arrived,
        step: &mut Step,
        budget: &mut Budget,
        now: Picos,
        observer: &mut O,
    ) -> Turn {
        let slot = arrived.handle.slot;
        let (known, computed) = (self.sequences[slot].known_tokens(), self.sequences[slot].computed);
        let tokens = match share_of(&self.config, known - computed, budget, budget.tokens) {
            Ok(tokens) => tokens,
            Err(turn) => return turn,
        };
        let more = |tokens: u32| self.pool.blocks_for(tokens).saturating_sub(arrived.blocks);
        let new = more(computed + tokens);
        let need = if self.config.switches.reserve_full_isl {
            new.max(more(known.min(self.config.max_model_len)))
        } else {
            new
        };
        if need + self.watermark() > self.pool.free() {
            return Turn::Stop(true);
        }
        self.take_arrived();
        self.unreserve(&arrived);
        self.pool.take(new);
        budget.tokens -= tokens;
        self.start(slot, arrived.local, computed - arrived.local, now, observer);
        step.carries_prefill |= computed + 1 < known;
        self.share_out(slot, tokens, step);
        Turn::Done
    }

    /// Blocks kept free when admitting beside running sequences (V1-32).
    fn watermark(&self) -> u32 {
        if self.sequences.running > 0 {
            self.config.watermark_blocks
        } else {
            0
        }
    }

    /// Blocks that an admission takes beside its hit, or how many must be free for it (V1-30 to V1-32).
    #[inline(always)]
    fn blocks_to_admit(&self, known: u32, scheduled: u32, found: Match) -> Result<Taken, u32> {
        let new = self.pool.blocks_behind(found, scheduled);
        let mut need = new.all();
        // Whoever computes all that it knows in this step takes no less than is reserved for it.
        if self.config.switches.reserve_full_isl && scheduled < known {
            let known = known.min(self.config.max_model_len);
            need = need.max(self.pool.reserved_behind(found, known));
        }
        let need = need + found.unreferenced + self.watermark();
        if need <= self.pool.free() {
            Ok(new)
        } else {
            Err(need)
        }
    }

    /// Into `running`, with its blocks and computed tokens, of which `hit` were cached here and `loaded` outside.
    #[inline(always)]
    pub(super) fn start<O: Observer>(
        &mut self,
        slot: usize,
        hit: u32,
        loaded: u32,
        now: Picos,
        observer: &mut O,
    ) {
        self.sequences.append_running(slot);
        let sequence = &mut self.sequences[slot];
        let (id, known) = (sequence.request.id, sequence.known_tokens());
        observer.observe(&sequence.story.admit(&sequence.request, self.id, now, known, hit));
        if self.external.is_some() {
            cold_path();
            observer.observe(&Fact::Loaded {
                now,
                replica: self.id,
                id,
                cached_tokens: hit,
                tokens: loaded,
            });
        }
        sequence.sampled_last = false;
        sequence.staged.whole = known;
        sequence.phase = Phase::Single;
        self.singles.push(slot);
        self.no_longer_deferred(slot);
    }
}

/// Tokens that an admitted sequence gets of the `missing` ones, `most` at most, or what happens to it if they are too many.
fn share_of(config: &EngineConfig, missing: u32, budget: &Budget, most: u32) -> Result<u32, Turn> {
    if budget.hold_prefill && missing > 1 {
        // V1-16: a single missing token is no prefill.
        return Err(Turn::Stop(false));
    }
    let tokens = missing.min(budget.threshold);
    if !config.enable_chunked_prefill && tokens > most {
        return Err(if config.switches.oversize_prompt_stops {
            Turn::Stop(false)
        } else {
            Turn::SetAside
        });
    }
    Ok(tokens.min(most))
}
