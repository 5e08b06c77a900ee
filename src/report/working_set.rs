//! The working set of a workload: hit rate over the size of the prefix cache, in words, JSON and CSV.

use serde_json::{Value, json};

use super::figures::{count, counted, percent, significant};
use super::page::{folded, table_on};
use super::tables::Column;
use crate::analysis::{KNEE_SHARE, Looked, WorkingSet};

/// A KV pool that is marked on the curve.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolMark {
    /// `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub name: String,
    /// Its blocks, of the size that the curve has.
    pub blocks: u64,
    /// Bytes of a token's KV on all GPUs of a replica; `None` where the number of blocks was given.
    pub bytes_per_token: Option<f64>,
    /// Replicas, each with a pool of its own.
    pub replicas: u32,
    /// Prefix caching is on.
    pub caches: bool,
}

/// A curve and what it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkingSetView {
    /// The scenario or the trace.
    pub subject: String,
    /// The curve.
    pub curve: WorkingSet,
    /// The pool of the GPU and model, where they are known.
    pub pool: Option<PoolMark>,
    /// How many of the requests the curve is of.
    pub looked: Looked,
}

impl WorkingSetView {
    /// Tokens of so many blocks.
    pub(crate) fn tokens(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(u64::from(self.curve.block))
    }

    /// `134,000 tokens (17.5 GiB)`.
    fn size(&self, blocks: u64) -> String {
        let tokens = self.tokens(blocks);
        let bytes = self.pool.as_ref().and_then(|pool| pool.bytes_per_token);
        let gib = bytes.map(|bytes| tokens as f64 * bytes / f64::from(1 << 30));
        let gib = gib.map_or(String::new(), |gib| format!(" ({} GiB)", significant(gib)));
        format!("{} tokens{gib}", count(tokens))
    }
}

/// The first line.
#[must_use]
pub fn answer(view: &WorkingSetView) -> String {
    let requests = counted(view.curve.requests, "request");
    match view.looked {
        Looked::AtAll => found(view),
        Looked::UntilStopped => format!("INTERRUPTED after {requests}; of those: {}", found(view)),
        Looked::UntilFull => format!(
            "CUT after {requests}, whose texts fill the memory; of those: {}",
            found(view)
        ),
    }
}

/// What a cache finds.
fn found(view: &WorkingSetView) -> String {
    let curve = &view.curve;
    let Some(knee) = curve.knee_blocks() else {
        // The last token of a prompt is always computed, so that a block must be shorter (V1-46).
        if curve.requests > 0 && curve.longest_prompt_tokens <= curve.block {
            return format!(
                "nothing to cache: a block of {} is no shorter than the longest prompt, of {}, and only whole blocks are shared",
                counted(u64::from(curve.block), "token"),
                counted(u64::from(curve.longest_prompt_tokens), "token"),
            );
        }
        return format!(
            "nothing to cache: no prompt begins as an earlier one did, over {}",
            counted(curve.requests, "request")
        );
    };
    let endless = format!(
        "an endless prefix cache finds {} of prompt tokens, {} of that take {}",
        percent(curve.endless_hit_rate()),
        percent(KNEE_SHARE),
        view.size(knee)
    );
    match &view.pool {
        None => endless,
        Some(pool) if !pool.caches => format!(
            "{endless}; the pool of {} finds nothing, for prefix caching is off, and would find {}",
            view.size(pool.blocks),
            percent(curve.hit_rate(pool.blocks))
        ),
        Some(pool) => format!(
            "{endless}; the pool of {} finds {}",
            view.size(pool.blocks),
            percent(curve.hit_rate(pool.blocks))
        ),
    }
}

/// The curve for a terminal of so many columns, or for a file.
#[must_use]
pub fn text(view: &WorkingSetView, width: Option<usize>) -> String {
    let curve = &view.curve;
    let mut text = answer(view) + "\n";
    text += &format!(
        "  {}; {}, {} prompt tokens, blocks of {}\n",
        view.subject,
        counted(curve.requests, "request"),
        count(curve.prompt_tokens),
        counted(u64::from(curve.block), "token"),
    );
    if let Some(pool) = view.pool.as_ref().filter(|pool| pool.replicas > 1) {
        text += &format!(
            "  each of {} replicas has a pool of its own: what a router sends it is another workload\n",
            pool.replicas
        );
    }
    text += "  ignored: that requests overlap. Running sequences pin their blocks and need room beside the cache, and a prefix\n  \
             that two ask for at once may be computed twice: a server with many at once finds less, or needs more\n\n";
    let columns = [
        Column::right("cache"),
        Column::right("hit rate"),
        Column::left(""),
    ];
    text += &table_on(&columns, &rows(view), 1, width);
    folded(&text, width)
}

