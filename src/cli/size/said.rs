//! What is said of cards and sizes elsewhere than by flags of this command and axes: by a pasted command, a variant or a scenario.
//!
//! Law: what a command or a variant says is held, and what a scenario says is one candidate among others. Both are told.

use super::super::plan::Common;
use super::Args;
use crate::config::Source;
use crate::config::flags::ScenarioFlags;
use crate::config::variant::Said;

/// The key of how many GPUs share a replica.
pub(super) const SIZE: &str = "cluster.tensor_parallel_size";

/// What is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Elsewhere {
    /// A variant names a card.
    pub(super) varies_gpu: bool,
    /// A variant or a pasted command says how many GPUs share a replica.
    pub(super) holds_size: bool,
    /// What there is to say of that.
    pub(super) note: Option<String>,
}

impl Elsewhere {
    /// Beside sizes that are tried where nobody says any. What cannot be read here is told where it is put upon a cell.
    pub(super) fn of(args: &Args, sizes: &str) -> Elsewhere {
        let variants = args.axes.variants.iter();
        let variants = variants.filter_map(|text| Said::parse(text).ok()?.flags().ok());
        let variants: Vec<ScenarioFlags> = variants.collect();
        let says = |of: fn(&ScenarioFlags) -> bool| variants.iter().any(of);
        let varies_gpu = says(|flags| flags.server.machines.cluster.gpu.is_some());
        if says(|flags| flags.server.machines.cluster.tensor_parallel_size.is_some()) {
            return Elsewhere {
                varies_gpu,
                holds_size: true,
                note: Some(
                    "variants say how many GPUs share a replica: no other sizes are tried, and a variant that says none has what all have in common"
                        .to_owned(),
                ),
            };
        }
        let (holds_size, note) = in_common(args, sizes).unwrap_or_default();
        Elsewhere {
            varies_gpu,
            holds_size,
            note,
        }
    }
}

/// Whether the size that all candidates have in common is held, and what there is to say of it.
fn in_common(args: &Args, sizes: &str) -> Option<(bool, Option<String>)> {
    let common = Common::read(&args.axes, &args.scenario, &args.output).ok()?;
    let document = common.scenario();
    let size = document.get(SIZE)?.as_integer()?;
    match document.source(SIZE)? {
        Source::Flag(_) => Some((
            true,
            Some(format!(
                "tensor_parallel_size = {size} is held, as the pasted command says: -L tensor-parallel-size {sizes} tries others"
            )),
        )),
        _ if size == 1 => None,
        _ => Some((
            false,
            Some(format!(
                "tensor_parallel_size = {size} is the scenario's, and {sizes} are tried: --tensor-parallel-size {size} holds it"
            )),
        )),
    }
}
