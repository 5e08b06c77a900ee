//! Which profile an engine that is asked for takes: that of its version, or the nearest one, which is said; an engine that is not modelled is refused.

use super::{Profile, shipped};
use crate::config::version::{self, ASYNCHRONOUS_SINCE, FUSES_NORMS_SINCE, V1_SINCE};
use crate::engine::memory::PoolRules;
use crate::model::ModelShape;
use crate::nearest::nearest;

/// What can be asked for.
pub(super) const KNOWN: &str = "modelled are vllm@0.33, vllm@0.11, vllm@0.6, sglang@0.5.23, sglang@0.5.4, tensorrt-llm@1.2, static and hf-cb";

/// Engines of which there is one kind.
const UNVERSIONED: [&str; 2] = ["static", "hf-cb"];

/// A profile and, where it is not exactly what was asked, a sentence that says so.
pub type Found = (Profile, Option<String>);

/// Finds the profile that `--engine` asks for, whatever it serves; the error says what is known.
pub fn find(asked: &str) -> Result<Found, (String, String)> {
    find_for(asked, None)
}

/// Finds the profile that `--engine` asks for to serve a model: of a version between two profiles the nearer one, or the newer where the other lays such a
/// model out in a way that is not modelled. The error says what is known.
pub fn find_for(asked: &str, model: Option<&ModelShape>) -> Result<Found, (String, String)> {
    let (name, version) = version::parts(asked);
    if let Some(version) = version.filter(|_| UNVERSIONED.contains(&name.as_str())) {
        let why = format!("`{name}` has no versions, and @{version} names one");
        return Err((why, format!("write {name}")));
    }
    if name != "vllm" {
        let known = ["vllm", "sglang", "tensorrt-llm", "static", "hf-cb"];
        let help = match nearest(&name, known, 1).first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => KNOWN.to_string(),
        };
        return Err((format!("there is no engine `{name}`"), help));
    }
    let Some(version) = version else {
        let newest = shipped().into_iter().next().expect("profiles are shipped");
        return Ok((newest, None));
    };
    let Some(asked_minor) = minor(version) else {
        return Err((
            format!("`{version}` is not a version of vLLM"),
            "write it like vllm@0.33".to_string(),
        ));
    };
    if asked_minor < V1_SINCE {
        let why = format!("vLLM {version} has the V0 scheduler, which this one is not");
        return Err((why, "vllm@0.6 is its profile".to_string()));
    }
    let nearest = shipped()
        .into_iter()
        .min_by_key(|profile| minor_of(profile).abs_diff(asked_minor));
    let mut nearest = nearest.expect("profiles are shipped");
    let mut which = "";
    let serves =
        |profile: &Profile| profile.pool_rules() == PoolRules::BY_REQUESTS || !is_of_unlike_layers(model);
    if asked_minor > minor_of(&nearest) && !serves(&nearest) {
        let newer = shipped().into_iter().filter(serves);
        if let Some(newer) = newer.min_by_key(|profile| minor_of(profile).abs_diff(asked_minor)) {
            which = " of those that serve this model";
            nearest = newer;
        }
    }
    let is_exact = minor_of(&nearest) == asked_minor;
    let defaults = &mut nearest.defaults;
    let mut differs = String::new();
    for (default, since, what) in [
        (
            &mut defaults.async_scheduling,
            ASYNCHRONOUS_SINCE,
            "asynchronous scheduling",
        ),
        (
            &mut defaults.fuse_allreduce_rms,
            FUSES_NORMS_SINCE,
            "all-reduces fused with norms",
        ),
    ] {
        let is_default = asked_minor >= since;
        if is_default != *default {
            let with = if is_default { "with" } else { "without" };
            differs += &format!(", {with} {what}, the default since 0.{since}");
        }
        *default = is_default;
    }
    if asked_minor < SPARES_A100_SINCE {
        let rows = nearest.batch.iter_mut();
        rows.for_each(|row| row.except_gpu = None);
        differs += ", with an A100's batch sizes like those of other cards of 80 GB, the default until 0.9";
    }
    let note = (!is_exact).then(|| {
        format!(
            "no profile of vllm@{version}: {} is the nearest{which} and is used{differs}",
            nearest.profile
        )
    });
    Ok((nearest, note))
}

