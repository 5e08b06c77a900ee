//! `plimsoll fit`: does it fit, how many tokens of KV cache, and what the datasheet allows at most.

mod arithmetic;
mod json;
mod text;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};

use super::inputs;
use crate::config::scalar::Count;
use crate::config::{
    AskedFormats, Diagnostic, Diagnostics, FormatProblem, check_formats, kv_note, rank_notes,
};
use crate::engine::memory::{MemoryOptions, plan};
use crate::hardware::Device;
use crate::model::{ModelShape, parse_dtype, parse_kv_cache_dtype, parse_quantization};
use crate::quantity::parse_bytes;
use json::{does_not_fit_json, fits_json};
use text::write_text;

/// Exit code of "no feasible configuration".
const NOT_FEASIBLE: u8 = 3;
/// A chat turn as the course and many benchmarks have it.
const TYPICAL_PROMPT: u32 = 1024;
const TYPICAL_OUTPUT: u32 = 128;

/// Does the model fit, and what is the most the hardware could do?
///
/// Weights and KV cache are counted from the model's config; activations, CUDA graphs and runtime are estimates.
/// The ceilings are datasheet rooflines: nothing served is faster.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll fit meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --max-model-len 8192
  plimsoll fit Qwen/Qwen3-32B --gpu l40s --quantization fp8 --tensor-parallel-size 2 --why
  plimsoll fit ./my-model/config.json --gpu hardware_profiles/mine.toml --format json

Exit code 3: it does not fit; the message names the smallest changes that do.")]
pub struct Args {
    /// Hugging Face id, or the path of a config.json or of its folder.
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// GPU: any shortening of a known name (`plimsoll hw` lists them), or a profile's path.
    #[arg(long, value_name = "GPU")]
    pub gpu: String,
    /// GPUs that share every layer (vLLM's -tp).
    #[arg(long, visible_alias = "tp", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tensor_parallel_size: u32,
    /// Stages that share the stack of layers (vLLM's -pp).
    #[arg(long, visible_alias = "pp", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub pipeline_parallel_size: u32,
    /// Longest sequence, prompt plus output; the model's own limit if not given.
    #[arg(long, value_parser = tokens)]
    pub max_model_len: Option<u32>,
    /// Share of the GPU's memory that the engine may use; vLLM 0.33 takes 0.92.
    #[arg(long, value_name = "SHARE")]
    pub gpu_memory_utilization: Option<f64>,
    /// Format of weights that are not quantized, and of activations: auto, bfloat16, float16, float32.
    #[arg(long, default_value = "auto")]
    pub dtype: String,
    /// How linear layers are stored: fp8, awq, gptq, int8, nvfp4, none …; the checkpoint's own if not given.
    #[arg(long, short = 'q')]
    pub quantization: Option<String>,
    /// Format of the KV cache: auto, fp8, bfloat16 ….
    #[arg(long, default_value = "auto")]
    pub kv_cache_dtype: String,
    /// Tokens of a KV block; 16 if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub block_size: Option<u32>,
    /// Most sequences at once; vLLM's default for the GPU if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub max_num_seqs: Option<u32>,
    /// Token budget of a step; vLLM's default for the GPU if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub max_num_batched_tokens: Option<u32>,
    /// Size of the KV pool on each GPU, in place of the formula: bytes, or with a unit, `24 GiB`.
    #[arg(long)]
    pub kv_cache_memory_bytes: Option<String>,
    /// Number of KV blocks, in place of the formula.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub num_gpu_blocks_override: Option<u32>,
    /// No CUDA graphs.
    #[arg(long)]
    pub enforce_eager: bool,
    /// Print the arithmetic line by line.
    #[arg(long)]
    pub why: bool,
    /// text or json.
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
}

/// Everything that is printed about one question.
struct Question {
    device: Device,
    model: ModelShape,
    options: MemoryOptions,
    /// Flags that were not given and what is taken for them.
    assumed: Vec<String>,
    notes: Vec<String>,
}

