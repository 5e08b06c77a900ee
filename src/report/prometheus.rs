//! The metrics of a run's servers as Prometheus scrapes them: its text format (0.0.4), laid out as `prometheus_client` writes it for vLLM.
//!
//! Names, types, labels and bucket boundaries are vLLM 0.33's, of every engine: a server of SGLang's is told under vLLM's names,
//! which a comment at the head says. `engine` is the number of the replica, as it is that of a data-parallel engine in vLLM.
//! `vllm:cache_config_info` has of its labels those that say how much KV there is.
//!
//! Law: the same metrics give the same bytes.

mod classes;
mod families;

pub use classes::of_classes;

use std::fmt::Write;

use self::families::{Buckets, HISTOGRAMS, NUMBERS, Numbers, OLD_HISTOGRAMS, OLD_NUMBERS};
use super::figures::time;
use crate::metrics::scraped::{EngineMetrics, Scraped};
use crate::units::Picos;

/// What a scrape shows beside the metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exposition<'a> {
    /// `model_name` of all engines; without it that of each engine's pool.
    pub model_name: Option<&'a str>,
    /// Seconds since 1970 at which counters began (`_created`); simulated time begins at 0.
    pub created: f64,
    /// Shows names that vLLM has given up, too: `vllm:gpu_cache_usage_perc` and `vllm:time_per_output_token_seconds`.
    pub deprecated: bool,
}

/// What a scrape at `now` shows. Everything that was told by then is in it.
#[must_use]
pub fn text(scraped: &Scraped, exposition: &Exposition<'_>, now: Picos) -> String {
    let engines = scraped.engines();
    let mut page = Page {
        engines: engines
            .iter()
            .zip(0_u32..)
            .map(|(metrics, number)| Labelled {
                metrics,
                engine: number.to_string(),
                model_name: exposition.model_name.unwrap_or(&metrics.info.model),
            })
            .collect(),
        created: exposition.created,
        text: String::new(),
    };
    page.head(now);
    let old = exposition.deprecated;
    NUMBERS.iter().for_each(|numbers| page.numbers(numbers));
    OLD_NUMBERS
        .iter()
        .filter(|_| old)
        .for_each(|numbers| page.numbers(numbers));
    HISTOGRAMS.iter().for_each(|buckets| page.histograms(buckets));
    OLD_HISTOGRAMS
        .iter()
        .filter(|_| old)
        .for_each(|buckets| page.histograms(buckets));
    page.cache_config();
    page.text
}

/// An engine and the labels of all that is told of it.
struct Labelled<'a> {
    metrics: &'a EngineMetrics,
    engine: String,
    model_name: &'a str,
}

impl Labelled<'_> {
    /// Its labels and one more, by name as `prometheus_client` has them.
    fn with(&self, other: Option<(&str, &str)>) -> String {
        let mut all = vec![("engine", self.engine.as_str()), ("model_name", self.model_name)];
        all.extend(other);
        all.sort_unstable();
        labels(&all)
    }
}

struct Page<'a> {
    engines: Vec<Labelled<'a>>,
    created: f64,
    text: String,
}

