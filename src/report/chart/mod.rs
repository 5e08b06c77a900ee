//! Charts: each builder turns results into a [`Picture`], which is drawn as SVG or PNG bytes.
//!
//! A title states the finding, curves are labelled directly, objectives and intervals are drawn, colours are Okabe and
//! Ito's. A chart of one point or none is still a chart that says so.

mod anatomy;
mod axis;
mod canvas;
mod distribution;
mod itl;
mod knee;
mod little;
mod overlay;
mod panel;
mod pareto;
mod place;
mod png;
mod pools;
mod ranking;
mod roofline;
mod scene;
mod sweep;
mod sweep_foot;
mod sweep_marks;
mod timeline;
mod validation;
mod versus;
mod working_set;

pub use anatomy::anatomy;
pub use distribution::latency_distribution;
pub use itl::itl;
pub use knee::knee;
pub use little::little;
pub use overlay::overlay;
pub use pareto::{Beside, pareto};
pub use pools::{InService, PoolOverTime, pools};
pub use ranking::ranking;
pub use roofline::{Phase, RooflineStep, RooflineView, roofline, roofline_steps};
pub use scene::Picture;
pub use sweep::sweep;
pub use timeline::timeline;
pub use validation::{Scatter, validation};
pub use versus::{difference, ttft_of_variants};
pub use working_set::working_set;

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::super::views::KneeView;
    use super::*;
    use crate::analysis::RunResult;

    const SUBJECT: &str = "Llama-3.1-8B-Instruct on H100-SXM-80GB, vllm@0.33, 10.0 req/s";

    fn pictures(
        run: &RunResult,
        knee_view: &KneeView,
        roofline_view: &RooflineView,
    ) -> Vec<(&'static str, Picture)> {
        let words = ["fcfs", "longest_prefix_match", "depth_first_by_weight"];
        let points = knee_view.points.len().min(words.len());
        vec![
            ("knee", knee(knee_view)),
            (
                "latency",
                latency_distribution(run.steady.as_ref().unwrap_or(&run.whole), SUBJECT),
            ),
            ("timeline", timeline(run, SUBJECT, false)),
            ("itl", itl(&[(String::new(), run.series.as_slice())], SUBJECT)),
            (
                "itls",
                itl(
                    &["off", "chunks of 2,048"].map(|name| (name.to_owned(), run.series.as_slice())),
                    SUBJECT,
                ),
            ),
            ("pools", pools(&loads(run, 11), &[], SUBJECT)),
            (
                "autoscale",
                pools(
                    &loads(run, 2),
                    &[(0.0, 1), (10.0, 3), (40.0, 2)].map(|(t_s, replicas)| InService { t_s, replicas }),
                    SUBJECT,
                ),
            ),
            ("working-set", working_set(&fixtures::prefixes(64))),
            ("difference", difference(&fixtures::comparison())),
            (
                "ttfts",
                ttft_of_variants(
                    &fixtures::comparison(),
                    &["A", "B"].map(|name| (name.to_owned(), &run.whole.ttft)),
                ),
            ),
            ("roofline", roofline(roofline_view)),
            ("ranking-2", ranking(&fixtures::ranking(points.min(2), 0))),
            ("ranking-6", ranking(&fixtures::ranking(2 * points, 2))),
            ("ranking-20", ranking(&fixtures::ranking(7 * points, 4))),
            ("little", little(run, SUBJECT)),
            ("anatomy", anatomy(&fixtures::anatomies(points), SUBJECT)),
            (
                "sweep-rates",
                sweep(&fixtures::sweep_view(&["2", "4", "8"][..points], 3, 1)),
            ),
            (
                "sweep-words",
                sweep(&fixtures::sweep_view(&words[..points], 1, 1)),
            ),
            (
                "sweep-panes",
                sweep(&fixtures::sweep_view(&words[..points], 7, 4)),
            ),
        ]
    }

    fn loads(run: &RunResult, pools: u32) -> Vec<PoolOverTime> {
        let point = |point: &crate::metrics::SeriesPoint, pool: u32| crate::metrics::LoadPoint {
            t_s: point.t_s,
            running: point.running * f64::from(pool + 1),
            waiting: point.waiting,
            kv_usage: point.kv_usage / f64::from(pool + 1),
        };
        let pool = |pool: u32| PoolOverTime {
            name: format!("replica {pool}"),
            running: run.series.iter().map(|at| point(at, pool).running).sum::<f64>()
                / run.series.len().max(1) as f64,
            points: run.series.iter().map(|at| point(at, pool)).collect(),
        };
        (0..pools).map(pool).collect()
    }

    fn full() -> Vec<(&'static str, Picture)> {
        pictures(
            &fixtures::stable_run(),
            &fixtures::knee_view(),
            &fixtures::roofline_view(),
        )
    }

    fn with_points(points: usize) -> Vec<(&'static str, Picture)> {
        let mut run = if points == 0 {
            fixtures::failed_run()
        } else {
            fixtures::stable_run()
        };
        run.series.truncate(points);
        let mut knee_view = fixtures::knee_view();
        knee_view.points.truncate(points);
        (knee_view.knee, knee_view.saturation) = (None, None);
        let mut roofline_view = fixtures::roofline_view();
        roofline_view.steps.truncate(points);
        pictures(&run, &knee_view, &roofline_view)
    }

    /// Writes pictures to look at where `PLIMSOLL_PICTURES` names a folder.
    fn show(prefix: &str, pictures: &[(&str, Picture)]) {
        let Some(folder) = std::env::var_os("PLIMSOLL_PICTURES").map(std::path::PathBuf::from) else {
            return;
        };
        for (name, picture) in pictures {
            std::fs::write(folder.join(format!("{prefix}{name}.svg")), picture.svg()).unwrap();
            std::fs::write(folder.join(format!("{prefix}{name}.png")), picture.png()).unwrap();
        }
    }

    /// Opening and closing tags match and no number is broken.
    fn assert_well_formed(name: &str, svg: &str) {
        let mut open: Vec<&str> = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, text) = tag
                .split_once('>')
                .unwrap_or_else(|| panic!("{name}: unclosed tag {tag}"));
            assert!(
                !text.contains('&') || text.contains(';'),
                "{name}: bare ampersand in {text}"
            );
            let word = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(word), "{name}");
            } else if !tag.ends_with('/') {
                open.push(word);
            }
        }
        assert!(
            open.is_empty() && !svg.contains("NaN") && !svg.contains("inf,"),
            "{name}: {open:?}"
        );
    }

    #[test]
    fn every_chart_is_well_formed_and_the_same_bytes_each_time() {
        let (first, second) = (full(), full());
        show("", &first);
        for ((name, one), (_, other)) in first.iter().zip(&second) {
            assert_well_formed(name, &one.svg());
            assert_eq!(one.svg(), other.svg(), "{name}");
        }
        assert_eq!(first[0].1.png(), second[0].1.png());
    }

    #[test]
    fn one_point_and_none_still_make_charts() {
        for points in [0, 1] {
            let pictures = with_points(points);
            show(&format!("{points}-"), &pictures);
            for (name, picture) in &pictures {
                assert_well_formed(name, &picture.svg());
            }
        }
    }

    #[test]
    fn all_that_is_drawn_lies_on_the_page() {
        for (name, picture) in full().iter().chain(&with_points(0)).chain(&with_points(1)) {
            for shape in &picture.shapes {
                let (left, right) = match shape {
                    scene::Shape::Text {
                        at,
                        text,
                        size,
                        weight,
                        anchor,
                        ..
                    } => {
                        let width = canvas::text_width(text, *size, *weight);
                        match anchor {
                            scene::Anchor::Start => (at.0, at.0 + width),
                            scene::Anchor::Middle => (at.0 - width / 2.0, at.0 + width / 2.0),
                            scene::Anchor::End => (at.0 - width, at.0),
                        }
                    }
                    scene::Shape::Dot { at, radius, .. } => (at.0 - radius, at.0 + radius),
                    scene::Shape::Line { points, .. } | scene::Shape::Area { points, .. } => points
                        .iter()
                        .fold((0.0, 0.0), |(low, high), (x, _)| (x.min(low), x.max(high))),
                };
                assert!(
                    left >= 0.0 && right <= picture.width,
                    "{name}: {shape:?} {left} {right}"
                );
            }
        }
    }
}
