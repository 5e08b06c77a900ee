//! Which axis of a sweep lies along the foot of a chart, which is told by lines and which by panes side by side.
//!
//! Axes that advance together (`--link`) are one, and runs that differ in their seed only are one point. A rate lies along
//! the foot where there is one, else what has numbers, most values first. Law: every cell has a place, or the sweep is
//! refused before anything is simulated.

use std::collections::BTreeSet;

/// Most lines that colours tell apart.
pub const LINES_MAX: usize = 7;
/// Most panes beside one another.
pub const PANES_MAX: usize = 4;

/// Axis and value, in the order of the axes: what names a cell.
pub type Settings = [(String, String)];

/// Why a sweep cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undrawable {
    /// More axes vary than a picture has places for.
    #[error("a chart has places for three axes, and this sweep varies {}: {}", .0.len(), .0.join(", "))]
    Axes(Vec<String>),
    /// Axes have too many values to be told apart.
    #[error("a chart tells {LINES_MAX} lines and {PANES_MAX} panes apart beside the values along its foot; {}", .0.join(", "))]
    Values(Vec<String>),
}

/// What varies, and its values in the order in which they are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// As the user spelt it; of axes that advance together all, with colons between.
    pub name: String,
    /// As the user spelt them.
    pub values: Vec<String>,
}

impl Swept {
    /// The values as numbers; `None` where one of them is none.
    #[must_use]
    pub fn numbers(&self) -> Option<Vec<f64>> {
        let number = |text: &String| text.parse().ok().filter(|value: &f64| value.is_finite());
        self.values.iter().map(number).collect()
    }

    /// The same where one of them may be `inf` beside others that are finite.
    #[must_use]
    pub fn numbers_or_inf(&self) -> Option<Vec<f64>> {
        let number = |text: &String| text.parse().ok().filter(|value: &f64| *value > f64::NEG_INFINITY);
        let numbers: Vec<f64> = self.values.iter().map(number).collect::<Option<_>>()?;
        let endless = numbers.iter().filter(|number| number.is_infinite()).count();
        (endless <= 1 && endless < numbers.len()).then_some(numbers)
    }

    /// Whether the values have an order of their own: numbers, shares like `1 : 3`, `inf`.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        let is_number = |text: &str| text.trim().parse::<f64>().is_ok();
        self.values.iter().all(|value| value.split(':').all(is_number))
    }

    /// Whether it is the offered load.
    #[must_use]
    pub fn is_rate(&self) -> bool {
        is_named(&self.name, "request_rate") && self.numbers_or_inf().is_some()
    }
}

/// Where a cell is drawn: indices of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Which pane, from the left.
    pub pane: usize,
    /// Which line.
    pub line: usize,
    /// Which value along the foot.
    pub at: usize,
}

/// What is drawn where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepLayout {
    /// Along the foot.
    pub across: Swept,
    /// One line for each value.
    pub lines: Option<Swept>,
    /// One pane for each value.
    pub panes: Option<Swept>,
    /// Axes of one value.
    pub fixed: Vec<(String, String)>,
    /// Of each cell, in their order.
    pub spots: Vec<Spot>,
}

/// Axes that advance together.
#[derive(Clone)]
struct Group {
    swept: Swept,
    /// The index of each cell's value.
    of_cell: Vec<usize>,
}

impl SweepLayout {
    /// Finds a place for every cell.
    ///
    /// # Errors
    /// If more varies than one picture shows.
    pub fn of(cells: &[&Settings]) -> Result<SweepLayout, Undrawable> {
        let axes = (0..cells.first().map_or(0, |cell| cell.len())).map(|axis| group(cells, axis));
        let (fixed, varying): (Vec<Group>, Vec<Group>) = axes.partition(|axis| axis.swept.values.len() < 2);
        let mut groups = together(varying);
        // Runs that differ in their seed alone are one point with an interval.
        match &mut groups[..] {
            [seeds] if is_named(&seeds.swept.name, "seed") => {
                seeds.swept.values = vec![format!("{} seeds", seeds.swept.values.len())];
                seeds.of_cell.fill(0);
            }
            _ => groups.retain(|group| !is_named(&group.swept.name, "seed")),
        }
        let mut fixed = fixed.into_iter();
        if groups.is_empty() {
            groups.extend(fixed.next());
        }
        let fixed = fixed
            .map(|group| (group.swept.name, group.swept.values.join("")))
            .collect();
        let names = || groups.iter().map(|group| group.swept.name.clone()).collect();
        if groups.len() > 3 {
            return Err(Undrawable::Axes(names()));
        }
        let order = order(&groups).ok_or_else(|| {
            let told =
                |group: &Group| format!("{} has {} values", group.swept.name, group.swept.values.len());
            Undrawable::Values(groups.iter().map(told).collect())
        })?;
        let mut chosen = order.iter().map(|&index| groups[index].clone());
        let across = sorted(chosen.next().unwrap_or_else(|| Group {
            swept: Swept {
                name: String::new(),
                values: Vec::new(),
            },
            of_cell: vec![0; cells.len()],
        }));
        let (lines, panes) = (chosen.next(), chosen.next());
        let index =
            |group: &Option<Group>, cell: usize| group.as_ref().map_or(0, |group| group.of_cell[cell]);
        let spots = (0..cells.len()).map(|cell| Spot {
            pane: index(&panes, cell),
            line: index(&lines, cell),
            at: across.of_cell[cell],
        });
        Ok(SweepLayout {
            spots: spots.collect(),
            across: across.swept,
            lines: lines.map(|group| group.swept),
            panes: panes.map(|group| group.swept),
            fixed,
        })
    }
}

