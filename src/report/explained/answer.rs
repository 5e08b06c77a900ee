//! The first line: what binds, how far the knee is, and which change helps most.

use super::{Explained, Kind, WhatIf, anatomy, percent, signed_percent, time};
use crate::analysis::Verdict;

/// All of it in one line.
pub(super) fn answer(view: &Explained) -> String {
    let mut parts = vec![first(view)];
    parts.extend(view.bound.as_ref().map(|(bound, _)| format!("bound by {bound}")));
    parts.extend(headroom(view));
    parts.extend(helps(view));
    if let Some(missing) = view.interrupted {
        let changes = super::counted(missing as u64, "change");
        parts.push(format!("INTERRUPTED, {changes} not finished"));
    }
    parts.join("; ")
}

/// `p99 TTFT 246 ms: around it queue 131 ms + …`, or why no latency is told.
fn first(view: &Explained) -> String {
    let groups = view.anatomies.by_ttft();
    let around = groups.iter().find(|group| group.name == "p99");
    match (view.base.p99_ttft, around, view.base.verdict) {
        (Some(p99), Some(around), _) => {
            let (p99, mean) = (time(p99.value), time(around.ttft_s()));
            let of = match p99 == mean {
                true => String::new(),
                false => format!(", about it {mean}"),
            };
            format!("p99 TTFT {p99}{of} = {}", anatomy::sum(around))
        }
        (_, _, Verdict::Unstable) => format!(
            "PAST SATURATION: {} is more than is served, requests pile up, and any latency would be that of the length of the run",
            view.load
        ),
        (_, _, verdict) => format!(
            "no steady latency to take apart ({})",
            super::verdict_word(verdict).replace('_', " ")
        ),
    }
}

/// `knee 14.2 req/s, 1.78 × this load`.
fn headroom(view: &Explained) -> Option<String> {
    match &view.base.knee {
        super::Found::Knee(knee) => {
            let told = view.of.told(knee.value);
            let Some(load) = view.load_value.filter(|load| *load > 0.0) else {
                return Some(format!("knee {told}"));
            };
            let times = knee.value / load;
            Some(match times {
                above if above >= 1.0 => format!("headroom {}: knee {told}", signed_percent(above - 1.0)),
                below => format!(
                    "past the knee of {told}, which is {} of this load",
                    percent(below)
                ),
            })
        }
        super::Found::None => Some("no load meets the SLO".to_owned()),
        super::Found::Failed(_) | super::Found::Nothing => None,
    }
}

/// The change that helps most, and the best one that costs no GPU, where that is another.
fn helps(view: &Explained) -> Option<String> {
    if view.what_ifs.is_empty() {
        return None;
    }
    let has_knees = view.base.knee.knee().is_some();
    let score = |what_if: &WhatIf| match has_knees {
        true => what_if.gain(&view.base),
        false => what_if.ttft_change(&view.base).map(|change| -change),
    };
    let mut ranked: Vec<(f64, &WhatIf)> = view
        .what_ifs
        .iter()
        .filter_map(|what_if| Some((score(what_if)?, what_if)))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let Some(&(_, best)) = ranked.first() else {
        return Some("no change tried surely helps".to_owned());
    };
    let is_cheap = |what_if: &WhatIf| {
        let gpus = what_if.tried.as_ref().map_or(u64::MAX, |tried| tried.gpus);
        gpus <= view.base.gpus && what_if.kind != Kind::Hardware
    };
    let cheap = ranked.iter().find(|(_, what_if)| is_cheap(what_if));
    let free = ranked
        .iter()
        .find(|(_, what_if)| is_cheap(what_if) && what_if.kind != Kind::Numbers);
    let mut told = vec![format!("most help: {}", helped(best, view))];
    for (lead, other) in [("on the same GPUs", cheap), ("by a setting alone", free)] {
        let is_new = |what_if: &WhatIf| !told.iter().any(|told| told.contains(&what_if.name));
        if let Some((_, other)) = other.filter(|(_, what_if)| is_new(what_if)) {
            told.push(format!("{lead}: {}", helped(other, view)));
        }
    }
    Some(told.join("; "))
}

/// `+1 replica (knee 28.1 req/s, +98 %, 2 GPUs for 1)`.
fn helped(what_if: &WhatIf, view: &Explained) -> String {
    let tried = what_if.tried.as_ref();
    let of_knee = what_if
        .gain(&view.base)
        .zip(tried.and_then(|tried| tried.knee.knee()));
    let gain = match (
        of_knee,
        what_if.ttft_change(&view.base),
        tried.and_then(|tried| tried.p99_ttft),
    ) {
        (Some((gain, knee)), _, _) => format!("knee {}, {}", view.of.told(knee.value), signed_percent(gain)),
        (None, Some(change), Some(p99)) => {
            format!("p99 TTFT {}, {}", time(p99.value), signed_percent(change))
        }
        _ => String::new(),
    };
    let gpus = tried.map_or(view.base.gpus, |tried| tried.gpus);
    let gpus = match gpus == view.base.gpus {
        true => String::new(),
        false => format!(", {} for {}", super::counted(gpus, "GPU"), view.base.gpus),
    };
    let numbers = match what_if.kind {
        Kind::Numbers => ", answers may be others",
        _ => "",
    };
    format!("{} ({gain}{gpus}{numbers})", what_if.name)
}
