//! Errors of many rows in few numbers: by family, and by engine and overall with every family weighing the same.

use std::collections::BTreeMap;

use super::predict::{Compared, Figure, Outcome, Row, Side};

/// How far off one figure is.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureScore {
    /// Which.
    pub figure: Figure,
    /// Rows that have it.
    pub rows: usize,
    /// Median of |error|.
    pub median_error: f64,
    /// The same with every row weighing alike, whatever its family.
    pub rows_median_error: f64,
    /// 90th percentile of |error|.
    pub p90_error: f64,
    /// Median of the error with its sign.
    pub bias: f64,
    /// Share of the measured values that lie in the 90 % interval; `None` without intervals.
    pub inside_90: Option<f64>,
}

/// Why rows were not simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// As one sentence.
    pub why: String,
    /// Where these rows stand, one each; empty of one that is its whole file.
    pub places: Vec<String>,
}

/// How far off a family is, or all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The family; `overall` for all.
    pub name: String,
    /// Its rows.
    pub rows: usize,
    /// Of them, those that were simulated.
    pub modelled: usize,
    /// Whether its rows fitted a calibration.
    pub is_calibration: bool,
    /// By figure, those that some row has.
    pub figures: Vec<FigureScore>,
    /// TTFT on either side of saturation and where there is no rate, those that some row has.
    pub ttft_by_side: Vec<(Side, FigureScore)>,
    /// Share of all its measured values that lie in their 90 % intervals; `None` without intervals.
    pub inside_90: Option<f64>,
    /// Why rows were not simulated, the reason of most rows first.
    pub reasons: Vec<Reason>,
    /// What had to be assumed of those that were, and how often each, most first.
    pub assumptions: Vec<(String, usize)>,
    /// What their flags say without effect, and how often each, most first.
    pub ignored: Vec<(String, usize)>,
}

/// Scores every family in order of name, then all together.
#[must_use]
pub fn scores(rows: &[Row]) -> (Vec<Score>, Score) {
    let mut families: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        families.entry(&row.family).or_default().push(row);
    }
    let of = |(name, rows): (&&str, &Vec<&Row>)| score(name, rows, &|_| 1.0);
    let each: Vec<Score> = families.iter().map(of).collect();
    let all: Vec<&Row> = rows.iter().collect();
    (each, families_alike("overall", &all))
}

/// Scores what each engine served, in order of name, families weighing the same: what holds for one need not for another.
#[must_use]
pub fn scores_by_engine(rows: &[Row]) -> Vec<Score> {
    let mut engines: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.engine.is_empty()) {
        engines.entry(&row.engine).or_default().push(row);
    }
    engines
        .iter()
        .map(|(name, rows)| families_alike(name, rows))
        .collect()
}

/// Scores rows of several families, each of which weighs 1 whatever its size and however many figures its rows have.
fn families_alike(name: &str, rows: &[&Row]) -> Score {
    let mut predicted: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_predicted(row)) {
        predicted.entry(&row.family).or_default().push(row);
    }
    let weight = |row: &Row| {
        predicted
            .get(row.family.as_str())
            .map_or(0.0, |rows| 1.0 / rows.len() as f64)
    };
    let shares: Vec<f64> = predicted
        .values()
        .filter_map(|rows| inside_90(rows, &|_| 1.0, &|_| true))
        .collect();
    Score {
        inside_90: (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64),
        ..score(name, rows, &weight)
    }
}

fn is_predicted(row: &Row) -> bool {
    matches!(row.outcome, Outcome::Predicted { .. })
}

fn score(name: &str, rows: &[&Row], weight: &dyn Fn(&Row) -> f64) -> Score {
    let outcomes = || rows.iter().map(|row| &row.outcome);
    Score {
        name: name.to_owned(),
        rows: rows.len(),
        modelled: rows.iter().filter(|row| is_predicted(row)).count(),
        is_calibration: !rows.is_empty() && rows.iter().all(|row| row.suggested_use == "calibrate"),
        figures: Figure::ALL
            .iter()
            .filter_map(|figure| figure_score(*figure, rows, weight))
            .collect(),
        ttft_by_side: Side::ALL
            .iter()
            .filter_map(|side| {
                let of_side: Vec<&Row> = rows.iter().copied().filter(|row| row.side == *side).collect();
                Some((*side, figure_score(Figure::Ttft, &of_side, weight)?))
            })
            .collect(),
        inside_90: inside_90(rows, weight, &|_| true),
        reasons: reasons(rows),
        assumptions: counted(outcomes().flat_map(|outcome| match outcome {
            Outcome::Predicted { assumptions, .. } => assumptions.as_slice(),
            Outcome::NotModelled(_) => &[],
        })),
        ignored: counted(outcomes().flat_map(|outcome| match outcome {
            Outcome::Predicted { ignored, .. } => ignored.as_slice(),
            Outcome::NotModelled(_) => &[],
        })),
    }
}