impl Page<'_> {
    /// What was simulated, and whose metrics these are.
    fn head(&mut self, now: Picos) {
        let version = env!("CARGO_PKG_VERSION");
        self.line(format_args!(
            "# simulated by Plimsoll {version}: metrics of vLLM 0.33 after {}",
            time(now.seconds())
        ));
        let is_alike = |a: &Labelled<'_>, b: &Labelled<'_>| {
            (&a.metrics.info.pool, &a.metrics.info.profile) == (&b.metrics.info.pool, &b.metrics.info.profile)
        };
        let mut heads = Vec::new();
        for alike in self.engines.chunk_by(is_alike) {
            let (first, last) = (&alike[0], &alike[alike.len() - 1]);
            let info = &first.metrics.info;
            let which = match alike.len() {
                1 => format!("engine {}", first.engine),
                _ => format!("engines {} to {}", first.engine, last.engine),
            };
            let pool = match info.pool.as_str() {
                "" => String::new(),
                pool => format!(", pool {}", escaped(pool)),
            };
            let told = match info.profile.starts_with("vllm@") {
                true => "",
                false => ", told under vLLM's names",
            };
            heads.push(format!("# {which}: {}{pool}{told}", escaped(&info.profile)));
        }
        heads.iter().for_each(|head| self.line(format_args!("{head}")));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("text takes all that is written to it");
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        self.line(format_args!("# HELP vllm:{name} {help}"));
        self.line(format_args!("# TYPE vllm:{name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        self.line(format_args!("vllm:{name}{labels} {}", number(value)));
    }

    /// When counters began, of each of these labels.
    fn created(&mut self, name: &str, help: &str, labels: &[String]) {
        let name = format!("{name}_created");
        self.family(&name, "gauge", help);
        labels
            .iter()
            .for_each(|labels| self.sample(&name, labels, self.created));
    }

    fn numbers(&mut self, numbers: &Numbers) {
        let (name, kind) = match numbers.is_counter {
            true => (format!("{}_total", numbers.name), "counter"),
            false => (numbers.name.to_owned(), "gauge"),
        };
        self.family(&name, kind, numbers.help);
        let values: Vec<Option<(&str, &str)>> = match numbers.label {
            None => vec![None],
            Some((label, values)) => values.iter().map(|value| Some((label, *value))).collect(),
        };
        let read: Vec<Vec<f64>> = self
            .engines
            .iter()
            .map(|engine| (numbers.read)(engine.metrics))
            .collect();
        let mut all = Vec::new();
        for (at, value) in values.into_iter().enumerate() {
            for (engine, read) in self.engines.iter().zip(&read) {
                all.push((engine.with(value), read[at]));
            }
        }
        for (labels, value) in &all {
            self.sample(&name, labels, *value);
        }
        if numbers.is_counter {
            let labels: Vec<String> = all.into_iter().map(|(labels, _)| labels).collect();
            self.created(numbers.name, numbers.help, &labels);
        }
    }

    fn histograms(&mut self, buckets: &Buckets) {
        let name = buckets.name;
        self.family(name, "histogram", buckets.help);
        let bucket = format!("{name}_bucket");
        let mut samples = Vec::new();
        let mut all = Vec::new();
        for engine in &self.engines {
            let histogram = (buckets.read)(engine.metrics);
            for (bound, count) in histogram.buckets() {
                let labels = engine.with(Some(("le", &number(bound))));
                samples.push((bucket.clone(), labels, count as f64));
            }
            let (count, labels) = (histogram.count() as f64, engine.with(None));
            samples.push((bucket.clone(), engine.with(Some(("le", "+Inf"))), count));
            samples.push((format!("{name}_count"), labels.clone(), count));
            samples.push((format!("{name}_sum"), labels.clone(), histogram.sum()));
            all.push(labels);
        }
        for (name, labels, value) in &samples {
            self.sample(name, labels, *value);
        }
        self.created(name, buckets.help, &all);
    }

    /// How much KV there is, in labels of a gauge that is always 1.
    fn cache_config(&mut self) {
        self.family("cache_config_info", "gauge", "How the engine holds KV.");
        for at in 0..self.engines.len() {
            let engine = &self.engines[at];
            let info = &engine.metrics.info;
            let is_cached = if info.enable_prefix_caching {
                "True"
            } else {
                "False"
            };
            let labels = labels(&[
                ("block_size", &info.block_size.to_string()),
                ("enable_prefix_caching", is_cached),
                ("engine", &engine.engine),
                ("num_gpu_blocks", &info.num_gpu_blocks.to_string()),
            ]);
            self.sample("cache_config_info", &labels, 1.0);
        }
    }
}

fn labels(all: &[(&str, &str)]) -> String {
    let each: Vec<String> = all
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    format!("{{{}}}", each.join(","))
}

/// The value of a label, in which nothing ends it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('\n', r"\n")
        .replace('"', "\\\"")
}

/// A number as `prometheus_client` writes it, every digit of it: `0.3`, `12.0`, `1e+06`.
fn number(value: f64) -> String {
    let plain = format!("{value:?}");
    match plain.split_once('.') {
        Some((whole, rest)) if value > 0.0 && whole.len() > 6 => {
            let digits = format!("{}.{}{rest}", &whole[..1], &whole[1..]);
            let mantissa = digits.trim_end_matches(['0', '.']);
            format!("{mantissa}e+{:02}", whole.len() - 1)
        }
        _ => plain,
    }
}

#[cfg(test)]
mod tests;