/// Powers of two, the knee and the pool, in order of size.
fn rows(view: &WorkingSetView) -> Vec<Vec<String>> {
    let curve = &view.curve;
    let mut marks: Vec<(u64, String)> = Vec::new();
    let mut size = curve.largest_request_blocks.max(1).next_power_of_two();
    while size < curve.distinct_blocks && marks.len() < 40 {
        marks.push((size, String::new()));
        size *= 2;
    }
    marks.push((
        curve.largest_request_blocks,
        "the largest request alone".to_owned(),
    ));
    marks.extend(
        curve
            .knee_blocks()
            .map(|knee| (knee, format!("{} of all hits", percent(KNEE_SHARE)))),
    );
    marks.extend(view.pool.as_ref().map(|pool| (pool.blocks, pool.name.clone())));
    marks.push((
        curve.distinct_blocks,
        "all that was ever asked and answered".to_owned(),
    ));
    marks.sort_by_key(|(size, _)| *size);
    let row = |(blocks, what): (u64, String)| vec![view.size(blocks), percent(curve.hit_rate(blocks)), what];
    marks.into_iter().map(row).collect()
}

/// Points of the curve in files.
const POINTS: u32 = 200;

/// The curve as one JSON object.
#[must_use]
pub fn json(view: &WorkingSetView) -> String {
    let curve = &view.curve;
    let point = |(blocks, hit_rate): (u64, f64)| json!({"blocks": blocks, "tokens": view.tokens(blocks), "hit_rate": hit_rate});
    let pool = view.pool.as_ref().map_or(Value::Null, |pool| {
        json!({
            "name": pool.name,
            "blocks": pool.blocks,
            "tokens": view.tokens(pool.blocks),
            "hit_rate": curve.hit_rate(pool.blocks),
            "bytes_per_token": pool.bytes_per_token,
            "replicas": pool.replicas,
            "enable_prefix_caching": pool.caches,
        })
    });
    let knee = curve
        .knee_blocks()
        .map(|blocks| point((blocks, curve.hit_rate(blocks))));
    let mut object = json!({
        "answer": answer(view),
        "subject": view.subject,
        "requests": curve.requests,
        "prompt_tokens": curve.prompt_tokens,
        "block_size": curve.block,
        "endless_hit_rate": curve.endless_hit_rate(),
        "distinct_blocks": curve.distinct_blocks,
        "largest_request_blocks": curve.largest_request_blocks,
        "knee": knee,
        "pool": pool,
        "curve": curve.points(curve.largest_request_blocks, POINTS).into_iter().map(point).collect::<Vec<_>>(),
    });
    match view.looked {
        Looked::AtAll => {}
        Looked::UntilStopped => object["interrupted"] = json!(true),
        Looked::UntilFull => object["cut"] = json!(true),
    }
    object.to_string() + "\n"
}

/// The curve as CSV.
#[must_use]
pub fn csv(view: &WorkingSetView) -> String {
    let points = view.curve.points(view.curve.largest_request_blocks, POINTS);
    let line = |(blocks, hit_rate): (u64, f64)| format!("{blocks},{},{hit_rate}\n", view.tokens(blocks));
    "blocks,tokens,hit_rate\n".to_owned() + &points.into_iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{behind_prefixes, prefixes as view};
    use super::*;

    #[test]
    fn the_answer_names_the_knee_and_the_pool() {
        let view = view(64);
        let first = answer(&view);
        assert!(first.starts_with("an endless prefix cache finds 91."), "{first}");
        assert!(
            first.contains("the pool of 32,000 tokens (3.91 GiB) finds "),
            "{first}"
        );
        let shown = text(&view, None);
        assert!(
            shown.contains("Llama-3.1-8B-Instruct on L4") && shown.contains("95.0 % of all hits"),
            "{shown}"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 160));
        let narrow = text(&view, Some(60));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        let parsed: Value = serde_json::from_str(&json(&view)).unwrap();
        let rates: Vec<f64> = parsed["curve"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point["hit_rate"].as_f64().unwrap())
            .collect();
        assert!(rates.len() > 100 && rates.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(csv(&view).lines().count(), rates.len() + 1);
    }

    #[test]
    fn unique_prompts_have_nothing_to_cache() {
        let mut alone = view(1);
        alone.curve = WorkingSet::of(std::iter::empty(), 16);
        assert!(answer(&alone).starts_with("nothing to cache"));
    }

    #[test]
    fn blocks_as_long_as_the_prompts_are_named_as_the_reason() {
        let mut large = view(64);
        large.curve.longest_prompt_tokens = large.curve.block;
        // Prefixes are found, so this is not the case in question.
        assert!(answer(&large).starts_with("an endless"));
        let short = behind_prefixes(64, 512);
        let traffic = crate::workload::Generator::new(&short, 1);
        large.curve = WorkingSet::of_traffic(traffic, u64::MAX, 1024, |_| true).0;
        let first = answer(&large);
        assert!(
            first.contains("a block of 1,024 tokens is no shorter than the longest prompt, of 640 tokens"),
            "{first}"
        );
    }

    #[test]
    fn a_pool_that_caches_nothing_and_a_pass_that_was_stopped_say_so() {
        let mut off = view(64);
        off.pool.as_mut().unwrap().caches = false;
        assert!(answer(&off).contains("finds nothing, for prefix caching is off, and would find"));
        off.looked = Looked::UntilStopped;
        assert!(answer(&off).starts_with("INTERRUPTED after "));
        assert!(json(&off).contains("\"interrupted\":true"));
    }
}
