//! The first line: what binds, how far the knee is, and which change helps most.

use super::{Explained, Kind, WhatIf, anatomy, percent, signed_percent, time};
use crate::analysis::Verdict;

/// All of it in one line.
pub(super) fn answer(view: &Explained) -> String {
    let mut parts = vec![first(view)];
    parts.extend(view.slo.map(|slo| slo.words().to_owned()));
    parts.extend(view.bound.as_ref().map(|(bound, _)| bound.clone()));
    parts.extend(headroom(view));
    parts.extend(helps(view));
    if let Some(missing) = view.interrupted {
        parts.push(missing.words());
    }
    format!("{}{}", view.standing.lost, parts.join("; "))
}

/// `p99 TTFT 246 ms: around it queue 131 ms + …`, or why no latency is told.
fn first(view: &Explained) -> String {
    if let Some(instead) = view.standing.instead.as_ref().or(view.client.as_ref()) {
        return instead.clone();
    }
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
        super::Found::Client(most) => Some(format!(
            "the client pushes at most {}, within the SLO",
            view.of.told(most.value)
        )),
        super::Found::Failed(_) | super::Found::Nothing => None,
    }
}

/// The change that helps most, and the best one that costs no GPU, where that is another.
fn helps(view: &Explained) -> Option<String> {
    if view.what_ifs.is_empty() {
        return None;
    }
    let ranked = |score: &dyn Fn(&WhatIf) -> Option<f64>| {
        let scored = view.what_ifs.iter();
        let scored = scored.filter_map(|what_if| Some((score(what_if)?, what_if)));
        let mut ranked: Vec<(f64, &WhatIf)> = scored.filter(|(score, _)| *score > 0.0).collect();
        ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        ranked
    };
    let by_knee = ranked(&|what_if| what_if.gain(&view.base));
    // Past saturation whatever makes the load stable helps, the more the sooner first tokens come.
    let by_tail = ranked(&|what_if| match what_if.rescued(&view.base) {
        Some(p99_s) => Some(1.0 / p99_s.max(f64::MIN_POSITIVE)),
        None => what_if.ttft_change(&view.base).map(|change| -change),
    });
    let is_of_knee = !by_knee.is_empty();
    let ranked = if is_of_knee { by_knee } else { by_tail };
    let Some(&(_, best)) = ranked.first() else {
        let raises = view.base.knee.knee().map_or("", |_| "raises the knee or ");
        let tail = match view.base.verdict {
            Verdict::Unstable => "makes this load stable",
            _ => "shortens p99 TTFT",
        };
        return Some(format!("no change tried surely {raises}{tail}"));
    };
    let is_cheap = |what_if: &WhatIf| {
        let gpus = what_if.tried.as_ref().map_or(u64::MAX, |tried| tried.gpus);
        gpus <= view.base.gpus && what_if.kind != Kind::Hardware
    };
    let cheap = ranked.iter().find(|(_, what_if)| is_cheap(what_if));
    let free = ranked
        .iter()
        .find(|(_, what_if)| is_cheap(what_if) && what_if.kind != Kind::Numbers);
    let mut told = vec![format!("most help: {}", helped(best, view, is_of_knee))];
    for (lead, other) in [("on the same GPUs", cheap), ("by a setting alone", free)] {
        let is_new = |what_if: &WhatIf| !told.iter().any(|told| told.contains(&what_if.name));
        if let Some((_, other)) = other.filter(|(_, what_if)| is_new(what_if)) {
            told.push(format!("{lead}: {}", helped(other, view, is_of_knee)));
        }
    }
    Some(told.join("; "))
}

/// `+1 replica (knee 28.1 req/s, +98 %, 2 GPUs for 1)`.
fn helped(what_if: &WhatIf, view: &Explained, is_of_knee: bool) -> String {
    let tried = what_if.tried.as_ref();
    let of_knee = what_if
        .gain(&view.base)
        .zip(tried.and_then(|tried| tried.knee.knee()))
        .filter(|_| is_of_knee);
    let gain = match (
        of_knee,
        what_if.ttft_change(&view.base),
        tried.and_then(|tried| tried.p99_ttft),
    ) {
        (Some((gain, knee)), _, _) => format!("knee {}, {}", view.of.told(knee.value), signed_percent(gain)),
        (None, Some(change), Some(p99)) => {
            format!("p99 TTFT {}, {}", time(p99.value), signed_percent(change))
        }
        (None, None, Some(p99)) => format!("stable, p99 TTFT {}", time(p99.value)),
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
