//! Sweeps: the axes of a scenario or of flags, and the scenario of every cell.

mod cells;
mod neutral;
mod twice;

pub use cells::{Cell, Swept, cells, unreadable, with_values};

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use toml::{Table, Value};

use super::argv;
use super::assemble::every_flag;
use super::diagnostic::SWEPT;
use super::diagnostic::{Diagnostic, Diagnostics, Place};
use super::document::{Document, Source};
use super::flags::{By, ScenarioFlags, SloFlags, TrafficFlags};

/// Most cells of one sweep.
const CELLS_MAX: usize = 1_000_000;

/// A key path or flag, and the values that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// `request_rate` or `engine.max_num_seqs`.
    pub name: String,
    /// As a flag would have them.
    pub values: Vec<String>,
}

impl Axis {
    /// `-L NAME 1,2,4`.
    pub fn list(name: &str, values: &str) -> Result<Axis, Diagnostic> {
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_string()).collect();
        if values.iter().any(String::is_empty) {
            let problem = Diagnostic::new(format!("`-L {name}` has an empty value"));
            return Err(problem.help("write the values with commas and no blanks: -L request-rate 4,8,16"));
        }
        Ok(Axis {
            name: name.to_string(),
            values,
        })
    }

    /// `-S NAME 2..32 step 2`, ends included.
    pub fn steps(name: &str, range: &str, step: &str) -> Result<Axis, Diagnostic> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let wrong = || {
            let problem = Diagnostic::new(format!("`-S {name} {range} step {step}` is not a range"));
            problem.help("write it like -S request-rate 2..32 step 2")
        };
        let (first, last) = range.split_once("..").ok_or_else(wrong)?;
        let (first, last, step) = (
            number(first).ok_or_else(wrong)?,
            number(last).ok_or_else(wrong)?,
            number(step).ok_or_else(wrong)?,
        );
        let count = ((last - first) / step + 1e-9).floor();
        if !(step != 0.0 && count >= 0.0) {
            return Err(wrong());
        }
        if count >= CELLS_MAX as f64 {
            let message = format!("`-S {name} {range} step {step}` has {:e} values", count + 1.0);
            return Err(Diagnostic::new(message).help(format!(
                "a sweep has at most {CELLS_MAX} runs: take a larger step"
            )));
        }
        // Each value from its index: a running sum would collect rounding errors.
        let values = (0..=count as u64)
            .map(|at| tidy(first + at as f64 * step))
            .collect();
        Ok(Axis {
            name: name.to_string(),
            values,
        })
    }
}

/// `0.3` rather than `0.30000000000000004`.
fn tidy(value: f64) -> String {
    let rounded = (value * 1e9).round() / 1e9;
    rounded.to_string()
}

/// The axes that a scenario's `[sweep]` names, in alphabetical order.
pub fn of_scenario(document: &Document) -> Result<Vec<Axis>, Diagnostics> {
    let mut axes = Vec::new();
    let mut problems = Vec::new();
    if let Some(Value::Table(table)) = document.get("sweep") {
        collect("", table, document, &mut axes, &mut problems);
    }
    if problems.is_empty() {
        Ok(axes)
    } else {
        Err(Diagnostics(problems))
    }
}

fn collect(
    path: &str,
    table: &Table,
    document: &Document,
    axes: &mut Vec<Axis>,
    problems: &mut Vec<Diagnostic>,
) {
    for (key, value) in table {
        let name = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match value {
            Value::Table(inner) => collect(&name, inner, document, axes, problems),
            Value::Array(values) if !values.is_empty() => {
                let values = values
                    .iter()
                    .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_string))
                    .collect();
                axes.push(Axis { name, values });
            }
            _ => {
                let problem = Diagnostic::new(format!("`{name}` is not a list of values"))
                    .at(document.place(&format!("sweep.{name}")));
                problems.push(problem.help("write it like request_rate = [1, 4, 10]"));
            }
        }
    }
}

