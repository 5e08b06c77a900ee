//! What stands between host and GPU: launches, and the link.

use super::super::course::Course;
use super::super::fit::lines::{self, Line};
use super::super::plan::{Point, Way};
use super::super::sample::Estimate;

/// Launch costs in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Host's time to submit one kernel.
    pub eager_submit: Option<Estimate>,
    /// Time between two kernels submitted one by one.
    pub eager_gap: Option<Estimate>,
    /// Host's time to launch a graph.
    pub graph_launch: Option<Estimate>,
    /// One more node of a graph: on one block, on one for each SM.
    pub node: [Option<f64>; 2],
    /// From launch to the host's knowing of the end.
    pub sync: Option<Estimate>,
}

/// The host link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// Host to device.
    pub h2d: Option<Line>,
    /// Device to host.
    pub d2h: Option<Line>,
    /// Sum of both directions at once, bytes/s.
    pub both: Option<Estimate>,
    /// One of many small copies, seconds.
    pub per_copy: Option<Estimate>,
    /// A kernel's writes to host memory, bytes/s.
    pub zero_copy: Option<Estimate>,
    /// Copies from memory that is not pinned, bytes/s.
    pub pageable: Option<Estimate>,
}

/// Launches one by one and by graphs.
pub(super) fn launch(course: &Course) -> Launch {
    let node = |wide: bool| {
        let points: Vec<(f64, f64)> = course
            .timed
            .iter()
            .filter_map(|timed| match timed.point {
                Point::GraphNode(nodes, of) if of == wide => {
                    Some((nodes as f64, nodes as f64 * timed.estimate().value))
                }
                _ => None,
            })
            .collect();
        lines::line(&points).map(|line| 1.0 / line.bytes_per_s.value)
    };
    Launch {
        eager_submit: course.median(Point::EagerSubmit),
        eager_gap: course.median(Point::EagerGap),
        graph_launch: course.median(Point::GraphLaunch),
        node: [node(false), node(true)],
        sync: course.median(Point::Sync),
    }
}

/// Copies over the host link.
pub(super) fn link(course: &Course) -> Link {
    let fitted = |way: Way| {
        let picked = course
            .timed
            .iter()
            .filter(|timed| matches!(timed.point, Point::Link(of, _) if of == way));
        let points: Vec<(f64, f64)> = picked
            .map(|timed| (timed.point.bytes(), timed.estimate().value))
            .collect();
        lines::line(&points)
    };
    let rate = |pick: &dyn Fn(Point) -> bool, directions: f64| {
        let picked = course.timed.iter().filter(|timed| pick(timed.point));
        let largest = picked.max_by(|a, b| a.point.bytes().total_cmp(&b.point.bytes()))?;
        let bytes = directions * largest.point.bytes();
        Some(largest.estimate().map(|seconds| bytes / seconds))
    };
    Link {
        h2d: fitted(Way::In),
        d2h: fitted(Way::Out),
        both: rate(&|point| matches!(point, Point::Link(Way::Both, _)), 2.0),
        per_copy: course.median(Point::Pieces),
        zero_copy: rate(&|point| matches!(point, Point::ZeroCopy(_)), 1.0),
        pageable: rate(&|point| matches!(point, Point::Pageable(_)), 1.0),
    }
}
