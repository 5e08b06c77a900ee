//! What can be turned on a report: flags with their values, all combinations of them, and where the page begins.

use std::collections::BTreeMap;

use crate::cli::page::{Explorer, Start, Stops};
use crate::config::argv;
use crate::config::axes::Axis;
use crate::config::flags::ScenarioFlags;
use crate::config::{Diagnostic, Diagnostics, Place};
use crate::report::counted;

/// What is set for an answer, by flag.
pub(super) type Flags = BTreeMap<String, String>;

/// Most combinations of a report.
const POINTS_MAX: usize = 1000;

/// A scenario, and what of it can be turned.
pub(super) struct Turned {
    pub(super) explorer: Explorer,
    /// What is to be said of the scenario.
    pub(super) notes: Vec<String>,
    pub(super) axes: Vec<Stops>,
    /// All combinations, the last axis the fastest.
    pub(super) points: Vec<Flags>,
    /// The scenario's own values, or else the first combination that is not refused.
    pub(super) begins_at: Flags,
    pub(super) start: Start,
    /// The flag that says how strong the load is.
    pub(super) load: Option<&'static str>,
}

impl Turned {
    /// Of a scenario as it was typed, and pairs of a flag and its values.
    ///
    /// # Errors
    /// What is wrong with the scenario, flags and values that nobody knows, and what is wrong with one combination where all are refused.
    pub(super) fn new(
        flags: &ScenarioFlags,
        typed: &[String],
        pairs: &[String],
    ) -> Result<Turned, Diagnostics> {
        let axes = axes(pairs)?;
        let (explorer, notes) = explorer(flags, typed, &axes)?;
        let axes: Vec<Stops> = (axes.iter())
            .map(|axis| explorer.stops(&axis.name, &axis.values))
            .collect();
        let points = combined(
            axes.iter()
                .map(|axis| (axis.flag.as_str(), axis.values.as_slice())),
        );
        for point in &points {
            explorer.read(&explorer.words_of(point))?;
        }
        let own: Flags = (axes.iter())
            .map(|axis| (axis.flag.clone(), axis.value.clone()))
            .collect();
        let start = |flags: &Flags| explorer.kept_start(&explorer.words_of(flags), &axes);
        let (begins_at, found) = match start(&own) {
            Ok(found) => (own, found),
            Err(wrong) => {
                let others = points
                    .iter()
                    .filter_map(|flags| Some((flags.clone(), start(flags).ok()?)));
                let first = { others }.next();
                first.ok_or_else(|| none_of(wrong, points.len()))?
            }
        };
        let load = explorer.load_of(&explorer.words_of(&begins_at));
        let mut turned = Turned {
            explorer,
            notes,
            axes,
            points,
            begins_at: begins_at.clone(),
            start: found,
            load,
        };
        turned.stand_at(&begins_at);
        Ok(turned)
    }

    /// Begins elsewhere.
    ///
    /// # Errors
    /// What is wrong with that combination.
    pub(super) fn begin_at(&mut self, flags: &Flags) -> Result<(), Diagnostics> {
        let words = self.explorer.words_of(flags);
        self.start = self.explorer.kept_start(&words, &self.axes)?;
        self.begins_at = flags.clone();
        self.stand_at(flags);
        Ok(())
    }

    fn stand_at(&mut self, flags: &Flags) {
        for axis in &mut self.axes {
            axis.value.clone_from(&flags[&axis.flag]);
        }
    }
}

/// Of several combinations of which none is possible what is wrong with the first.
fn none_of(mut wrong: Diagnostics, points: usize) -> Diagnostics {
    if let Some(first) = wrong.0.first_mut().filter(|_| points > 1) {
        let all =
            format!("none of the {points} combinations of -L is possible: that is why the first is not");
        *first = first.clone().help(all);
    }
    wrong
}

