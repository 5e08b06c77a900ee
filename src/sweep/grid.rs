//! Which cells a sweep has.

/// One setting and the values it takes, spelled as a user would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// A flag's name or a key path.
    pub key: String,
    /// Its values, in order.
    pub values: Vec<String>,
}

/// Axes that are combined with each other, or, within a group, advance together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    groups: Vec<Vec<Axis>>,
}

/// Why axes make no grid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// An axis without values makes a sweep without cells.
    #[error("`{key}` has no values to sweep over")]
    Empty {
        /// The axis.
        key: String,
    },
    /// Linked axes advance together.
    #[error("linked axes need equally many values: `{first}` has {first_len}, `{other}` has {other_len}")]
    Uneven {
        /// The first of the group.
        first: String,
        /// How many values it has.
        first_len: usize,
        /// One that differs.
        other: String,
        /// How many that has.
        other_len: usize,
    },
    /// A key may be set once.
    #[error("`{key}` is swept twice; link its values in one axis instead")]
    Twice {
        /// The key.
        key: String,
    },
    /// Slices are numbered from 1.
    #[error("slice {number} of {count} does not exist; slices are numbered 1 to {count}")]
    NoSuchSlice {
        /// Which was asked for.
        number: usize,
        /// Of how many.
        count: usize,
    },
}

/// One combination of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its place in the grid.
    pub index: usize,
    /// (key, value) in the order of the axes.
    pub settings: Vec<(String, String)>,
}

/// Axes and their values as an object, in their order.
#[must_use]
pub fn object_of(settings: &[(String, String)]) -> serde_json::Value {
    let pairs = settings.iter().cloned();
    serde_json::Value::Object(pairs.map(|(axis, value)| (axis, value.into())).collect())
}

impl Cell {
    /// The cell's name in files: `max-num-seqs=64 request-rate=8`, in the order of the axes. JSON quoting keeps
    /// values with spaces apart.
    #[must_use]
    pub fn name(&self) -> String {
        let quoted = |value: &str| {
            let plain = !value.is_empty()
                && !value.contains([' ', '=', '"', '\\'])
                && !value.contains(char::is_control);
            if plain {
                value.to_owned()
            } else {
                serde_json::Value::from(value).to_string()
            }
        };
        let pairs = self
            .settings
            .iter()
            .map(|(key, value)| format!("{}={}", quoted(key), quoted(value)));
        pairs.collect::<Vec<_>>().join(" ")
    }
}

impl Grid {
    /// A grid over groups of axes. Axes of one group are linked (their values advance together), groups are
    /// combined, the last varying fastest.
    ///
    /// # Errors
    /// If an axis is empty, a group uneven, or a key appears twice.
    pub fn new(groups: Vec<Vec<Axis>>) -> Result<Grid, GridError> {
        let groups: Vec<Vec<Axis>> = groups.into_iter().filter(|group| !group.is_empty()).collect();
        let mut keys = std::collections::BTreeSet::new();
        for group in &groups {
            let first = &group[0];
            for axis in group {
                if axis.values.is_empty() {
                    return Err(GridError::Empty {
                        key: axis.key.clone(),
                    });
                }
                if axis.values.len() != first.values.len() {
                    return Err(GridError::Uneven {
                        first: first.key.clone(),
                        first_len: first.values.len(),
                        other: axis.key.clone(),
                        other_len: axis.values.len(),
                    });
                }
                if !keys.insert(axis.key.as_str()) {
                    return Err(GridError::Twice {
                        key: axis.key.clone(),
                    });
                }
            }
        }
        Ok(Grid { groups })
    }

    /// All cells in order. A grid without axes has one, with no settings.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let count = self.groups.iter().map(|group| group[0].values.len()).product();
        (0..count).map(|index| self.cell(index)).collect()
    }

    fn cell(&self, index: usize) -> Cell {
        let mut rest = index;
        let mut chosen: Vec<usize> = Vec::with_capacity(self.groups.len());
        for group in self.groups.iter().rev() {
            let len = group[0].values.len();
            chosen.push(rest % len);
            rest /= len;
        }
        let groups = self.groups.iter().zip(chosen.into_iter().rev());
        let settings = groups
            .flat_map(|(group, place)| {
                group
                    .iter()
                    .map(move |axis| (axis.key.clone(), axis.values[place].clone()))
            })
            .collect();
        Cell { index, settings }
    }

    /// The cells of slice `number` of `count` (from 1): every `count`-th, so that slices cost about the same.
    ///
    /// # Errors
    /// If there is no such slice.
    pub fn slice(&self, number: usize, count: usize) -> Result<Vec<Cell>, GridError> {
        if number == 0 || number > count {
            return Err(GridError::NoSuchSlice { number, count });
        }
        Ok(self
            .cells()
            .into_iter()
            .filter(|cell| cell.index % count == number - 1)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(key: &str, values: &[&str]) -> Axis {
        Axis {
            key: key.into(),
            values: values.iter().map(|&value| value.into()).collect(),
        }
    }

    #[test]
    fn groups_are_combined_and_linked_axes_advance_together() {
        let grid = Grid::new(vec![
            vec![axis("request-rate", &["4", "8"])],
            vec![
                axis("input-len", &["128", "1024", "8192"]),
                axis("output-len", &["64", "32", "16"]),
            ],
        ]);
        let grid = grid.unwrap();
        let names: Vec<String> = grid.cells().iter().map(Cell::name).collect();
        assert_eq!(names.len(), 6);
        assert_eq!(names[0], "request-rate=4 input-len=128 output-len=64");
        assert_eq!(names[1], "request-rate=4 input-len=1024 output-len=32");
        assert_eq!(names[5], "request-rate=8 input-len=8192 output-len=16");
        let mut together: Vec<usize> = (1..=4)
            .flat_map(|n| grid.slice(n, 4).unwrap())
            .map(|cell| cell.index)
            .collect();
        together.sort_unstable();
        assert_eq!(together, [0, 1, 2, 3, 4, 5]);
        assert!(grid.slice(0, 4).is_err() && grid.slice(5, 4).is_err());
        assert_eq!(Grid::default().cells().len(), 1);
    }

    #[test]
    fn axes_that_make_no_grid_are_named() {
        let check = |groups, message: &str| {
            assert_eq!(Grid::new(groups).unwrap_err().to_string(), message);
        };
        check(vec![vec![axis("a", &[])]], "`a` has no values to sweep over");
        check(
            vec![vec![axis("a", &["1"]), axis("b", &["1", "2"])]],
            "linked axes need equally many values: `a` has 1, `b` has 2",
        );
        check(
            vec![vec![axis("a", &["1"])], vec![axis("a", &["2"])]],
            "`a` is swept twice; link its values in one axis instead",
        );
    }

    #[test]
    fn names_keep_odd_values_apart() {
        let cell = |value: &str| Cell {
            index: 0,
            settings: vec![("a".into(), value.into()), ("b".into(), "1".into())],
        };
        assert_eq!(cell("x b=2").name(), r#"a="x b=2" b=1"#);
        assert_ne!(cell("x b=2").name(), cell("x").name());
    }
}