/// The first version that gives an A100 the batch sizes of small cards (vllm-project/vllm#17885).
const SPARES_A100_SINCE: u32 = 9;

/// Whether layers keep unlike things, which one version's allocator lays out in another way than the next one's.
fn is_of_unlike_layers(model: Option<&ModelShape>) -> bool {
    model.is_some_and(|model| {
        model.recurrence().is_some() || model.has_unlike_heads() || model.indexer().is_some()
    })
}

fn minor(version: &str) -> Option<u32> {
    let mut numbers = version::numbers(version);
    match (numbers.next()??, numbers.next()) {
        (0, Some(minor)) => minor,
        // A major version: as far from 0.x as can be, so that the newest profile is the nearest.
        (_, None | Some(Some(_))) => Some(u32::MAX),
        _ => None,
    }
}

fn minor_of(profile: &Profile) -> u32 {
    let version = version::parts(&profile.profile).1;
    version.and_then(minor).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    #[test]
    fn another_version_takes_the_nearest_profile_and_says_so() {
        let name = |asked: &str| find(asked).map(|(profile, note)| (profile.profile, note.is_some()));
        assert_eq!(name("vllm"), Ok(("vllm@0.33".into(), false)));
        assert_eq!(name("vllm@0.33.0"), Ok(("vllm@0.33".into(), false)));
        assert_eq!(name("vllm@0.12"), Ok(("vllm@0.11".into(), true)));
        assert_eq!(name("vllm@0.30.1"), Ok(("vllm@0.33".into(), true)));
        assert_eq!(name("vllm@1.0"), Ok(("vllm@0.33".into(), true)));
        assert!(name("vllm@0.6").unwrap_err().0.contains("V0"));
        assert!(name("mlc-llm").unwrap_err().0.contains("there is no engine"));
        assert_eq!(name("vlm").unwrap_err().1, "did you mean `vllm`?");
        assert!(name("vllm@new").is_err());
        let (why, help) = name("static@9").unwrap_err();
        assert_eq!(
            (why.as_str(), help.as_str()),
            ("`static` has no versions, and @9 names one", "write static")
        );
    }

    #[test]
    fn a_version_between_two_takes_the_one_that_serves_the_model() {
        let of = |asked: &str, name: &str| {
            let (shape, _) = model::find(name).expect("a shipped model");
            let (profile, note) = find_for(asked, Some(&shape)).expect("a version of vLLM");
            (profile.profile, note.unwrap_or_default())
        };
        for unlike in [
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "deepseek-ai/DeepSeek-V3.2",
            "XiaomiMiMo/MiMo-V2-Flash",
        ] {
            let (profile, note) = of("vllm@0.18", unlike);
            assert_eq!(profile, "vllm@0.33", "{unlike}");
            assert!(
                note.contains("the nearest of those that serve this model"),
                "{note}"
            );
            let text = crate::config::tests::BASE
                .replacen("meta-llama/Llama-3.1-8B-Instruct", unlike, 1)
                .replacen("[cluster]\n", "[cluster]\ntensor_parallel_size = 8\n", 1)
                .replacen("H100-SXM-80GB", "H200-SXM-141GB", 1)
                .replacen("[engine]\n", "[engine]\nprofile = \"vllm@0.18\"\n", 1);
            if let Err(problems) = crate::config::tests::resolve_text(&text) {
                panic!("{unlike}: {problems}");
            }
            // Who names a profile, or an older version than the oldest, has that.
            assert_eq!(of("vllm@0.11.2", unlike).0, "vllm@0.11");
            assert_eq!(of("vllm@0.10", unlike).0, "vllm@0.11");
        }
        let (profile, note) = of("vllm@0.18", "Qwen/Qwen3-8B");
        assert_eq!(profile, "vllm@0.11");
        assert!(note.contains("is the nearest and is used"), "{note}");
    }
}
