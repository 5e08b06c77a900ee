//! Classes of which a run sent nothing: no figure of the run is one of theirs.

use super::RunResult;
use crate::workload::WorkloadSpec;

/// A class without a request.
#[derive(Clone, Debug, PartialEq)]
pub struct SilentClass<'a> {
    /// What results call it.
    pub name: &'a str,
    /// When it was to begin, in seconds.
    pub start_s: f64,
    /// When the run ended.
    pub end_s: f64,
}

/// The classes of a run that sent nothing.
#[must_use]
pub fn silent_classes<'a>(run: &RunResult, workload: &'a WorkloadSpec) -> Vec<SilentClass<'a>> {
    let classes = (0..).zip(&workload.classes).zip(&run.by_class);
    let silent = classes.filter(|(_, part)| part.sent == 0);
    silent
        .map(|((index, class), _)| SilentClass {
            name: &class.name,
            start_s: workload
                .stream_of(index)
                .map_or(0.0, |stream| stream.start.seconds()),
            end_s: run.whole.duration_s,
        })
        .collect()
}

impl SilentClass<'_> {
    /// Whether its time had come: then it was chance, or its own end, that it sent nothing.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.start_s == 0.0 || self.start_s < self.end_s
    }

    /// Why it sent nothing, in words.
    #[must_use]
    pub fn why(&self) -> String {
        match self.has_begun() {
            true => format!("none of its requests came in {:.1} s", self.end_s),
            false => format!(
                "it begins at {:.1} s, and the run ends at {:.1} s",
                self.start_s, self.end_s
            ),
        }
    }
}
