//! The kernel tables of a folder.

use crate::calibrate::tables::{TableError, names_gpus};
use crate::cli::terminal::Terminal;
use crate::cli::{inputs, ledger};
use crate::validate::TimedBy;
use crate::validate::kernels::Kernels;

use super::names_of;

/// Every CSV of a folder that is a kernel table, of `gpu` where it does not say whose; the others are named.
pub(super) fn read(
    folder: &str,
    gpu: Option<&str>,
    timed_by: Option<TimedBy>,
    terminal: &Terminal,
) -> anyhow::Result<Kernels> {
    use anyhow::Context;
    let mut kernels = Kernels::default();
    kernels.timed_by = timed_by;
    if let Some(name) = gpu {
        let (device, notes) = inputs::device(name)?;
        terminal.notes(&notes);
        kernels.gpu = Some(device);
    }
    let mut is_taken = false;
    for path in names_of(folder)?.iter().filter(|path| path.ends_with(".csv")) {
        let text = ledger::read_to_string(path.as_ref()).with_context(|| format!("cannot read {path}"))?;
        match kernels.add(path, &text) {
            Err(error @ TableError::Unknown { .. }) => terminal.notes(&[format!("left: {error}")]),
            other => {
                other?;
                is_taken |= !names_gpus(&text);
            }
        }
    }
    if let Some(name) = gpu.filter(|_| !is_taken) {
        terminal.notes(&[format!(
            "--gpu {name} says nothing here: every table has a column `gpu`"
        )]);
    }
    Ok(kernels)
}