/// What is wrong with the names of a scenario's `[sweep]`, each at its line: they are those of flags, or paths of keys.
#[must_use]
pub fn wrong_names(document: &Document) -> Vec<Diagnostic> {
    let Ok(axes) = of_scenario(document) else {
        // No list of values: a sweep says so.
        return Vec::new();
    };
    let known: Vec<String> = known().iter().map(|name| name.replace('-', "_")).collect();
    let is_wrong = |axis: &&Axis| !axis.name.contains('.') && !is_flag(&axis.name);
    let wrong = axes.iter().filter(is_wrong).map(|axis| {
        let near = crate::nearest::nearest(&axis.name, known.iter().map(String::as_str), 1);
        let problem = Diagnostic::new(format!("unknown axis `{}` in [sweep]", axis.name))
            .at(document.place(&format!("sweep.{}.@key", axis.name)));
        match (argv::hint(&axis.name), &near[..]) {
            (Some(hint), _) => problem.help(hint),
            (None, [near, ..]) => problem.help(format!("did you mean `{near}`?")),
            (None, []) => problem.help(AXES),
        }
    });
    wrong.collect()
}

/// What an axis may be.
const AXES: &str = "an axis is a flag of `plimsoll run`, request_rate or tensor_parallel_size, or the path of a key, \
                    \"engine.max_num_seqs\"; `plimsoll run --help` lists the flags";

/// Flags that name what axes are put upon.
const COMMON: [&str; 3] = ["scenario", "serve-cmd", "bench-cmd"];

/// Whether the command line takes it as a flag, in any spelling of vLLM's.
pub(super) fn is_flag(name: &str) -> bool {
    let name = name.trim_start_matches('-').replace('_', "-");
    let normal = argv::normalise(&[format!("--{name}=1")]);
    if !normal.ignored.is_empty() || !normal.problems.is_empty() {
        return true;
    }
    let known = known();
    let given = normal.args.iter().filter_map(|arg| arg.strip_prefix("--"));
    let mut names = given.map(|arg| arg.split('=').next().unwrap_or(arg));
    names.all(|name| known.iter().any(|known| known == name))
}

/// Flags of a scenario, other spellings included.
fn known() -> Vec<String> {
    let flags = Flags::command();
    let all = flags.get_arguments().flat_map(|arg| {
        let others = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(others)
    });
    all.map(str::to_owned).collect()
}

/// What is wrong with an axis that takes the place of a value that a plain flag gives.
#[must_use]
pub fn given_beside(axis: &Axis, document: &Document) -> Option<Diagnostic> {
    let mut cell = document.clone();
    if !apply(&mut cell, &axis.name, axis.values.first()?).is_empty() {
        // A name or a value that is wrong is told with the cells.
        return None;
    }
    let set = cell.set_by(SWEPT);
    // Flags beside a pasted command take the place of its own, and axes do.
    let is_pasted = |flag: &str| flag.starts_with("--serve-cmd") || flag.starts_with("--bench-cmd");
    let is_axis = |flag: &str| axis.name.contains('.') || flag == format!("--{}", own_name(&axis.name));
    let own = |key: &str, swept: &Value| match document.source(key)? {
        Source::Flag(flag) if !is_pasted(&flag) => {
            let value = document.get(key)?.clone();
            // Of another flag's keys an axis may write some again, as a rate does with the shape of its law.
            (is_axis(&flag) || value != *swept).then_some((flag, value))
        }
        _ => None,
    };
    let (flag, value) = set.iter().find_map(|(key, _, swept)| own(key, swept))?;
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(refuse_beside(axis, &flag, &value))
}

/// The same, where it is known.
#[must_use]
pub fn refuse_beside(axis: &Axis, flag: &str, value: &str) -> Diagnostic {
    let swept = axis.values.join(", ");
    let place = Place::Flag(flag.to_owned());
    let number = |text: &str| text.parse::<f64>().ok();
    let is_same = |own: &str| own == value || (number(own).is_some() && number(own) == number(value));
    if axis.values.iter().any(|own| is_same(own)) {
        return Diagnostic::new(format!(
            "`{flag}` is given as {value} and swept over ({swept}), too"
        ))
        .at(place)
        .help("leave the flag out");
    }
    Diagnostic::new(format!(
        "`{flag}` is given as {value} and swept over ({swept}): no run would have that value"
    ))
    .at(place)
    .help("leave the flag out, or add its value to the axis")
}

/// Flags as clap reads them, without a command around.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    flags: ScenarioFlags,
}

