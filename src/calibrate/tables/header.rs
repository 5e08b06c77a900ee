//! What a table is, by its header.

/// Columns without which a row has no kernel, by kind of table; its time stands in `us`.
const KINDS: [(&str, &[&str]); 7] = [
    ("products", &["n", "k", "m"]),
    ("decode attention", &["context", "batch"]),
    ("prefill attention", &["seqlen"]),
    ("chunks of prefill", &["q_chunk", "kv_prefix"]),
    ("experts", &["experts"]),
    ("all-reduce", &["elements"]),
    ("copies", &["direction", "bytes"]),
];
const TIME: &str = "us";

fn columns(header: &str) -> Vec<&str> {
    let header = header.trim_start_matches('\u{feff}');
    header.split(',').map(str::trim).collect()
}

/// Whether a header is one of the known ones.
#[must_use]
pub fn is_kernel_table(header: &str) -> bool {
    let columns = columns(header);
    let has = |name: &&str| columns.contains(name);
    let is_shaped = KINDS.iter().any(|(_, needed)| needed.iter().all(&has));
    has(&TIME) && is_shaped
}

/// What a table lacks that is nearly one of kernels: all of its columns but one.
#[must_use]
pub fn lacks(header: &str) -> Option<String> {
    let columns = columns(header);
    let missing = |needed: &[&'static str]| -> Vec<&str> {
        let all = needed.iter().chain([&TIME]);
        all.copied().filter(|name| !columns.contains(name)).collect()
    };
    let is_begun = |needed: &[&str]| needed.iter().any(|name| columns.contains(name));
    KINDS.iter().find_map(|(kind, needed)| match missing(needed)[..] {
        [name] if is_begun(needed) => Some(format!(
            "it has the columns of a table of {kind} but for `{name}`"
        )),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_missing_is_named() {
        let lacks = |header: &str| lacks(header).unwrap_or_default();
        assert_eq!(
            lacks("gpu,fw,dtype,n,k,m,l2_warm"),
            "it has the columns of a table of products but for `us`"
        );
        assert!(lacks("gpu,fw,dtype,k,m,us").ends_with("products but for `n`"));
        assert!(lacks("gpu,fw,context,us").ends_with("decode attention but for `batch`"));
        assert_eq!(lacks("shape,us"), "");
        assert_eq!(lacks("engine,gpu,model,isl_mean,ttft_mean_s"), "");
        assert!(is_kernel_table("\u{feff}n,k,m,us") && !is_kernel_table("n,k,m"));
    }
}