/// Whether an axis is a flag or key, however it is spelt: `--request-rate`, `workload.seed`.
pub(super) fn is_named(axis: &str, key: &str) -> bool {
    let path = axis.trim_start_matches('-').replace('-', "_");
    path.rsplit('.').next() == Some(key)
}

/// One axis by itself.
fn group(cells: &[&Settings], axis: usize) -> Group {
    let mut values: Vec<String> = Vec::new();
    let mut index = |value: &String| {
        values.iter().position(|known| known == value).unwrap_or_else(|| {
            values.push(value.clone());
            values.len() - 1
        })
    };
    let of_cell = cells.iter().map(|cell| index(&cell[axis].1)).collect();
    Group {
        swept: Swept {
            name: cells[0][axis].0.clone(),
            values,
        },
        of_cell,
    }
}

/// Axes whose values determine one another made into one.
fn together(axes: Vec<Group>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for axis in axes {
        let is_bound = |group: &&mut Group| {
            let pairs: BTreeSet<_> = group.of_cell.iter().zip(&axis.of_cell).collect();
            pairs.len() == group.swept.values.len() && pairs.len() == axis.swept.values.len()
        };
        let Some(group) = groups.iter_mut().find(is_bound) else {
            groups.push(axis);
            continue;
        };
        group.swept.name = format!("{} : {}", group.swept.name, axis.swept.name);
        for (at, value) in group.swept.values.iter_mut().enumerate() {
            let cell = group.of_cell.iter().position(|of_cell| *of_cell == at);
            let other = cell.map_or(0, |cell| axis.of_cell[cell]);
            *value = format!("{value} : {}", axis.swept.values[other]);
        }
    }
    groups
}

/// Which group lies along the foot, which is told by lines and which by panes: the best arrangement in which all values
/// can be told apart.
fn order(groups: &[Group]) -> Option<Vec<usize>> {
    let number = groups.len();
    let values = |index: usize| groups[index].swept.values.len();
    let arrangements: Vec<Vec<usize>> = match number {
        0 => vec![Vec::new()],
        1 => vec![vec![0]],
        2 => vec![vec![0, 1], vec![1, 0]],
        _ => (0..3)
            .flat_map(|first| {
                let (second, third) = ((first + 1) % 3, (first + 2) % 3);
                let (second, third) = (second.min(third), second.max(third));
                [vec![first, second, third], vec![first, third, second]]
            })
            .collect(),
    };
    let fits = |order: &&Vec<usize>| {
        order.get(1).is_none_or(|&lines| values(lines) <= LINES_MAX)
            && order.get(2).is_none_or(|&panes| values(panes) <= PANES_MAX)
    };
    // The smallest of these comes first; where two are alike, the one named first.
    let rank = |order: &&Vec<usize>| {
        let Some(&first) = order.first() else {
            return (false, false, 0, 0);
        };
        let across = &groups[first].swept;
        let panes = order.get(2).map_or(0, |&panes| values(panes));
        (
            !across.is_rate(),
            across.numbers_or_inf().is_none(),
            usize::MAX - values(first),
            panes,
        )
    };
    arrangements.iter().filter(fits).min_by_key(rank).cloned()
}

