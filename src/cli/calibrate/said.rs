//! What result files lack, from flags: server and model, traffic, or a whole scenario, for all files or for one.

use std::path::Path;

use anyhow::{Context, bail};

use super::Args;
use crate::calibrate::bench::Said;
use crate::cli::disk::Disk;
use crate::config::assemble;
use crate::config::flags::{MachineFlags, ScenarioFlags, ServerFlags};
use crate::config::pasted::engine_of;
use crate::config::raw::RawCluster;
use crate::config::scalar::Count;
use crate::results::{Load, Setup};

/// What result files lack. A load or a length that a file has stays.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "What result files lack")]
pub struct SaidArgs {
    /// Model that was served: an id or a config.json.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// GPUs that shared the weights (-tp).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tensor_parallel_size: Option<u32>,
    /// The server's command, `vllm serve …`; for one file only with FILE= before it. May be repeated.
    #[arg(long, value_name = "[FILE=]COMMAND")]
    pub serve_cmd: Vec<String>,
    /// The client's command, `vllm bench serve …` or `vllm bench latency …`; for one file with FILE= before it.
    #[arg(long, value_name = "[FILE=]COMMAND")]
    pub bench_cmd: Vec<String>,
    /// A scenario that says all of it; for one file with FILE= before it. May be repeated.
    #[arg(long, value_name = "[FILE=]SCENARIO")]
    pub scenario: Vec<String>,
    /// Requests per second that were sent; inf for all at once.
    #[arg(long, value_name = "RATE")]
    pub request_rate: Option<f64>,
    /// The client's limit on requests in flight.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_concurrency: Option<u64>,
    /// Requests that were sent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub num_prompts: Option<u64>,
    /// Prompt tokens, the mean.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    pub input_len: Option<u64>,
    /// Answer tokens, the mean.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    pub output_len: Option<u64>,
    /// Requests of a fixed batch.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub batch_size: Option<u64>,
}

impl SaidArgs {
    /// The engine that every pasted server command starts, or the default where they differ or there is none.
    pub(super) fn engine(&self) -> &'static str {
        let mut engines = self.serve_cmd.iter().map(|command| engine_of(command));
        let first = engines.next().unwrap_or("vllm");
        if engines.all(|engine| engine == first) {
            first
        } else {
            "vllm"
        }
    }

    /// Flags that were given, for the command of the provenance.
    pub(super) fn words(&self) -> Vec<(&'static str, String)> {
        let mut words = Vec::new();
        let mut add = |name: &'static str, value: Option<String>| {
            words.extend(value.map(|value| (name, value)));
        };
        add("model", self.model.clone());
        add(
            "tensor-parallel-size",
            self.tensor_parallel_size.map(|n| n.to_string()),
        );
        for (name, values) in [
            ("serve-cmd", &self.serve_cmd),
            ("bench-cmd", &self.bench_cmd),
            ("scenario", &self.scenario),
        ] {
            values.iter().for_each(|value| add(name, Some(value.clone())));
        }
        add("request-rate", self.request_rate.map(|rate| rate.to_string()));
        for (name, value) in [
            ("max-concurrency", self.max_concurrency),
            ("num-prompts", self.num_prompts),
            ("input-len", self.input_len),
            ("output-len", self.output_len),
            ("batch-size", self.batch_size),
        ] {
            add(name, value.map(|value| value.to_string()));
        }
        words
    }

    /// What was said beside one file, and what belongs beside the result.
    pub(super) fn of(&self, path: &str, args: &Args) -> anyhow::Result<(Said, Vec<String>)> {
        let pick = |values: &[String], flag: &str| pick(values, path, &args.files, flag);
        let mut serve_cmd = pick(&self.serve_cmd, "--serve-cmd")?;
        let mut bench_cmd = pick(&self.bench_cmd, "--bench-cmd")?;
        if let (Some(command), Some(engine)) = (&serve_cmd, args.engine.as_deref()) {
            let started = engine_of(command);
            anyhow::ensure!(
                super::name_of(started) == args.engine_name(),
                "--engine {engine} and --serve-cmd contradict each other: the command starts {started}; give one of them"
            );
        }
        let mut batch = self.batch();
        if let Some(latency) = bench_cmd.as_deref().map(latency).transpose()?.flatten() {
            bench_cmd = None;
            serve_cmd = serve_cmd.or(latency.serve_cmd);
            batch.0 = batch.0.or(Some(latency.batch));
            batch.1 = batch.1.or(Some(latency.input));
            batch.2 = batch.2.or(Some(latency.output));
        }
        let machines = MachineFlags {
            model: self.model.clone(),
            cluster: RawCluster {
                gpu: Some(args.gpu.clone()),
                tensor_parallel_size: self.tensor_parallel_size.map(|ranks| Count(u64::from(ranks))),
                ..RawCluster::default()
            },
            ..MachineFlags::default()
        };
        let flags = ScenarioFlags {
            scenario: pick(&self.scenario, "--scenario")?,
            server: ServerFlags {
                machines,
                ..ServerFlags::default()
            },
            serve_cmd,
            bench_cmd,
            ..ScenarioFlags::default()
        };
        let assembled = assemble(&flags, &Disk)?;
        let version = args
            .engine()
            .split_once('@')
            .map(|(_, version)| version.to_owned());
        let said = Said {
            document: assembled.document,
            setup: self.setup(batch),
            engine: args.engine_name().to_owned(),
            version,
            is_of_file: [&self.serve_cmd, &self.scenario]
                .into_iter()
                .flatten()
                .any(|value| prefix(value).is_some_and(|(file, _)| is_named(file, path))),
        };
        Ok((said, assembled.notes))
    }

    fn batch(&self) -> (Option<u64>, Option<u64>, Option<u64>) {
        (self.batch_size, self.input_len, self.output_len)
    }

    fn setup(&self, (batch, input, output): (Option<u64>, Option<u64>, Option<u64>)) -> Setup {
        let load = match (batch, self.request_rate, self.max_concurrency) {
            (Some(batch), _, _) => Load::StaticBatch { batch },
            (_, Some(rate), _) if rate.is_finite() => Load::Open { rate },
            (_, _, Some(clients)) => Load::Closed { clients },
            (_, Some(_), None) => Load::Burst,
            _ => Load::Unknown,
        };
        Setup {
            load,
            max_concurrency: self.max_concurrency,
            num_prompts: self.num_prompts,
            input_tokens: input.map(|tokens| tokens as f64),
            output_tokens: output.map(|tokens| tokens as f64),
            ..Setup::default()
        }
    }
}

