//! The twin's decode batches and retractions (SG-5, SG-32, SG-33).

use plimsoll::engine::sglang::BatchMode;
use plimsoll::sim::Outcome;

use super::{Entry, Req, State, Twin};

impl Twin<'_> {
    pub(super) fn drop_gone(&mut self) {
        let before = self.running.len();
        self.running.retain(|&at| self.reqs[at].state == State::Running);
        if self.running.len() < before {
            self.full = false;
        }
    }

    /// Leaves out whose last token is in flight, which 0.5.4 does not know of.
    pub(super) fn drop_known(&mut self) -> bool {
        let before = self.running.len();
        if self.config.overlap_schedule && self.versions.predicts_length_endings {
            let reqs = &self.reqs;
            self.running
                .retain(|&at| reqs[at].out + reqs[at].flying < reqs[at].max_new);
        }
        if self.running.len() < before {
            self.full = false;
        }
        self.running.len() < before
    }

    pub(super) fn decode_batch(&mut self) -> Option<Vec<Entry>> {
        self.drop_gone();
        let shrank = self.drop_known();
        if self.running.is_empty() {
            return None;
        }
        if self.decode_fits() {
            self.ratio =
                (self.ratio - self.config.new_token_ratio_decay).max(self.config.min_new_token_ratio);
        } else if shrank {
            return None;
        } else {
            self.retract();
        }
        if self.running.is_empty() || self.died {
            return None;
        }
        let mut entries = Vec::new();
        self.decode(&mut entries);
        self.record.mode = BatchMode::Decode;
        Some(entries)
    }

    pub(super) fn decode_fits(&mut self) -> bool {
        let page = self.config.page_size;
        // 0.5.4 looks at the tokens that it knows of, which are one more than have KV where no decode is in flight.
        let by_kv = self.versions.counts_pages_by_kv || !self.config.overlap_schedule || page == 1;
        let len = |req: &Req| if by_kv { req.kv } else { req.known() };
        let full = self
            .running
            .iter()
            .filter(|&&at| len(&self.reqs[at]).is_multiple_of(page))
            .count();
        self.room(full as u64 * self.page())
    }

    pub(super) fn decode(&mut self, entries: &mut Vec<Entry>) {
        self.room(self.page() * self.running.len() as u64);
        for at in self.running.clone() {
            self.grow(at, 1);
            let req = &mut self.reqs[at];
            req.flying += 1;
            self.load.decode_seqs += 1;
            self.load.decode_kv_tokens += u64::from(req.kv);
            self.load.sampled_rows += 1;
            entries.push((at, req.epoch, true, true));
        }
    }

    fn retract(&mut self) {
        let reqs = &self.reqs;
        let key = |at: usize| (-i64::from(reqs[at].out), reqs[at].prompt);
        self.running.sort_by_key(|&at| key(at));
        loop {
            if self.running.len() == 1 {
                if !self.decode_fits() {
                    self.give_up_lone();
                }
                break;
            }
            let at = self.running.pop().unwrap();
            self.send_back(at);
            self.room(20 * self.running.len() as u64);
            if self.decode_fits() {
                break;
            }
        }
        let out: u32 = self.running.iter().map(|&at| self.reqs[at].out + 20).sum();
        let most: u32 = self.running.iter().map(|&at| self.reqs[at].max_new).sum();
        self.ratio = (f64::from(out) / f64::from(most + 1)).min(1.0);
        self.full = false;
    }

    /// To the tail of the queue; the token in flight is lost.
    pub(super) fn send_back(&mut self, at: usize) {
        self.release(at);
        let req = &mut self.reqs[at];
        (req.flying, req.state, req.since) = (0, State::Queued, self.now);
        req.epoch += 1;
        req.hit = 0;
        req.seen *= u32::from(self.versions.preempts_sparingly);
        req.preemptions += 1;
        self.join_queue(at);
        self.record.retracted.push(self.reqs[at].id);
    }

    /// Not even one can grow: 0.5.23 ends it, 0.5.4 dies.
    fn give_up_lone(&mut self) {
        self.died |= !self.versions.aborts_lone_request;
        self.count("lone");
        let at = self.running.pop().unwrap();
        self.release(at);
        self.reqs[at].state = State::Gone;
        self.reqs[at].end = Some((Outcome::Rejected, self.now));
        self.left = true;
    }
}
