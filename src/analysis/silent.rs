//! Classes of which a run sent nothing: no figure of the run is one of theirs.

use std::sync::Arc;

use super::RunResult;
use crate::workload::{Arrivals, Stream, WorkloadSpec};

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

/// What to say of the clients of a run that sent nothing.
pub(super) fn told(run: &RunResult, workload: &WorkloadSpec) -> Option<String> {
    let Arrivals::Superposed { .. } = workload.arrivals else {
        return None;
    };
    let silent = silent_classes(run, workload);
    let told: Vec<String> = silent
        .iter()
        .map(|class| format!("class {} sent nothing: {}", class.name, class.why()))
        .collect();
    (!told.is_empty()).then(|| format!("{}; what is said here is of the others", told.join("; ")))
}

/// The workload of those clients who sent anything in a run, or of all where nobody did.
#[must_use]
pub fn heard(run: &RunResult, workload: &WorkloadSpec) -> WorkloadSpec {
    let mut heard = workload.clone();
    let Arrivals::Superposed { streams } = &mut heard.arrivals else {
        return heard;
    };
    let sent = |class: &u32| run.by_class.get(*class as usize).is_none_or(|part| part.sent > 0);
    let has_sent = |stream: &&Stream| stream.classes.iter().any(sent);
    let those: Arc<[Stream]> = streams.iter().filter(has_sent).cloned().collect();
    if !those.is_empty() {
        *streams = those;
    }
    heard
}