/// The file that a value names before it, and the value. A command begins with a word and a blank.
fn prefix(value: &str) -> Option<(&str, &str)> {
    value.split_once('=').filter(|(before, _)| !before.contains(' '))
}

/// Whether a name means a file: its path, or what that ends in.
fn is_named(name: &str, path: &str) -> bool {
    let last = Path::new(path).file_name();
    name == path || last.is_some_and(|last| last.to_string_lossy() == name)
}

/// The value for one file: the one with its name before it, else the one without a name.
fn pick(values: &[String], path: &str, files: &[String], flag: &str) -> anyhow::Result<Option<String>> {
    let mut plain = None;
    let mut own = None;
    for value in values {
        match prefix(value) {
            Some((file, rest)) if is_named(file, path) => own = Some(rest.to_owned()),
            Some((file, _)) if files.iter().any(|other| is_named(file, other)) => {}
            Some((file, _)) => bail!("{flag} {value}: `{file}` is none of the files that are given"),
            None if plain.is_some() => {
                bail!("{flag} is given twice for all files; write FILE= before a value that is for one")
            }
            None => plain = Some(value.clone()),
        }
    }
    Ok(own.or(plain))
}

/// `vllm bench latency`: its batch and lengths, and what of it is the server's.
struct Latency {
    batch: u64,
    input: u64,
    output: u64,
    serve_cmd: Option<String>,
}

/// Flags of `vllm bench latency` that change nothing that is simulated, and whether a value follows.
const LATENCY_IGNORED: [(&str, bool); 5] = [
    ("--num-iters-warmup", true),
    ("--num-iters", true),
    ("--output-json", true),
    ("--profile", false),
    ("--disable-detokenize", false),
];

