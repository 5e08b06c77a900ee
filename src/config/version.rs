//! What is asked for of an engine: `vllm@0.11.2`, `SGLang`, `trtllm@v1.2.0rc1`.

/// The first minor version of vLLM whose V1 engine was the default.
pub(crate) const V1_SINCE: u32 = 8;
/// The first that schedules asynchronously unless it is told not to (vllm-project/vllm#27614).
pub(crate) const ASYNCHRONOUS_SINCE: u32 = 14;

/// The first that fuses all-reduces with norms unless it is told not to (`config/vllm.py`, `OPTIMIZATION_LEVEL_02`).
pub(crate) const FUSES_NORMS_SINCE: u32 = 17;

/// What else people call TensorRT-LLM.
const TRTLLM: [&str; 3] = ["trtllm", "tensorrt_llm", "trt-llm"];

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineKind {
    /// vLLM's V1 engine.
    Vllm,
    Scheduled(Scheduled),
    Sglang,
    Trtllm,
}

/// Engines whose scheduler is separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduled {
    /// vLLM's V0 engine.
    V0,
    Static,
    HfContinuous,
}

impl EngineKind {
    /// Who is asked for: vLLM where nobody is, or nobody that is known, which whoever looks for its profile reports.
    pub(crate) fn of(asked: Option<&str>) -> EngineKind {
        let (name, version) = parts(asked.unwrap_or("vllm"));
        match (name.as_str(), version) {
            ("sglang", _) => EngineKind::Sglang,
            ("tensorrt-llm", _) => EngineKind::Trtllm,
            ("static", None) => EngineKind::Scheduled(Scheduled::Static),
            ("hf-cb", None) => EngineKind::Scheduled(Scheduled::HfContinuous),
            ("vllm", Some(version)) if minor_of_zero(version).is_some_and(|minor| minor < V1_SINCE) => {
                EngineKind::Scheduled(Scheduled::V0)
            }
            _ => EngineKind::Vllm,
        }
    }
}

/// The engine in lower case, by the first of its names, and its version if one is named.
pub(crate) fn parts(asked: &str) -> (String, Option<&str>) {
    let (name, version) = asked
        .split_once('@')
        .map_or((asked, None), |(name, version)| (name, Some(version)));
    let name = name.trim().to_lowercase();
    match TRTLLM.contains(&name.as_str()) {
        true => ("tensorrt-llm".to_owned(), version),
        false => (name, version),
    }
}

/// The numbers of a version, `v0.5.4.post2` → 0, 5, 4, none: of each part those digits that it begins with.
pub(crate) fn numbers(version: &str) -> impl Iterator<Item = Option<u32>> {
    version.trim_start_matches('v').split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse().ok()
    })
}

/// The minor version of a major version 0, `v0.19.1` → 19; of another major there is none.
pub(crate) fn minor_of_zero(version: &str) -> Option<u32> {
    let mut numbers = numbers(version);
    match (numbers.next()??, numbers.next()) {
        (0, Some(minor)) => minor,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_far_as_it_has_numbers() {
        let read = |version: &str| numbers(version).collect::<Vec<_>>();
        assert_eq!(read("v0.5.4.post2"), [Some(0), Some(5), Some(4), None]);
        assert_eq!(read("1.2.0rc1"), [Some(1), Some(2), Some(0)]);
        assert_eq!(read("0.19 of May"), [Some(0), Some(19)]);
        assert_eq!(read("0.x"), [Some(0), None]);
        assert_eq!(read("new"), [None]);
        let minors = ["v0.19.1", "0.6", "0", "0.x", "1.2", "", "99999999999.1"].map(minor_of_zero);
        assert_eq!(minors, [Some(19), Some(6), None, None, None, None, None]);
    }

    #[test]
    fn a_name_is_read_whatever_its_case() {
        assert_eq!(parts(" vLLM@0.11.2"), ("vllm".to_owned(), Some("0.11.2")));
        assert_eq!(parts("SGLang "), ("sglang".to_owned(), None));
        assert_eq!(parts("TRTLLM@1.2"), ("tensorrt-llm".to_owned(), Some("1.2")));
    }

    #[test]
    fn the_name_and_the_version_say_who_serves() {
        let of = |asked: &str| EngineKind::of(Some(asked));
        for v0 in ["vllm@0.6", "vllm@0.6.6.post1", "vllm@0.5.4"] {
            assert_eq!(of(v0), EngineKind::Scheduled(Scheduled::V0), "{v0}");
        }
        assert_eq!(of("static"), EngineKind::Scheduled(Scheduled::Static));
        assert_eq!(of("HF-CB"), EngineKind::Scheduled(Scheduled::HfContinuous));
        assert_eq!(of("sglang@0.5.4"), EngineKind::Sglang);
        assert_eq!(of("trtllm@1.2"), EngineKind::Trtllm);
        for other in ["vllm", "vllm@0.8", "vllm@1.0", "static@9", "hf"] {
            assert_eq!(of(other), EngineKind::Vllm, "{other}");
        }
        assert_eq!(EngineKind::of(None), EngineKind::Vllm);
    }
}
