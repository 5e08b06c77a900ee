//! A run for whoever shows it elsewhere than on a terminal: simulated once, told in every form.

use super::super::exit::Exit;
use super::super::{interrupt, present};
use super::watchers::{Watchers, watches_waits};
use super::{caches_prefixes, exit, explained, print, quotable};
use crate::analysis::simulate_watched;
use crate::calibrate::interval::model_interval_while;
use crate::cli::outputs::Format;
use crate::config::Resolved;
use crate::metrics::{Anatomy, Records, Waits};
use crate::report::film::{Film, Filming};
use crate::report::{self, ResultMeta, Style};
use crate::units::Picos;

/// What there is to say of a run.
pub(in crate::cli) struct Told {
    /// As text.
    pub(in crate::cli) said: String,
    /// What `--why` adds to it.
    pub(in crate::cli) why: String,
    /// As one JSON object.
    pub(in crate::cli) json: String,
    /// What times are made of, as one JSON object, if they were taken apart.
    pub(in crate::cli) anatomy: Option<String>,
    /// What the command would end with.
    pub(in crate::cli) exit: Exit,
    /// Its first requests, if they were filmed.
    pub(in crate::cli) film: Option<Film>,
}

/// Simulates and tells; `None` once `goes_on` says no.
pub(in crate::cli) fn told(
    resolved: &Resolved,
    filming: Option<Filming>,
    is_taken_apart: bool,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<Told> {
    let scenario = &resolved.scenario;
    let experiment = present::experiment(resolved, Records::None);
    let mut watchers = Watchers {
        anatomy: is_taken_apart.then(|| Anatomy::of(scenario)),
        waits: watches_waits(scenario).then(|| Waits::new(caches_prefixes(scenario))),
        filming,
        ..Watchers::default()
    };
    let run = || simulate_watched(scenario, &experiment, &mut watchers, |_| goes_on());
    let (outcome, model_interval) = rayon::join(run, || model_interval_while(resolved, goes_on));
    if interrupt::is_asked() || !goes_on() {
        return None;
    }
    let end = Picos::try_from_seconds(outcome.result.whole.duration_s).unwrap_or_default();
    let meta = ResultMeta {
        model_interval: model_interval.filter(|_| !outcome.is_livelocked),
        waits: watchers.waits.map(|waits| waits.finish(end)),
        evicted_tokens: caches_prefixes(scenario).then_some(outcome.evicted_tokens),
        ignored: resolved.ignored.clone(),
        ..present::meta_of(resolved, &outcome)
    };
    let style = Style::default();
    let in_form = |format| print(&outcome.result, &meta, format, style);
    let anatomy = watchers.anatomy.map(|anatomy| quotable(anatomy, &outcome.result));
    Some(Told {
        said: in_form(Format::Table),
        why: explained(resolved, &outcome, &meta, anatomy.as_ref(), style),
        json: in_form(Format::Json),
        anatomy: anatomy.as_ref().map(report::json::anatomy),
        exit: exit(resolved, &outcome),
        film: watchers.filming.map(|filming| filming.finish(end)),
    })
}