/// The parts of a `vllm bench latency` command; `None` for another one. Defaults are vLLM 0.33's.
fn latency(command: &str) -> anyhow::Result<Option<Latency>> {
    let command = command.replace("\\\r\n", " ").replace("\\\n", " ");
    let words = shlex::split(&command).context("--bench-cmd has a quote that does not end")?;
    let is_script = |word: &String| word.ends_with("benchmark_latency.py");
    let start = words
        .windows(2)
        .position(|two| two == ["bench", "latency"])
        .map(|at| at + 2)
        .or_else(|| words.iter().position(is_script).map(|at| at + 1));
    let Some(start) = start else {
        return Ok(None);
    };
    let mut latency = Latency {
        batch: 8,
        input: 32,
        output: 128,
        serve_cmd: None,
    };
    let mut server: Vec<String> = vec!["vllm".to_owned(), "serve".to_owned()];
    let mut rest = words[start..].iter();
    while let Some(word) = rest.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        let name = if name.starts_with("--") {
            name.replace('_', "-")
        } else {
            name
        };
        let mut number = |what: &str| -> anyhow::Result<u64> {
            let text = value.clone().or_else(|| rest.next().cloned()).unwrap_or_default();
            match text.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => bail!("--bench-cmd {what}: `{text}` must be a whole number above 0"),
            }
        };
        match name.as_str() {
            "--batch-size" => latency.batch = number(&name)?,
            "--input-len" => latency.input = number(&name)?,
            "--output-len" => latency.output = number(&name)?,
            "--n" if number(&name)? == 1 => {}
            "--n" | "--use-beam-search" => {
                bail!("--bench-cmd {name}: several answers to one prompt are not modelled")
            }
            known if LATENCY_IGNORED.iter().any(|(name, _)| *name == known) => {
                let takes = LATENCY_IGNORED
                    .iter()
                    .any(|(name, takes)| *name == known && *takes);
                if takes && value.is_none() {
                    rest.next();
                }
            }
            _ => server.push(word.clone()),
        }
    }
    if server.len() > 2 {
        let quoted = shlex::try_join(server.iter().map(String::as_str));
        latency.serve_cmd = Some(quoted.context("--bench-cmd holds a character that no shell passes on")?);
    }
    Ok(Some(latency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_command_gives_its_batch_and_leaves_the_server_its_flags() {
        let command = "vllm bench latency --model Qwen/Qwen3-8B -tp 2 --batch-size=4 --input_len 512 --num-iters 5 \
                       --max-model-len 4096";
        let latency = latency(command).unwrap().unwrap();
        assert_eq!((latency.batch, latency.input, latency.output), (4, 512, 128));
        assert_eq!(
            latency.serve_cmd.unwrap(),
            "vllm serve --model Qwen/Qwen3-8B -tp 2 --max-model-len 4096"
        );
        assert!(
            super::latency("vllm bench serve --request-rate 4")
                .unwrap()
                .is_none()
        );
        assert!(super::latency("vllm bench latency --batch-size 0").is_err());
        assert!(super::latency("vllm bench latency --use-beam-search").is_err());
    }

    #[test]
    fn the_servers_commands_say_which_engine_is_fitted() {
        let engine = |commands: &[&str]| {
            let serve_cmd = commands.iter().map(|&command| command.to_owned()).collect();
            let said = SaidArgs {
                serve_cmd,
                ..SaidArgs::default()
            };
            said.engine()
        };
        let sglang = "c1.json=python -m sglang.launch_server --model-path m";
        assert_eq!(engine(&[sglang]), "sglang");
        assert_eq!(engine(&[]), "vllm");
        assert_eq!(engine(&["vllm serve m"]), "vllm");
        assert_eq!(engine(&[sglang, "vllm serve m"]), "vllm");
    }

    #[test]
    fn a_value_with_a_name_is_for_that_file_and_wins() {
        let files = ["runs/a.json".to_owned(), "b.json".to_owned()];
        let values = ["all.toml".to_owned(), "a.json=own.toml".to_owned()];
        let of = |path: &str| pick(&values, path, &files, "--scenario").unwrap();
        assert_eq!(of("runs/a.json").as_deref(), Some("own.toml"));
        assert_eq!(of("b.json").as_deref(), Some("all.toml"));
        let stray = ["c.json=own.toml".to_owned()];
        let error = pick(&stray, "b.json", &files, "--scenario").unwrap_err();
        assert!(error.to_string().contains("`c.json` is none"), "{error}");
        let twice = ["x.toml".to_owned(), "y.toml".to_owned()];
        assert!(pick(&twice, "b.json", &files, "--scenario").is_err());
    }
}
