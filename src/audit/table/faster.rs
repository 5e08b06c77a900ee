//! More clients whose tokens come sooner than those of fewer, on one server.

use std::collections::BTreeMap;

use super::super::case::Case;
use super::super::finding::{Check, Finding, Severity, show, time};
use super::{same_machine, same_setup};
use crate::results::{Load, Stats};

/// A row, its clients and its time per token, s.
type Step = (usize, f64, f64);

/// First tokens that come so many times later were not computed, they were waited for.
const WAITED: f64 = 10.0;

/// A step of a larger batch takes no less time, so more clients cannot get their tokens sooner. Of two rows that break
/// this the one with more clients is named where its requests waited instead of running, else the slow one.
pub(super) fn faster_tokens(cases: &[Case<'_>], family: &[usize], found: &mut [Vec<Finding>]) {
    let of = |index: usize| {
        let setup = &cases[index].row.setup;
        let tpot = &cases[index].row.tpot;
        let Load::Closed { clients } = setup.load else {
            return None;
        };
        let step = tpot.median.or(tpot.mean).filter(|step| *step > 0.0)?;
        (!setup.speculates()).then_some((index, clients as f64, step))
    };
    let rows: Vec<Step> = family.iter().filter_map(|index| of(*index)).collect();
    // Another version is another server. Where only one row says its version it may be, but by less with twice the clients.
    let contradicts = |(many, clients, step): &Step, (few, fewer, base): &Step| {
        let same = same_setup(cases, *many, *few);
        let least = if same { 0.75 } else { 0.55 };
        let may_be_one = same || !are_versions_unlike(cases, *many, *few);
        2.0 * fewer <= *clients && *step < least * base && may_be_one && same_machine(cases, *many, *few)
    };
    let ttft = |index: usize| cases[index].ttft().and_then(Stats::centre);
    let mut pairs: BTreeMap<usize, Vec<(Step, Step)>> = BTreeMap::new();
    for many in &rows {
        for few in rows.iter().filter(|few| contradicts(many, few)) {
            let waited = ttft(many.0)
                .zip(ttft(few.0))
                .is_some_and(|(many, few)| many > WAITED * few);
            let named = if waited { many.0 } else { few.0 };
            pairs.entry(named).or_default().push((*many, *few));
        }
    }
    for (named, pairs) in pairs {
        found[named].extend(stands_out(cases, named, &pairs));
    }
}

/// The row against the other that contradicts it most.
fn stands_out(cases: &[Case<'_>], worst: usize, pairs: &[(Step, Step)]) -> Option<Finding> {
    let ratio = |(many, few): &&(Step, Step)| few.2 / many.2;
    let (many, few) = pairs.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let other = if many.0 == worst { few.0 } else { many.0 };
    let claim = if many.0 == worst {
        "more clients get their tokens sooner than fewer: most of them were not running"
    } else {
        "fewer clients get their tokens later than more: something else slowed this run"
    };
    let ttft = cases[many.0].ttft().and_then(Stats::centre);
    let waiting = ttft.map_or(String::new(), |ttft| {
        format!("; ttft of those {} is {}", show(many.1), time(ttft))
    });
    let [one, another] = [worst, other].map(|row| {
        cases[row]
            .row
            .setup
            .engine_version
            .as_deref()
            .unwrap_or("not said")
    });
    let versions = match one == another {
        true => String::new(),
        false => format!(", version {one} against {another}"),
    };
    let shown = format!(
        "tpot {} with {} clients, {} with {} (against {}{versions}){waiting}",
        time(many.2),
        show(many.1),
        time(few.2),
        show(few.1),
        cases[other].row.place
    );
    let rerun =
        "run both again in one session, with a server limit (`max_num_seqs`, KV cache) above the clients";
    Some(
        Finding::new(Severity::Doubtful, Check::RowsContradict, claim)
            .shown(shown)
            .rerun(rerun),
    )
}

/// Both say their versions, and not the same.
fn are_versions_unlike(cases: &[Case<'_>], one: usize, other: usize) -> bool {
    let [one, other] = [one, other].map(|row| cases[row].row.setup.engine_version.as_deref());
    one.zip(other).is_some_and(|(one, other)| one != other)
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{findings, sound};
    use super::*;
    use crate::results::Measured;

    /// Two rows of 8 and 64 clients, of which the second has its tokens in half the time.
    fn told(versions: [Option<&str>; 2]) -> String {
        let [few, many] = [(8, 0.0148), (64, 0.0074)].map(|(clients, step)| {
            let mut row = Measured::new(sound().tool, format!("line {clients}"));
            row.setup = sound().setup;
            row.setup.load = Load::Closed { clients };
            row.setup.max_concurrency = Some(clients);
            row.tpot.median = Some(step);
            row
        });
        let rows = [few, many].into_iter().zip(versions).map(|(mut row, version)| {
            row.setup.engine_version = version.map(str::to_owned);
            row
        });
        let found = findings(&rows.collect::<Vec<Measured>>());
        let of_it = found
            .iter()
            .filter(|finding| finding.check == Check::RowsContradict);
        of_it
            .map(|finding| finding.arithmetic.clone())
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn rows_of_two_versions_contradict_nothing_and_one_that_is_not_said_is_named() {
        assert!(told([Some("0.11.0"), Some("0.11.0")]).contains("(against line 64)"));
        assert_eq!(told([Some("0.10.2"), Some("0.11.0")]), "");
        let unsaid = told([None, Some("0.11.0")]);
        assert!(
            unsaid.contains("(against line 64, version not said against 0.11.0)"),
            "{unsaid}"
        );
    }
}