/// Answers on `out`; exit code 3 where it does not fit.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let question = question(args)?;
    let answer = plan(&question.device, &question.model, &question.options);
    match (&answer, args.format.as_str()) {
        (Ok(plan), "json") => writeln!(out, "{:#}", fits_json(&question, plan))?,
        (Err(error), "json") => writeln!(out, "{:#}", does_not_fit_json(&question, error))?,
        (Ok(plan), _) => write_text(out, &question, plan, args.why)?,
        (Err(error), _) => writeln!(
            out,
            " DOES NOT FIT   {}",
            error.to_string().trim_start_matches("does not fit: ")
        )?,
    }
    Ok(match answer {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(NOT_FEASIBLE),
    })
}

fn question(args: &Args) -> anyhow::Result<Question> {
    let (device, mut notes) = inputs::device(&args.gpu)?;
    let (model, model_notes) = inputs::model(&args.model)?;
    notes.extend(model_notes);
    let model = in_formats(args, model, &device, &mut notes)?;
    notes.extend(rank_notes(&model, args.tensor_parallel_size));
    let options = options(args, &device, &model)?;
    notes.extend(kv_note(options.kv_dtype, &device));
    let stages = options.pipeline_parallel;
    if stages > 1 {
        notes.push(format!(
            "{stages} stages: the fullest one is counted, roughly; run, knee and sweep do not model stages yet"
        ));
    }
    Ok(Question {
        assumed: assumed(args, &options),
        device,
        model,
        options,
        notes,
    })
}

/// The model in the formats that are asked for, which the GPU must have.
fn in_formats(
    args: &Args,
    mut model: ModelShape,
    device: &Device,
    notes: &mut Vec<String>,
) -> anyhow::Result<ModelShape> {
    if let Some(dtype) = parse_dtype(&args.dtype)? {
        model = model.with_dtype(dtype);
    }
    if let Some(word) = &args.quantization {
        model = model.with_quantization(parse_quantization(word)?);
    }
    let asked = AskedFormats {
        dtype: args.dtype != "auto",
        quantization: args.quantization.is_some(),
    };
    let found = check_formats(asked, &mut model, device);
    let problems: Vec<Diagnostic> = found.problems.iter().map(refused).collect();
    if !problems.is_empty() {
        return Err(Diagnostics(problems).into());
    }
    notes.extend(found.notes);
    Ok(model)
}

/// The flags over vLLM's defaults, checked against the model.
fn options(args: &Args, device: &Device, model: &ModelShape) -> anyhow::Result<MemoryOptions> {
    let defaults = MemoryOptions::vllm_defaults(device, model);
    let pool = args.kv_cache_memory_bytes.as_deref().map(pool_bytes);
    let options = MemoryOptions {
        tensor_parallel: args.tensor_parallel_size,
        pipeline_parallel: args.pipeline_parallel_size,
        gpu_memory_utilization: args
            .gpu_memory_utilization
            .unwrap_or(defaults.gpu_memory_utilization),
        kv_dtype: parse_kv_cache_dtype(&args.kv_cache_dtype)?.unwrap_or(model.dtype),
        block_size: args.block_size.unwrap_or(defaults.block_size),
        max_num_batched_tokens: args
            .max_num_batched_tokens
            .unwrap_or(defaults.max_num_batched_tokens),
        max_num_seqs: args.max_num_seqs.unwrap_or(defaults.max_num_seqs),
        max_model_len: args.max_model_len.unwrap_or(defaults.max_model_len),
        enforce_eager: args.enforce_eager,
        kv_cache_memory_bytes: pool.transpose()?,
        num_gpu_blocks_override: args.num_gpu_blocks_override,
        ..defaults
    };
    let share = options.gpu_memory_utilization;
    ensure!(
        share > 0.0 && share <= 1.0,
        "`--gpu-memory-utilization` must lie above 0 and at most 1; {share} does not (92 % is 0.92)"
    );
    ensure!(
        options.max_model_len <= model.max_position,
        "`--max-model-len {}` is longer than the model allows: its context is {} tokens",
        options.max_model_len,
        model.max_position
    );
    let (stages, layers) = (options.pipeline_parallel, model.layer_count());
    if stages > layers {
        bail!("`--pipeline-parallel-size {stages}`: the model has only {layers} layers to share");
    }
    Ok(options)
}