/// Numbers in ascending order, `inf` last.
fn sorted(group: Group) -> Group {
    let Some(numbers) = group.swept.numbers_or_inf() else {
        return group;
    };
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[a].total_cmp(&numbers[b]));
    let mut place = vec![0; order.len()];
    for (at, &index) in order.iter().enumerate() {
        place[index] = at;
    }
    Group {
        swept: Swept {
            values: order
                .iter()
                .map(|&index| group.swept.values[index].clone())
                .collect(),
            ..group.swept
        },
        of_cell: group.of_cell.iter().map(|&index| place[index]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of cells written as `a=1 b=x`.
    fn layout(cells: &[&str]) -> Result<SweepLayout, Undrawable> {
        let setting = |word: &str| {
            let (axis, value) = word.split_once('=').unwrap();
            (axis.to_owned(), value.to_owned())
        };
        let cells: Vec<Vec<_>> = cells
            .iter()
            .map(|cell| cell.split(' ').map(setting).collect())
            .collect();
        let cells: Vec<&Settings> = cells.iter().map(Vec::as_slice).collect();
        SweepLayout::of(&cells)
    }

    fn told(layout: &SweepLayout) -> String {
        let part = |swept: &Swept| format!("{} [{}]", swept.name, swept.values.join(" "));
        let parts = [Some(&layout.across), layout.lines.as_ref(), layout.panes.as_ref()];
        let parts: Vec<String> = parts.into_iter().flatten().map(part).collect();
        parts.join(" | ")
    }

    /// Every combination of `axes`, each a name and its values.
    fn grid(axes: &[(&str, &[&str])]) -> Result<SweepLayout, Undrawable> {
        let mut cells = vec![String::new()];
        for (name, values) in axes {
            let longer = |cell: &String| {
                let word = |value| format!("{cell} {name}={value}").trim().to_owned();
                values.iter().map(word).collect::<Vec<_>>()
            };
            cells = cells.iter().flat_map(longer).collect();
        }
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        layout(&cells)
    }

    #[test]
    fn a_rate_lies_along_the_foot_then_what_has_most_numbers() {
        let seqs: (&str, &[&str]) = ("max-num-seqs", &["8", "16", "32"]);
        let found = |axes: &[(&str, &[&str])]| told(&grid(axes).unwrap());
        assert_eq!(
            found(&[seqs, ("request-rate", &["4", "2"])]),
            "request-rate [2 4] | max-num-seqs [8 16 32]"
        );
        assert_eq!(
            found(&[("gpu", &["h100", "l40s"]), seqs]),
            "max-num-seqs [8 16 32] | gpu [h100 l40s]"
        );
        assert_eq!(
            found(&[
                ("gpu", &["a", "b", "c", "d", "e"]),
                seqs,
                ("engine.x", &["1", "2"])
            ]),
            "max-num-seqs [8 16 32] | gpu [a b c d e] | engine.x [1 2]",
            "what has five values fits as lines only"
        );
    }

    #[test]
    fn a_rate_without_end_lies_behind_the_others() {
        let found = grid(&[
            ("request-rate", &["inf", "1", "8"]),
            ("chunk", &["64", "512", "1024", "2048"]),
        ]);
        let found = found.unwrap();
        assert_eq!(told(&found), "request-rate [1 8 inf] | chunk [64 512 1024 2048]");
        assert!(found.across.is_rate() && found.across.numbers().is_none());
        assert!(
            !Swept {
                name: "request-rate".to_owned(),
                values: vec!["inf".to_owned()]
            }
            .is_rate()
        );
    }

    #[test]
    fn linked_axes_are_one_and_seeds_are_points_of_one_place() {
        let linked = layout(&["prefill=1 decode=3", "prefill=2 decode=2", "prefill=3 decode=1"]).unwrap();
        assert_eq!(told(&linked), "prefill : decode [1 : 3 2 : 2 3 : 1]");
        assert!(linked.across.is_ordered() && linked.across.numbers().is_none());
        let seeds = grid(&[("workload.seed", &["1", "2"]), ("chunk", &["512", "64"])]).unwrap();
        assert_eq!(told(&seeds), "chunk [64 512]");
        assert_eq!(
            seeds.spots.iter().map(|spot| spot.at).collect::<Vec<_>>(),
            [1, 0, 1, 0]
        );
        let alone = grid(&[("seed", &["1", "2"])]).unwrap();
        assert_eq!(told(&alone), "seed [2 seeds]");
        assert_eq!(
            alone.spots,
            [Spot {
                pane: 0,
                line: 0,
                at: 0
            }; 2]
        );
    }

    #[test]
    fn what_one_picture_cannot_show_is_refused_by_name() {
        let two: &[&str] = &["1", "2"];
        let four = grid(&[("a", two), ("b", two), ("c", two), ("d", two)]).unwrap_err();
        assert!(four.to_string().ends_with("varies 4: a, b, c, d"), "{four}");
        let many: Vec<String> = (0..8).map(|at| at.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let crowded = grid(&[("a", &many), ("b", &many)]).unwrap_err();
        assert!(
            crowded.to_string().contains("a has 8 values, b has 8 values"),
            "{crowded}"
        );
        assert!(grid(&[("a", &many), ("b", &many[..7])]).is_ok());
    }

    #[test]
    fn axes_of_one_value_take_no_place() {
        let found = grid(&[("gpu", &["h100"]), ("chunk", &["64", "512"])]).unwrap();
        assert_eq!(found.fixed, [("gpu".to_owned(), "h100".to_owned())]);
        assert_eq!(told(&grid(&[("gpu", &["h100"])]).unwrap()), "gpu [h100]");
    }
}
