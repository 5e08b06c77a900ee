//! Which figures may stand where in a lab.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::lab::variant::SEED;
use crate::lab::{Lab, Reference, Row};
use crate::nearest::nearest;

/// What one text or expression refers to.
pub(super) struct Use {
    pub(super) span: Range<usize>,
    pub(super) references: Vec<Reference>,
    pub(super) allowed: Allowed,
}

/// Which figures a place may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    /// All.
    All,
    /// Those that are known before the prediction.
    Before,
    /// What differs from student to student.
    Varied,
}

/// Why a reference may not stand where it does, and how to mend it.
pub(super) fn unusable(lab: &Lab, reference: &Reference, allowed: Allowed) -> Option<(String, String)> {
    match reference {
        Reference::Name(name) if name == SEED || lab.varies(name) => None,
        Reference::Name(name) if lab.values.contains_key(name) => match allowed {
            Allowed::All => None,
            Allowed::Varied => Some((
                format!("`{name}` is a figure of a run, and this stands before all runs"),
                "here only names of [vary] and {seed} may stand".to_owned(),
            )),
            Allowed::Before => {
                late(lab, name, &mut BTreeSet::new()).map(|experiment| too_early(name, &experiment))
            }
        },
        Reference::Name(name) => {
            let varied = lab
                .vary
                .values()
                .filter_map(|rows| rows.first())
                .flat_map(Row::keys);
            let known = varied.chain(lab.values.keys()).map(String::as_str);
            let help = match nearest(name, known, 1)[..] {
                [near, ..] => format!("did you mean `{near}`?"),
                [] => "names stand in [vary] and [values]".to_owned(),
            };
            Some((format!("nothing is called `{name}`"), help))
        }
        Reference::Printed { experiment, .. } => {
            match lab.experiments.iter().find(|one| one.name == *experiment) {
                None => Some((
                    format!("no experiment is called `{experiment}`"),
                    "it is the `name` of one of [[experiments]]".to_owned(),
                )),
                Some(one) => match allowed {
                    Allowed::All => None,
                    Allowed::Varied => Some((
                        format!("`{reference}` is a figure of a run, and this stands before all runs"),
                        "here only names of [vary] and {seed} may stand".to_owned(),
                    )),
                    Allowed::Before => (!one.before).then(|| too_early(&reference.to_string(), experiment)),
                },
            }
        }
    }
}

fn too_early(name: &str, experiment: &str) -> (String, String) {
    (
        format!("`{name}` would tell a figure of `{experiment}` before the prediction"),
        format!("leave it out, or let `{experiment}` have before = true"),
    )
}

/// An experiment that a named figure hangs on and that is run only after the prediction.
fn late(lab: &Lab, name: &str, seen: &mut BTreeSet<String>) -> Option<String> {
    if !seen.insert(name.to_owned()) {
        return None;
    }
    lab.values
        .get(name)?
        .references()
        .iter()
        .find_map(|reference| match reference {
            Reference::Name(inner) => late(lab, inner, seen),
            Reference::Printed { experiment, .. } => {
                let is_late = lab
                    .experiments
                    .iter()
                    .any(|one| one.name == *experiment && !one.before);
                is_late.then(|| experiment.clone())
            }
        })
}

/// Whether a named figure hangs on itself.
pub(super) fn says_itself(lab: &Lab, name: &str) -> bool {
    leads_to(lab, name, name, &mut BTreeSet::new())
}

/// Whether the figure `from` hangs on `to`.
fn leads_to(lab: &Lab, from: &str, to: &str, seen: &mut BTreeSet<String>) -> bool {
    let Some(arithmetic) = lab.values.get(from) else {
        return false;
    };
    arithmetic.references().iter().any(|reference| match reference {
        Reference::Name(name) => name == to || (seen.insert(name.clone()) && leads_to(lab, name, to, seen)),
        Reference::Printed { .. } => false,
    })
}