/// Each reason with the places of its rows, in their order.
fn reasons(rows: &[&Row]) -> Vec<Reason> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (why, row) in rows.iter().filter_map(|row| Some((row.outcome.reason()?, row))) {
        places.entry(why).or_default().push(row.place.clone());
    }
    let mut reasons: Vec<Reason> = places
        .into_iter()
        .map(|(why, places)| Reason {
            why: why.to_owned(),
            places,
        })
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.places.len()));
    reasons
}

/// How often each sentence comes, the most frequent first.
fn counted<'a>(sentences: impl Iterator<Item = &'a String>) -> Vec<(String, usize)> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for sentence in sentences {
        *found.entry(sentence).or_default() += 1;
    }
    let mut found: Vec<(String, usize)> = found
        .into_iter()
        .map(|(sentence, number)| (sentence.to_owned(), number))
        .collect();
    found.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    found
}

/// The weighted share of the chosen figures that lie in their intervals.
fn inside_90(
    rows: &[&Row],
    weight: &dyn Fn(&Row) -> f64,
    is_chosen: &dyn Fn(&Compared) -> bool,
) -> Option<f64> {
    let (mut inside, mut all) = (0.0, 0.0);
    for row in rows {
        let figures = row.outcome.figures().iter();
        let chosen = figures.filter(|compared| is_chosen(compared));
        for is_inside in chosen.filter_map(Compared::is_inside_90) {
            let weight = weight(row);
            all += weight;
            inside += if is_inside { weight } else { 0.0 };
        }
    }
    (all > 0.0).then(|| inside / all)
}

fn figure_score(figure: Figure, rows: &[&Row], weight: &dyn Fn(&Row) -> f64) -> Option<FigureScore> {
    let mut errors: Vec<(f64, f64)> = Vec::new();
    for row in rows {
        let figures = row.outcome.figures().iter();
        let of_it = figures.filter(|compared| compared.figure == figure);
        errors.extend(of_it.map(|compared| (compared.error(), weight(row))));
    }
    let absolute: Vec<(f64, f64)> = errors
        .iter()
        .map(|(error, weight)| (error.abs(), *weight))
        .collect();
    let alike: Vec<(f64, f64)> = absolute.iter().map(|(error, _)| (*error, 1.0)).collect();
    Some(FigureScore {
        figure,
        rows: errors.len(),
        median_error: quantile(&absolute, 0.5)?,
        rows_median_error: quantile(&alike, 0.5)?,
        p90_error: quantile(&absolute, 0.9)?,
        bias: quantile(&errors, 0.5)?,
        inside_90: inside_90(rows, weight, &|compared| compared.figure == figure),
    })
}