/// Sets one key or flag by itself.
pub fn apply(document: &mut Document, name: &str, value: &str) -> Vec<Diagnostic> {
    if name.contains('.') {
        return set_key(document, name, value).err().into_iter().collect();
    }
    let mut flags = ScenarioFlags::default();
    match set_flag(&mut flags, name, value) {
        Ok(own) => every_flag(document, &flags, By::Cell(&[own])),
        Err(problems) => problems,
    }
}

/// Sets one key.
fn set_key(document: &mut Document, name: &str, value: &str) -> Result<(), Diagnostic> {
    let axis = format!("{SWEPT}{name}");
    if let Some(problem) = beyond_list(document, name) {
        return Err(problem.at(Place::Flag(axis)));
    }
    document.set(name, scalar(value), &axis);
    Ok(())
}

/// The flag of this name in any spelling, as it is named here.
#[must_use]
pub fn own_name(name: &str) -> String {
    let name = name.trim_start_matches('-').replace('_', "-");
    let normal = argv::normalise(&[format!("--{name}=1")]);
    let said = normal.args.first().and_then(|arg| arg.strip_prefix("--"));
    let said = said.map_or(name.as_str(), |said| said.split('=').next().unwrap_or(said));
    let flags = Flags::command();
    let has_alias = |arg: &&clap::Arg| arg.get_all_aliases().is_some_and(|all| all.contains(&said));
    let of_alias = flags
        .get_arguments()
        .find(has_alias)
        .and_then(clap::Arg::get_long);
    of_alias.unwrap_or(said).to_owned()
}

/// Whether an axis sets the traffic, in part or as a whole, and not what serves it: a flag of it, or a key of `[workload]`.
#[must_use]
pub fn sets_traffic(name: &str) -> bool {
    sets::<TrafficFlags>(name, "workload.")
}

/// Whether an axis sets the SLO: a flag of it, or a key of `[slo]` or of a class's limits.
#[must_use]
pub fn sets_slo(name: &str) -> bool {
    let is_of_class = name.contains("workload.classes.") && name.contains(".goodput.");
    is_of_class || sets::<SloFlags>(name, "slo.")
}

/// Whether an axis is one of these flags, or a key of this table.
fn sets<F: Args>(name: &str, table: &str) -> bool {
    if name.contains('.') {
        return name.trim_start_matches('-').starts_with(table);
    }
    let own = own_name(name);
    let flags = F::augment_args(clap::Command::new(""));
    flags.get_arguments().any(|arg| arg.get_long() == Some(&own))
}

/// Reads one value into flags, over what they say; the flag's own name.
fn set_flag(flags: &mut ScenarioFlags, name: &str, value: &str) -> Result<String, Vec<Diagnostic>> {
    let place = Place::of_axis(name);
    let flag = format!("--{}={value}", name.trim_start_matches('-').replace('_', "-"));
    let normal = argv::normalise(&[flag]);
    if let Some(reason) = normal.ignored.first() {
        return Err(vec![
            Diagnostic::new(format!("`{name}` is no axis: {reason}")).at(place),
        ]);
    }
    if !normal.problems.is_empty() {
        return Err(normal.problems);
    }
    let own = own_name(name);
    if COMMON.contains(&own.as_str()) {
        let problem = Diagnostic::new(format!("`{name}` is no axis: all cells have it in common"));
        return Err(vec![problem.at(place)]);
    }
    let mut read = Flags {
        flags: std::mem::take(flags),
    };
    // Limits add up: each is as good as a flag of its own.
    let limits = (
        std::mem::take(&mut read.flags.slo.goodput),
        std::mem::take(&mut read.flags.slo.slo),
    );
    let parsed = Flags::command()
        .try_get_matches_from(&normal.args)
        .and_then(|matches| read.update_from_arg_matches(&matches));
    *flags = read.flags;
    flags.slo.goodput.splice(0..0, limits.0);
    flags.slo.slo.splice(0..0, limits.1);
    let Err(error) = parsed else {
        return Ok(own);
    };
    let text = error.to_string();
    let first = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    let known = Flags::command();
    let names: Vec<&str> = known.get_arguments().filter_map(clap::Arg::get_long).collect();
    let is_unknown = error.kind() == clap::error::ErrorKind::UnknownArgument;
    let why = if is_unknown { "no flag and no key" } else { first };
    let mut problem = Diagnostic::new(format!("cannot sweep over `{name}`"))
        .label(why)
        .at(place);
    if let Some(hint) = argv::hint(name).filter(|_| is_unknown) {
        problem = problem.help(hint);
    } else if let [near, ..] = crate::nearest::nearest(name, names.iter().copied(), 1)[..]
        && near.replace('-', "_") != name.replace('-', "_")
    {
        problem = problem.help(format!("did you mean `{near}`?"));
    } else if is_unknown {
        problem = problem.help(AXES);
    }
    Err(vec![problem])
}

