//! What is asked for of an engine: `vllm@0.11.2`, `SGLang`, `trtllm@v1.2.0rc1`.

/// The first minor version of vLLM whose V1 engine was the default.
pub(crate) const V1_SINCE: u32 = 8;
/// The first that schedules asynchronously unless it is told not to (vllm-project/vllm#27614).
pub(crate) const ASYNCHRONOUS_SINCE: u32 = 14;

/// The first that fuses all-reduces with norms unless it is told not to (`config/vllm.py`, `OPTIMIZATION_LEVEL_02`).
pub(crate) const FUSES_NORMS_SINCE: u32 = 17;

/// The engine in lower case, and its version if one is named.
pub(crate) fn parts(asked: &str) -> (String, Option<&str>) {
    let (name, version) = asked
        .split_once('@')
        .map_or((asked, None), |(name, version)| (name, Some(version)));
    (name.trim().to_lowercase(), version)
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
    }
}
