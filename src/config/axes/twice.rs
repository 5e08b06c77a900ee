//! What a sweep gives twice: an axis, or a value of one. Either would be simulated again and told as if it were another run.

use super::Axis;
use crate::config::diagnostic::{Diagnostic, Place};
use crate::config::document::Document;

/// Values of an axis that are held against each other.
const LISTED_MAX: usize = 2000;

/// Two axes that set the same thing: the last would win in every cell.
pub(super) fn given_twice(axes: &[Axis]) -> Option<Diagnostic> {
    let path = |axis: &Axis| axis.name.trim_start_matches('-').replace('-', "_");
    let last = |path: &str| path.rsplit_once('.').map_or(path, |(_, last)| last).to_string();
    let is_same = |one: &str, other: &str| {
        one == other || (!(one.contains('.') && other.contains('.')) && last(one) == last(other))
    };
    let at = (1..axes.len()).find(|&at| {
        axes[..at]
            .iter()
            .any(|before| is_same(&path(before), &path(&axes[at])))
    })?;
    let problem = Diagnostic::new(format!("the axis `{}` is given twice", axes[at].name));
    Some(problem.help("write all its values in one list"))
}

/// A value that stands twice on an axis, `2` and `2.0` alike: its cells are one run. Linked axes repeat themselves where all do.
pub(super) fn repeated(document: &Document, axes: &[Axis], linked: bool) -> Option<Diagnostic> {
    let is_same = |one: &String, other: &String| match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    };
    let told = |axes: &[Axis], at: usize| {
        let given = axes.iter().filter_map(|axis| Some((axis, axis.values.get(at)?)));
        let given: Vec<String> = given
            .map(|(axis, value)| format!("`{}` = {value}", axis.name))
            .collect();
        let first = axes.first().map_or("", |axis| axis.name.as_str());
        let place = match document.place(&format!("sweep.{first}")) {
            Place::Nowhere => Place::of_axis(first),
            place => place,
        };
        Diagnostic::new(format!("{} is given twice", given.join(", ")))
            .at(place)
            .help("a run stands for its value once: leave one out; for more draws of the traffic sweep over `seed`")
    };
    // Only the indices of a short list are compared: a long one is a range, whose values differ.
    let second = |axes: &[Axis]| {
        let length = axes.iter().map(|axis| axis.values.len()).min().unwrap_or(0);
        (1..length.min(LISTED_MAX)).find(|&at| {
            (0..at).any(|before| {
                axes.iter()
                    .all(|axis| is_same(&axis.values[before], &axis.values[at]))
            })
        })
    };
    if linked {
        return second(axes).map(|at| told(axes, at));
    }
    axes.chunks(1)
        .find_map(|axis| second(axis).map(|at| told(axis, at)))
}

#[cfg(test)]
mod tests {
    use super::super::{cells, of_scenario};
    use super::*;

    #[test]
    fn an_axis_given_twice_is_refused() {
        for (first, second) in [
            ("request-rate", "request-rate"),
            ("request-rate", "request_rate"),
            ("max-num-seqs", "engine.max_num_seqs"),
        ] {
            let axes = [first, second].map(|name| Axis::list(name, "1,2").unwrap());
            let error = cells(&Document::default(), &axes, false, |_| Ok(Document::default())).unwrap_err();
            assert!(error.to_string().contains("is given twice"), "{error}");
        }
    }

    #[test]
    fn a_value_given_twice_is_refused() {
        let told = |rates: &str, seqs: &str, linked: bool| {
            let axes = [("request-rate", rates), ("max-num-seqs", seqs)];
            let axes = axes.map(|(name, values)| Axis::list(name, values).unwrap());
            cells(&Document::default(), &axes, linked, |_| Ok(Document::default()))
                .map_or_else(|error| error.render(false), |_| String::new())
        };
        insta::assert_snapshot!(told("2,4,2.0", "8", false), @r"
        error: `request-rate` = 2.0 is given twice
         |
         = help: a run stands for its value once: leave one out; for more draws of the traffic sweep over `seed`
        ");
        let both = told("4,4", "8,8", true);
        assert!(
            both.contains("`request-rate` = 4, `max-num-seqs` = 8 is given twice"),
            "{both}"
        );
        assert_eq!(told("4,4", "8,16", true), "");
        let document = Document::parse("a.toml", "[sweep]\nrequest_rate = [1, 2, 1]\n").unwrap();
        let axes = of_scenario(&document).unwrap();
        let told = cells(&document, &axes, false, |_| Ok(document.clone()))
            .unwrap_err()
            .render(false);
        assert!(told.contains("a.toml:2:"), "{told}");
    }
}
