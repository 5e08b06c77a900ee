//! `--metrics` of run: what Prometheus would have scraped from its servers at the end.

use std::path::Path;

use super::files;
use crate::config::Resolved;
use crate::metrics::scraped::Scraped;
use crate::report::figures::time;
use crate::report::prometheus::{self, Exposition};
use crate::units::Picos;

/// Whether to write them, and under which names.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct MetricsFlags {
    /// Write the metrics that vLLM's server would show at the end of the run, with its names and buckets (Prometheus text).
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<String>,
    /// Write names that vLLM has given up to --metrics, too: vllm:gpu_cache_usage_perc, vllm:time_per_output_token_seconds.
    #[arg(long, requires = "metrics")]
    pub metrics_deprecated: bool,
}

impl MetricsFlags {
    /// Finds out before a long simulation whether the file can be written.
    ///
    /// # Errors
    /// If it cannot, or is the screen.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Some(file) = &self.metrics else {
            return Ok(());
        };
        anyhow::ensure!(
            file != "-",
            "--metrics writes beside the result and not to the screen\n  help: name a file, as --metrics metrics.txt"
        );
        files::check_file(Path::new(file), "--metrics")
    }

    /// Who keeps them, if they are asked for.
    pub(super) fn begin(&self, resolved: &Resolved) -> Option<Scraped> {
        self.metrics.as_ref().map(|_| Scraped::new(&resolved.scenario))
    }

    /// Writes them as they were at `end`; what is to be said of that.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(
        &self,
        scraped: &Scraped,
        end: Picos,
        is_interrupted: bool,
    ) -> anyhow::Result<Vec<String>> {
        let Some(file) = &self.metrics else {
            return Ok(Vec::new());
        };
        let exposition = Exposition {
            deprecated: self.metrics_deprecated,
            ..Exposition::default()
        };
        let text = prometheus::text(scraped, &exposition, end);
        files::write(Path::new(file), text.as_bytes())?;
        let when = match is_interrupted {
            true => "when the run was interrupted, after",
            false => "at the end of the run, after",
        };
        Ok(vec![format!(
            "{file} holds the metrics of its servers {when} {}",
            time(end.seconds())
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_an_interrupted_run_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.txt");
        let flags = MetricsFlags {
            metrics: Some(file.display().to_string()),
            metrics_deprecated: false,
        };
        let scraped = Scraped::of([]);
        let end = Picos::from_seconds(12.3);
        let said = |is_interrupted| flags.write(&scraped, end, is_interrupted).unwrap().concat();
        assert!(said(true).ends_with("of its servers when the run was interrupted, after 12.3 s"));
        assert!(said(false).ends_with("of its servers at the end of the run, after 12.3 s"));
        let page = std::fs::read_to_string(file).unwrap();
        assert!(page.contains("of vLLM 0.33 after 12.3 s\n"), "{page}");
    }
}
