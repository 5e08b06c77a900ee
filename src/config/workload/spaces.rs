//! What one client's traffic has to do with the others': what ends it, and which texts its trace shares with theirs.
//!
//! Hash ids of two files mean nothing to each other unless somebody says that they were written as one. Then the texts
//! of both are renumbered by their ids, so that equal ids are one text.

use rustc_hash::FxHashMap;

use crate::config::judge::Judge;
use crate::ids::SegmentId;
use crate::workload::Prompt;
use crate::workload::trace::Trace;

/// What one client has to do with others; nothing, where it is alone.
#[derive(Default)]
pub(super) struct Among<'a> {
    /// Something that holds for all clients ends it, so that it needs no length of its own.
    pub(super) ends_with_all: bool,
    /// Where traces may share hash ids.
    pub(super) spaces: Option<&'a mut Spaces>,
    /// The space that its trace is in, if it shares one.
    pub(super) joined: Option<usize>,
}

/// Names under which traces share hash ids.
#[derive(Default)]
pub(super) struct Spaces(Vec<Space>);

struct Space {
    name: String,
    block: u32,
    /// Number of the text that each id stands for.
    numbers: FxHashMap<u64, u64>,
}

impl Among<'_> {
    /// Gives equal hash ids of all traces in a space the same text; `None` was reported.
    pub(super) fn share_hash_ids(
        &mut self,
        judge: &mut Judge,
        key: &str,
        name: &str,
        trace: &mut Trace,
    ) -> Option<()> {
        judge.given(key, name);
        let Some(spaces) = &mut self.spaces else {
            let help = "leave it out: it joins the traces of several classes";
            judge.wrong_help(key, "has no meaning for a single trace", "nobody shares it", help);
            return None;
        };
        let block = trace.format.block().and(trace.block);
        let Some(block) = block.filter(|_| !trace.hash_ids.is_empty()) else {
            let label = format!("a {} has no hash ids", trace.format);
            judge.wrong_help(key, "has nothing to share", label, "leave it out");
            return None;
        };
        let at = spaces.0.iter().position(|space| space.name == name);
        let at = at.unwrap_or_else(|| {
            spaces.0.push(Space {
                name: name.to_owned(),
                block,
                numbers: FxHashMap::default(),
            });
            spaces.0.len() - 1
        });
        let space = &mut spaces.0[at];
        if space.block != block {
            let label = format!("ids of {block} tokens here, of {} in another trace", space.block);
            let help = "give the traces different spaces";
            judge.wrong_help(key, "joins traces that cannot share", label, help);
            return None;
        }
        space.renumber(trace);
        self.joined = Some(at);
        Some(())
    }
}

impl Space {
    fn renumber(&mut self, trace: &mut Trace) {
        let number = |id: &u64| {
            let next = self.numbers.len() as u64;
            *self.numbers.entry(*id).or_insert(next)
        };
        let numbers: Vec<u64> = trace.hash_ids.iter().map(number).collect();
        for request in &mut trace.requests {
            let Prompt::Pieces(pieces) = &mut request.prompt else {
                continue;
            };
            for piece in pieces.iter_mut() {
                // The end of a prompt that no id covers has a number far above them.
                if let Some(number) = usize::try_from(piece.segment.0)
                    .ok()
                    .and_then(|at| numbers.get(at))
                {
                    piece.segment = SegmentId(*number);
                }
            }
        }
    }
}
