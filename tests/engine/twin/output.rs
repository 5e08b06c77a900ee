//! What changes outside `schedule()`: arrivals, the end of a step, aborts
//! (vLLM 0.33 `Scheduler.add_request`, `update_from_output`, `finish_requests`).

use super::scheduler::{Index, Scheduler, Share};
use super::sequence::Status;

impl Scheduler {
    /// Takes in a request that has arrived. FCFS order is the order of these calls (V1-24).
    pub(super) fn add(&mut self, index: Index) {
        self.sequences[index].status = Status::Waiting;
        self.waiting.push(index);
    }

    /// Applies the results of the oldest step in flight, which ended at `now_ps`; `later` are the steps still
    /// in flight.
    ///
    /// Sequences are looked at in the step's order, and one that finishes gives its blocks back before the
    /// next is looked at (V1-37).
    pub(super) fn update_from_output(&mut self, shares: &[Share], later: &[&[Share]], now_ps: u64) {
        for share in shares {
            let index = share.sequence;
            self.sequences[index].unprocessed -= share.n;
            if self.sequences[index].preemptions == share.stay {
                self.sequences[index].in_flight -= share.n;
            }
            match self.sequences[index].status {
                // V1-15: ended while this step was in flight, so the token is one too many. V1-10: given up.
                Status::Finished | Status::Aborted => continue,
                Status::Running | Status::Preempted => {}
                Status::Unseen | Status::Waiting | Status::Loading => {
                    unreachable!("it was running when the step was scheduled")
                }
            }
            if !share.samples {
                continue; // V1-63
            }
            self.append_outputs(share, in_flight_tokens(index, later), now_ps);
            if self.sequences[index].is_complete(&self.config) {
                self.end(index, Status::Finished); // V1-61
            }
        }
    }

    /// Ends a request at its user's wish, wherever it stands (V1-10).
    pub(super) fn abort(&mut self, index: Index) {
        if matches!(
            self.sequences[index].status,
            Status::Waiting | Status::Loading | Status::Running | Status::Preempted
        ) {
            self.end(index, Status::Aborted);
        }
    }

    /// Appends the tokens that have become known with a share, as far as the first that ends the sequence (D-3).
    fn append_outputs(&mut self, share: &Share, in_flight: u32, now_ps: u64) {
        let index = share.sequence;
        // 0.11 may have it running again.
        let is_stale = self.sequences[index].preemptions != share.stay;
        if !is_stale {
            self.roll_back(index, share.drafts + 1 - share.tokens);
        }
        let sequence = &mut self.sequences[index];
        let mut left = share.tokens;
        while left > 0 {
            sequence.push_output(&self.config, &mut self.names);
            sequence.token_times_ps.push(now_ps);
            left -= 1;
            if sequence.is_complete(&self.config) {
                break;
            }
        }
        if is_stale {
            // V1-28: delivered all the same, but the reset counters and the cache are left alone.
            sequence.stale_outputs = sequence.stale_outputs.saturating_sub(1 + share.drafts);
            return;
        }
        sequence.computed -= left; // D-2
        if self.config.is_async() {
            sequence.placeholders -= share.tokens;
        }
        if self.config.outputs_register() {
            // V1-44: the tokens were not known when their step was scheduled, so the blocks they complete are
            // registered now, as far as their KV is computed.
            let computed = sequence.computed - in_flight;
            assert_eq!(
                computed,
                sequence.known() - 1,
                "only the newest token has no KV (EV-5)"
            );
            self.pool.register(sequence, computed);
        }
    }

    /// Takes a request out of its queue and frees its blocks. It may end in `waiting` (V1-28).
    fn end(&mut self, index: Index, status: Status) {
        self.running.retain(|&running| running != index);
        self.waiting.retain(|&waiting| waiting != index);
        if let Some(lmcache) = &mut self.lmcache {
            lmcache.leaves(index);
        }
        let sequence = &mut self.sequences[index];
        let is_loading = sequence.status == Status::Loading;
        sequence.status = status;
        if is_loading && !sequence.is_loaded {
            return; // C-32: the load goes on into its blocks.
        }
        self.loading.retain(|&(_, loading)| loading != index);
        self.pool.release(sequence);
    }
}

/// Tokens of a sequence in steps not processed yet (V1-44).
fn in_flight_tokens(index: Index, later: &[&[Share]]) -> u32 {
    let shares = later.iter().flat_map(|shares| shares.iter());
    shares
        .filter(|share| share.sequence == index)
        .map(|share| share.n)
        .sum()
}
