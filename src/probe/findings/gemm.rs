//! Matrix products: one fit a format, and what sustained load, zeros and other algorithms make of them.

use super::super::course::Course;
use super::super::fit::gemm::{self, C5Fit, Row};
use super::super::plan::{Format, Point, SENTINEL_GEMM};

/// Products of one format.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// Which.
    pub format: Format,
    /// The fit, where enough points were measured.
    pub fit: Option<C5Fit>,
    /// Why there are no points, where there are none.
    pub refusal: Option<String>,
    /// The points.
    pub rows: Vec<Row>,
    /// Compute rate after seconds over that of a burst.
    pub sustained_over_burst: Option<f64>,
    /// Rate on zeros over that on random numbers.
    pub zeros_over_random: Option<f64>,
    /// Time of the best of eight algorithms over the library's first.
    pub best_of_8_over_first: Option<f64>,
}

/// Fits the products of a format; what only bf16 is measured for is told of it alone.
pub(super) fn products(course: &Course, format: Format) -> Gemm {
    let mut rows: Vec<Row> = Vec::new();
    for timed in &course.timed {
        match timed.point {
            // A sentinel is no point of the fit: it would count thrice.
            Point::Gemm(of, shape) if of == format && shape != SENTINEL_GEMM => rows.push(Row {
                shape,
                seconds: timed.estimate(),
            }),
            _ => {}
        }
    }
    rows.sort_by_key(|row| (row.shape.n, row.shape.k, row.shape.m));
    let refusal = course.unsupported.iter().find_map(|(point, why)| match point {
        Point::Gemm(of, _) if *of == format => Some(why.clone()),
        _ => None,
    });
    // A rested card's, each time.
    let burst = course.sentinel(Point::Gemm(Format::Bf16, SENTINEL_GEMM));
    let burst = crate::stats::quantile(&burst, 0.5);
    let over_burst = |point: Point| Some(burst? / course.median(point)?.value);
    let is_bf16 = format == Format::Bf16;
    Gemm {
        format,
        fit: gemm::fit(format, &rows),
        refusal: refusal.filter(|_| rows.len() < gemm::FEWEST),
        sustained_over_burst: over_burst(Point::GemmSustained(SENTINEL_GEMM)),
        zeros_over_random: over_burst(Point::GemmZeros(SENTINEL_GEMM)).filter(|_| is_bf16),
        best_of_8_over_first: best_of_8(course).filter(|_| is_bf16),
        rows,
    }
}

fn best_of_8(course: &Course) -> Option<f64> {
    let ratios: Vec<f64> = course
        .timed
        .iter()
        .filter_map(|timed| match timed.point {
            Point::GemmBest(format, shape) => {
                let first = course.median(Point::Gemm(format, shape))?;
                Some(timed.estimate().value / first.value)
            }
            _ => None,
        })
        .collect();
    crate::stats::quantile(&ratios, 0.5)
}