/// A format that is refused, by the flag that asks for it.
fn refused(wrong: &FormatProblem) -> Diagnostic {
    let flag = wrong.key.trim_start_matches("model.").replace('_', "-");
    Diagnostic::new(format!("`--{flag}` {}: {}", wrong.problem, wrong.label)).help(wrong.help)
}

/// A number of tokens as `run` reads it, `8192` or `8k`.
fn tokens(text: &str) -> Result<u32, String> {
    let count: Count = text.parse()?;
    let tokens = u32::try_from(count.0).ok();
    tokens
        .filter(|tokens| (1..=1 << 30).contains(tokens))
        .ok_or_else(|| format!("`{text}` does not lie between 1 and {}", 1 << 30))
}

/// vLLM takes plain bytes; a unit is welcome.
fn pool_bytes(text: &str) -> anyhow::Result<crate::units::Bytes> {
    let bytes = text
        .parse::<u64>()
        .map(crate::units::Bytes)
        .or_else(|_| parse_bytes(text));
    bytes.context("`--kv-cache-memory-bytes`")
}

/// The flags that were not given, with the values of vLLM 0.33.
fn assumed(args: &Args, options: &MemoryOptions) -> Vec<String> {
    let utilization = options.gpu_memory_utilization.to_string();
    let flags = [
        (
            "gpu-memory-utilization",
            args.gpu_memory_utilization.is_none(),
            utilization,
        ),
        (
            "max-model-len",
            args.max_model_len.is_none(),
            options.max_model_len.to_string(),
        ),
        (
            "max-num-batched-tokens",
            args.max_num_batched_tokens.is_none(),
            options.max_num_batched_tokens.to_string(),
        ),
        (
            "max-num-seqs",
            args.max_num_seqs.is_none(),
            options.max_num_seqs.to_string(),
        ),
        (
            "block-size",
            args.block_size.is_none(),
            options.block_size.to_string(),
        ),
    ];
    let open = flags.into_iter().filter(|(_, is_open, _)| *is_open);
    open.map(|(flag, _, value)| format!("--{flag} {value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::Value;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn fit(words: &str) -> (String, ExitCode) {
        let args = Cli::try_parse_from(format!("fit {words}").split_whitespace())
            .unwrap()
            .args;
        let mut out = Vec::new();
        let code = run(&args, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), code)
    }

    #[test]
    fn the_first_line_is_the_verdict() {
        insta::assert_snapshot!(fit("Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --max-model-len 8192").0, @r#"
        FITS          weights 15.0 GiB · runtime ~2.9 · KV pool 54.9 GiB = 450k tokens in 28,120 blocks (128 KiB/token: 32 layers × 8 KV heads × 128 × 2, bfloat16)
        concurrency   54 requests × 8,192 tokens worst case  |  390 × 1,152 tokens typical
        ceilings      prefill ≤ 70.9k tok/s (compute roof)  |  decode bs=1 ≤ 223 tok/s (memory roof)  |  ridge point 295 tokens/step
        why           below ~295 tokens per step the GPU waits for memory; above it, for math   [--why for the arithmetic]
        assumed       vLLM 0.33 defaults --gpu-memory-utilization 0.92 --max-num-batched-tokens 8192 --max-num-seqs 1024 --block-size 16
        estimated     runtime: activations, CUDA graphs and buffers, which an engine measures at start
        "#);
    }

    #[test]
    fn why_shows_the_arithmetic() {
        insta::assert_snapshot!(fit("openai/gpt-oss-20b --gpu l40s --tp 2 --why").0, @r#"
        FITS          weights 6.4 GiB · runtime ~1.9 · KV pool 32.5 GiB = 1.42M tokens in 88,713 blocks (24 KiB/token: 12 layers (window 128) × 4 KV heads × 64 × 2 + 12 layers × 4 KV heads × 64 × 2, bfloat16)
        concurrency   21 requests × 131,072 tokens worst case  |  1,232 × 1,152 tokens typical
        ceilings      prefill ≤ 120k tok/s (compute roof)  |  decode bs=1 ≤ 466 tok/s (memory roof)  |  ridge point 791 tokens/step
            memory           44.4 GiB that L40S-48GB offers × 0.92 = 40.85 GiB
          - weights          20,914,757,184 parameters, mxfp4 linear layers, bfloat16 rest, this GPU's share = 6.42 GiB
          - activations      2,048 tokens × 2 B × (2 × 11,520/2 + 6 × 2,880) + 256 rows × 201,088 × 4 B × 2 = 0.49 GiB   estimate
          - CUDA graphs      19.2 MiB a layer = 0.45 GiB   estimate
          - runtime          buffers and workspaces = 1.00 GiB   estimate
          = KV pool          the rest = 32.49 GiB
            KV per token     24 KiB/token: 12 layers (window 128) × 4 KV heads × 64 × 2 + 12 layers × 4 KV heads × 64 × 2, bfloat16
            KV blocks        34,883,672,196 B ÷ (16 tokens × 24,576 B) = 88,713 blocks = 1,419,408 tokens
            worst case       131,072 tokens take 4164.5 blocks: 88,713 ÷ 4164.5 = 21 requests
            typical          1,152 tokens take 72 blocks: 88,713 ÷ 72 = 1,232 requests
            windows          2 groups of layers are allocated apart (vLLM counts 177,426 blocks of one group); layers with a window free what slid out of it
            prefill roof     2 × 362 TFLOP/s ÷ 6.06 GFLOP a token = 120k tok/s
            decode roof      864 GB/s ÷ 1.86 GB of weights read a step = 466 tok/s for one sequence
            ridge point      (11.4 GB of layers ÷ 864 GB/s) ÷ (6.06 GFLOP ÷ 362 TFLOP/s) = 791 tokens
        assumed       vLLM 0.33 defaults --gpu-memory-utilization 0.92 --max-model-len 131072 --max-num-batched-tokens 2048 --max-num-seqs 256 --block-size 16
        estimated     runtime: activations, CUDA graphs and buffers, which an engine measures at start
        "#);
    }

    #[test]
    fn what_does_not_fit_exits_with_3() {
        let (text, code) = fit("meta-llama/Llama-3.1-70B-Instruct --gpu A100-SXM-80GB");
        insta::assert_snapshot!(text, @r#"
        DOES NOT FIT   needs 131.4 GiB weights + 2.7 GiB activations and runtime a GPU, A100-SXM-80GB offers 72.8 GiB
         smallest change that fits: --quantization fp8 --max-model-len 8192   |   -tp 2 --max-model-len 26624   |   -tp 4
        "#);
        assert_eq!(code, ExitCode::from(3));
    }

    #[test]
    fn json_has_the_blocks_and_is_consistent() {
        let (text, _) = fit("Qwen/Qwen3-8B --gpu h200 --kv-cache-dtype fp8 --format json");
        let json: Value = serde_json::from_str(&text).unwrap();
        let number = |key: &str| json[key].as_u64().unwrap();
        assert_eq!(number("kv_tokens"), 16 * number("num_gpu_blocks"));
        assert_eq!(
            number("num_gpu_blocks"),
            number("kv_pool_bytes") / number("kv_block_bytes")
        );
        assert_eq!(json["scenario"]["kv_bytes_per_token"], 36 * 8 * 128 * 2);
        let (text, _) = fit("llama-3.1-405b --gpu l4 --format json");
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["fits"], false);
    }

    #[test]
    fn a_pool_may_be_given_with_a_unit() {
        let (text, _) =
            fit("Llama-3.1-8B --gpu h100 --max-model-len 4096 --kv-cache-memory-bytes 24GiB --format json");
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["max_concurrency"], 48);
    }

    #[test]
    fn a_quantized_kv_cache_doubles_the_tokens() {
        let tokens = |flags: &str| {
            let (text, _) = fit(&format!("Llama-3.1-8B --gpu h100 --format json {flags}"));
            serde_json::from_str::<Value>(&text).unwrap()["kv_tokens"]
                .as_u64()
                .unwrap()
        };
        assert!(tokens("--kv-cache-dtype fp8").abs_diff(2 * tokens("")) <= 32);
    }
}