/// The user's axes.
///
/// # Errors
/// All that is wrong with them.
fn axes(pairs: &[String]) -> Result<Vec<Axis>, Diagnostics> {
    let (mut axes, mut problems): (Vec<Axis>, Vec<Diagnostic>) = (Vec::new(), Vec::new());
    for pair in pairs.chunks(2) {
        let [flag, values] = pair else { continue };
        match canonical(flag).and_then(|name| Axis::list(&name, values)) {
            Err(problem) => problems.push(problem),
            Ok(axis) => {
                let name = &axis.name;
                let is_twice = axes.iter().any(|known| known.name == *name);
                let repeated = (axis.values.iter().enumerate())
                    .find(|(at, value)| axis.values[..*at].iter().any(|other| is_same(other, value)))
                    .map(|(_, value)| format!("`-L {name}` has the value {value} twice"));
                let twice =
                    is_twice.then(|| format!("`-L {name}` is given twice: write all its values with commas"));
                problems.extend(repeated.into_iter().chain(twice).map(Diagnostic::new));
                axes.push(axis);
            }
        }
    }
    let count = (axes.iter()).try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        let message = format!(
            "the values of {} make more than {POINTS_MAX} combinations",
            counted(axes.len() as u64, "flag")
        );
        let help = "a report holds each of them: take fewer values; `plimsoll sweep` has tables of more";
        problems.push(Diagnostic::new(message).help(help));
    }
    match problems.is_empty() {
        true => Ok(axes),
        false => Err(Diagnostics(
            (problems.into_iter())
                .map(|problem| problem.at(Place::Flag("-L".to_owned())))
                .collect(),
        )),
    }
}

/// A flag as it is called in full: `tp` and `max_num_seqs` as well as their long forms.
fn canonical(flag: &str) -> Result<String, Diagnostic> {
    if flag.contains('.') {
        let problem = Diagnostic::new(format!("`-L {flag}` is the path of a key"));
        return Err(problem.help("a control of a report is a flag: -L max-num-seqs 64,256"));
    }
    let name = flag.trim_start_matches('-').replace('_', "-");
    let normal = argv::normalise(&[format!("--{name}=1")]);
    let known = normal.args.iter().find_map(|word| word.strip_prefix("--"));
    let known = known.and_then(|word| word.split('=').next());
    Ok(known.unwrap_or(&name).to_owned())
}

/// `4` and `4.0` are one number.
fn is_same(one: &str, other: &str) -> bool {
    one == other || matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
}

/// The scenario, which may be whole only with a value of each axis.
fn explorer(
    flags: &ScenarioFlags,
    typed: &[String],
    axes: &[Axis],
) -> Result<(Explorer, Vec<String>), Diagnostics> {
    let as_it_is = Explorer::new(flags.clone(), typed.to_vec(), None);
    if as_it_is.is_ok() || axes.is_empty() {
        return as_it_is;
    }
    let points = combined(
        axes.iter()
            .map(|axis| (axis.name.as_str(), axis.values.as_slice())),
    );
    let upon = |point: &Flags| {
        let words: Vec<String> = (point.iter())
            .map(|(flag, value)| format!("--{flag}={value}"))
            .collect();
        Explorer::upon(flags.clone(), typed.to_vec(), None, &words)
    };
    let mut wrong = None;
    for point in &points {
        match upon(point) {
            Ok(found) => return Ok(found),
            Err(problems) => wrong = wrong.or(Some(problems)),
        }
    }
    Err(none_of(wrong.unwrap_or(Diagnostics(Vec::new())), points.len()))
}

/// All combinations of flags' values, the last flag's the fastest.
fn combined<'a>(axes: impl Iterator<Item = (&'a str, &'a [String])>) -> Vec<Flags> {
    axes.fold(vec![Flags::new()], |points, (flag, values)| {
        let with_each = |point: &Flags| {
            let with = |value: &String| {
                let mut point = point.clone();
                point.insert(flag.to_owned(), value.clone());
                point
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        points.iter().flat_map(with_each).collect()
    })
}