/// The quantile of weighted values, interpolated between the middles of their weights (Hazen's for equal ones).
fn quantile(values: &[(f64, f64)], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let last = sorted.last()?.0;
    let target = p * sorted.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut below = 0.0;
    let mut before: Option<(f64, f64)> = None;
    for (value, weight) in sorted {
        let middle = below + weight / 2.0;
        if middle >= target {
            return Some(before.map_or(value, |(low, from)| {
                low + (value - low) * ((target - from) / (middle - from))
            }));
        }
        before = Some((value, middle));
        below += weight;
    }
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::super::interval::Uncertainty;
    use super::*;
    use crate::stats;

    fn row(family: &str, error: f64) -> Row {
        let figure = Compared {
            figure: Figure::Tpot,
            name: "mean_tpot_ms".into(),
            measured: 10.0,
            predicted: 10.0 * (1.0 + error),
            uncertainty: None,
        };
        Row {
            place: String::new(),
            family: family.into(),
            engine: "vllm".into(),
            suggested_use: "validate".into(),
            side: Side::Below,
            outcome: Outcome::Predicted {
                figures: vec![figure],
                assumptions: Vec::new(),
                ignored: Vec::new(),
            },
        }
    }

    #[test]
    fn engines_are_scored_apart_and_their_families_alike() {
        let mut rows: Vec<Row> = (0..9).map(|_| row("large", 0.5)).collect();
        rows.extend([row("small", 0.1), row("small", 0.1)]);
        rows.extend((0..3).map(|_| Row {
            engine: "sglang".into(),
            ..row("large", -0.2)
        }));
        let engines = scores_by_engine(&rows);
        let names: Vec<&str> = engines.iter().map(|score| score.name.as_str()).collect();
        assert_eq!(names, ["sglang", "vllm"]);
        let medians: Vec<f64> = engines
            .iter()
            .map(|score| score.figures[0].median_error)
            .collect();
        assert!(
            (medians[0] - 0.2).abs() < 1e-12 && (0.1..0.5).contains(&medians[1]),
            "{medians:?}"
        );
        assert_eq!((engines[0].rows, engines[1].modelled), (3, 11));
    }

    #[test]
    fn families_weigh_the_same_whatever_their_size() {
        let mut rows: Vec<Row> = (0..99).map(|_| row("large", 0.5)).collect();
        rows.extend([row("small", -0.1), row("other", -0.1)]);
        let (families, overall) = scores(&rows);
        assert_eq!(families.len(), 3);
        let tpot = &overall.figures[0];
        assert!(tpot.median_error < 0.2 && tpot.bias < 0.0, "{tpot:?}");
        assert_eq!(tpot.rows, 101);
        assert!((tpot.rows_median_error - 0.5).abs() < 1e-12, "{tpot:?}");
    }

    #[test]
    fn the_share_inside_weighs_families_and_needs_intervals() {
        let mut rows = vec![row("a", 0.05), row("a", 0.01), row("b", 0.3)];
        assert_eq!(scores(&rows).1.inside_90, None);
        for row in &mut rows {
            let Outcome::Predicted { figures, .. } = &mut row.outcome else {
                continue;
            };
            figures[0].uncertainty = Some(Uncertainty {
                model_reach_ln: (0.16, 0.16),
                ..Uncertainty::default()
            });
        }
        let (families, overall) = scores(&rows);
        assert_eq!(
            (families[0].inside_90, families[1].inside_90),
            (Some(1.0), Some(0.0))
        );
        assert_eq!(overall.inside_90, Some(0.5));
        assert_eq!(overall.figures[0].inside_90, Some(0.5));
    }

    #[test]
    fn a_ttft_past_saturation_is_told_apart() {
        let mut rows = vec![row("a", 0.1), row("a", 0.3), row("a", 9.0)];
        for row in &mut rows {
            let Outcome::Predicted { figures, .. } = &mut row.outcome else {
                continue;
            };
            figures[0].figure = Figure::Ttft;
        }
        rows[2].side = Side::Above;
        let (families, overall) = scores(&rows);
        for score in [&families[0], &overall] {
            let told: Vec<(Side, usize, f64)> = score
                .ttft_by_side
                .iter()
                .map(|(side, one)| (*side, one.rows, (one.median_error * 1e6).round() / 1e6))
                .collect();
            assert_eq!(told, [(Side::Below, 2, 0.2), (Side::Above, 1, 9.0)]);
        }
    }

    #[test]
    fn rows_that_are_not_modelled_are_counted_with_the_reason() {
        let mut rows = vec![row("a", 0.1), row("a", 0.2), row("a", 0.3)];
        rows[0].outcome = Outcome::NotModelled("no shape".into());
        let (families, _) = scores(&rows);
        assert_eq!((families[0].rows, families[0].modelled), (3, 2));
        let [Reason { why, places }] = &families[0].reasons[..] else {
            panic!("{:?}", families[0].reasons);
        };
        assert_eq!((why.as_str(), places.len()), ("no shape", 1));
        assert!((families[0].figures[0].median_error - 0.25).abs() < 1e-12);
    }

    #[test]
    fn weighted_quantiles_are_medians_and_extremes_of_equal_weights() {
        for values in [vec![5.0, 1.0, 4.0, 2.0, 8.0, 3.0], vec![5.0, 1.0, 4.0], vec![7.0]] {
            let weighted: Vec<(f64, f64)> = values.iter().map(|value| (*value, 0.25)).collect();
            for p in [0.0, 0.5, 1.0] {
                let (is, plain) = (
                    quantile(&weighted, p).unwrap(),
                    stats::quantile(&values, p).unwrap(),
                );
                assert!((is - plain).abs() < 1e-9, "{p}: {is} {plain}");
            }
        }
        assert_eq!(quantile(&[(1.0, 3.0), (9.0, 1.0)], 0.3), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
