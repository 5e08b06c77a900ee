//! What `audit` finds of a row that makes it no measurement to fit to: another unit, or counts that contradict each other.
//!
//! A time in another unit would be met by a host a thousand times as fast or slow, or by none, so such a row is refused. Counts and
//! seconds that contradict each other may stand beside figures that are sound, so such a row is taken, and it is said first. So it is
//! where tokens come faster than the card reads the weights.
//! Left out: what else is impossible for the card, the model or the load: the fit itself says what it cannot meet.

use crate::audit::{Check, Finding, Known, Machine, Severity, audit};
use crate::config::Resolved;
use crate::results::Measured;

/// What a row is told for; an error where its times are in another unit.
pub(super) fn check(row: &Measured) -> Result<Vec<String>, String> {
    let impossible = found(row, &Known::default());
    if let Some(unit) = impossible.iter().find(|finding| finding.check == Check::Unit) {
        return Err(format!(
            "{}: {}; write them in milliseconds, as the columns say",
            unit.claim, unit.arithmetic
        ));
    }
    Ok(said(&impossible, Check::CountsAgree))
}

/// What a row is told for that no machine like the one that it is taken to have run on can do.
pub(super) fn for_the_machine(row: &Measured, resolved: &Resolved) -> Vec<String> {
    let machine = Machine {
        device: Some(resolved.device.clone()),
        model: Some(resolved.model.clone()),
        tensor_parallel: Some(resolved.placement.tensor_parallel),
        n_gpus: Some(resolved.placement.gpus()),
    };
    let known = Known {
        machine: Some(machine),
    };
    said(&found(row, &known), Check::DecodeBound)
}

fn found(row: &Measured, known: &Known) -> Vec<Finding> {
    let audited = audit(std::slice::from_ref(row), known);
    let findings = audited.into_iter().flat_map(|row| row.findings);
    let is_impossible = |finding: &Finding| finding.severity == Severity::Impossible;
    findings.filter(is_impossible).collect()
}

fn said(impossible: &[Finding], check: Check) -> Vec<String> {
    let found = impossible.iter().filter(|finding| finding.check == check);
    found
        .map(|finding| format!("{}: {}", finding.claim, finding.arithmetic))
        .collect()
}
