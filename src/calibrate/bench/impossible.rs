//! What `audit` finds of a row that makes it no measurement to fit to: another unit, or counts that contradict each other.
//!
//! A time in another unit would be met by a host a thousand times as fast or slow, or by none, so such a row is refused. Counts and
//! seconds that contradict each other may stand beside figures that are sound, so such a row is taken, and it is said first.
//! Left out: what is impossible for the card, the model or the load: the fit itself says what it cannot meet.

use crate::audit::{Check, Finding, Known, Severity, audit};
use crate::results::Measured;

/// What a row is told for; an error where its times are in another unit.
pub(super) fn check(row: &Measured) -> Result<Vec<String>, String> {
    let audited = audit(std::slice::from_ref(row), &Known::default());
    let findings = audited.into_iter().flat_map(|row| row.findings);
    let impossible: Vec<Finding> = findings
        .filter(|finding| finding.severity == Severity::Impossible)
        .collect();
    if let Some(unit) = impossible.iter().find(|finding| finding.check == Check::Unit) {
        return Err(format!(
            "{}: {}; write them in milliseconds, as the columns say",
            unit.claim, unit.arithmetic
        ));
    }
    let counts = impossible
        .iter()
        .filter(|finding| finding.check == Check::CountsAgree);
    Ok(counts
        .map(|finding| format!("{}: {}", finding.claim, finding.arithmetic))
        .collect())
}