/// An axis that names an item that a list does not have: setting it would make a table of the list.
fn beyond_list(document: &Document, name: &str) -> Option<Diagnostic> {
    let points = name.match_indices('.').map(|(at, _)| at);
    points.into_iter().find_map(|at| {
        let Some(Value::Array(items)) = document.get(&name[..at]) else {
            return None;
        };
        let rest = &name[at + 1..];
        let index = rest.split('.').next().unwrap_or(rest);
        if index.parse::<usize>().is_ok_and(|index| index < items.len()) {
            return None;
        }
        let list = &name[..at];
        let problem = Diagnostic::new(format!("`{name}` is no axis: `{list}` has no item `{index}`"));
        Some(match items.len() {
            0 => problem.help("the list is empty"),
            1 => problem.help(format!("its only item is {list}.0")),
            more => problem.help(format!("its items are {list}.0 to {list}.{}", more - 1)),
        })
    })
}

/// A TOML value from a flag's text.
fn scalar(text: &str) -> Value {
    let integer = text.parse().map(Value::Integer).ok();
    let float = || text.parse().map(Value::Float).ok();
    let boolean = || text.parse().map(Value::Boolean).ok();
    integer
        .or_else(float)
        .or_else(boolean)
        .unwrap_or_else(|| Value::String(text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_told_from_what_serves_it() {
        let sent = [
            "request-rate",
            "--input_len",
            "max-concurrency",
            "users",
            "workload.prefix.sessions.think_time",
        ];
        let serves = [
            "gpu",
            "tp",
            "max_num_seqs",
            "engine.block_size",
            "acceptance-rate",
            "goodput",
        ];
        assert!(sent.into_iter().all(sets_traffic));
        for axis in serves {
            assert!(!sets_traffic(axis), "{axis}");
        }
    }

    #[test]
    fn an_item_that_a_list_does_not_have_is_no_axis() {
        let text = "[[cluster.pools]]\nname = \"a\"\n[[cluster.pools]]\nname = \"b\"\n";
        let mut document = Document::parse("a.toml", text).unwrap();
        assert!(apply(&mut document, "cluster.pools.1.replicas", "2").is_empty());
        let problems = apply(&mut document, "cluster.pools.9.replicas", "2");
        let told = Diagnostics(problems).render(false);
        assert!(
            told.contains("`cluster.pools` has no item `9`")
                && told.contains("cluster.pools.0 to cluster.pools.1"),
            "{told}"
        );
    }

    #[test]
    fn an_axis_of_a_file_that_means_nothing_is_told_at_its_line() {
        let text = "[sweep]\nrequest_rate = [1]\nfoo = [1]\ninput_len = [1]\ntp = [1]\n\"engine.block_size\" = [16]\n\
                    max_num_seq = [1]\n";
        let told = Diagnostics(wrong_names(&Document::parse("a.toml", text).unwrap())).render(false);
        assert!(
            told.contains("unknown axis `foo`")
                && told.contains("a.toml:3:1")
                && told.contains("path of a key"),
            "{told}"
        );
        assert!(told.contains("did you mean `max_num_seqs`?"), "{told}");
        assert_eq!(told.matches("unknown axis").count(), 2, "{told}");
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(
            Axis::steps("x", "2..8", "2").unwrap().values,
            ["2", "4", "6", "8"]
        );
        assert_eq!(
            Axis::steps("x", "0.1..0.3", "0.1").unwrap().values,
            ["0.1", "0.2", "0.3"]
        );
        for bad in [
            ("1..2", "0"),
            ("2..1", "1"),
            ("1-2", "1"),
            ("1..nan", "1"),
            ("0..1", "1e-12"),
        ] {
            assert!(Axis::steps("x", bad.0, bad.1).is_err(), "{bad:?}");
        }
    }
}
