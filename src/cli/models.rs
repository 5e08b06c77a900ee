//! `plimsoll models`: the shipped models, and one of them in full.

mod json;

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

use json::model_json;

use super::figures::{grouped, plain, short};
use super::inputs;
use crate::model::{
    self, Attention, Dtype, LayerGroup, Mlp, ModelShape, OutputGate, Quantization, Recurrence, Rule,
};
use crate::report::tables::Column;
use crate::report::{counted, folded, list_on};

/// The models that resolve without a network, or one in full.
///
/// Without a subcommand all shipped models are listed. Any Hugging Face config.json can be shown, and used wherever
/// a model is asked for. Names may be spelt as people write them (mistral-7b, Kimi-K2, TheBloke/Llama-2-7B-Chat-AWQ); a note says what
/// was read, and a name of several sizes is refused with those it may mean.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll models
  plimsoll models qwen3 fp8
  plimsoll models show Qwen/Qwen3-30B-A3B
  plimsoll models show mixtral-8x7b
  plimsoll models show ./my-model/config.json --format json")]
pub struct Args {
    /// What to do; list if not given.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// text or json.
    #[arg(long, global = true, default_value = "text", value_parser = super::text_or(&["json"]))]
    pub format: String,
}

/// What to do with models.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Action {
    /// List the shipped models, or some of them.
    List {
        /// Only those with all of these in their names.
        words: Vec<String>,
    },
    /// One model in full.
    Show {
        /// Hugging Face id, its last part, or the path of a config.json or of its folder.
        name: String,
    },
    /// A name without a word before it: that model in full or, where it is none, those with all of these in their names.
    #[command(external_subcommand)]
    Named(Vec<String>),
}

/// Lists or shows.
pub fn run(args: &Args, out: &mut dyn Write, width: Option<usize>) -> anyhow::Result<ExitCode> {
    match &args.action {
        None => list(&[], &args.format, out, width)?,
        Some(Action::List { words }) => list(words, &args.format, out, width)?,
        Some(Action::Show { name }) => show(&inputs::model(name)?, &args.format, out)?,
        Some(Action::Named(words)) => {
            let (names, format) = super::named::named(words, &args.format)?;
            if format == "toml" {
                anyhow::bail!("`--format toml` writes a GPU's profile; a model is shown as text or json");
            }
            match names.as_slice() {
                [name] if inputs::model(name).is_ok() => show(&inputs::model(name)?, format, out)?,
                names => {
                    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
                    list(&names, format, out, width)?;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show((shape, notes): &(ModelShape, Vec<String>), format: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    match format {
        "json" => writeln!(out, "{:#}", model_json(shape, notes))?,
        _ => show_text(shape, notes, out)?,
    }
    Ok(())
}

/// The shipped models whose ids have all of these words in them.
fn shipped(words: &[String]) -> anyhow::Result<Vec<ModelShape>> {
    let has_all = |id: &&str| {
        let id = id.to_lowercase();
        words.iter().all(|word| id.contains(&word.to_lowercase()))
    };
    let shape = |id| {
        model::find(id)
            .expect("every listed id resolves, a test reads them all")
            .0
    };
    let shapes: Vec<ModelShape> = model::names().filter(has_all).map(shape).collect();
    if shapes.is_empty() {
        anyhow::bail!(
            "no shipped model has {} in its name; `plimsoll models` lists all",
            words.join(" and ")
        );
    }
    Ok(shapes)
}

fn list(words: &[String], format: &str, out: &mut dyn Write, width: Option<usize>) -> anyhow::Result<()> {
    let shapes = shipped(words)?;
    if format == "json" {
        let all: Vec<Value> = shapes.iter().map(|shape| model_json(shape, &[])).collect();
        writeln!(out, "{:#}", json!({"version": 1, "models": all}))?;
        return Ok(());
    }
    let columns = [
        Column::left("model"),
        Column::right("params"),
        Column::right("active"),
        Column::right("GiB"),
        Column::right("KiB/tok"),
        Column::right("context"),
        Column::left("stored"),
    ];
    let row = |shape: &ModelShape| {
        vec![
            shape.name.clone(),
            short(shape.parameters() as f64),
            short(shape.active_parameters() as f64),
            format!("{:.1}", shape.weight_bytes(1).gib()),
            plain(shape.kv_bytes_per_token(shape.dtype, 1).0 as f64 / 1024.0),
            grouped(u64::from(shape.max_position)),
            storage(shape),
        ]
    };
    let rows: Vec<Vec<String>> = shapes.iter().map(row).collect();
    let about = "\nGiB of weights; KiB of KV cache a token at the model's own dtype, windows ignored.\n\
                 Any other model: give the path of its config.json. `plimsoll models show MODEL` for one in full, `plimsoll models list \
                 qwen3 fp8` for those with both in their names.\n";
    let text = list_on(&columns, &rows, width) + &folded(about, width);
    out.write_all(text.as_bytes())?;
    Ok(())
}

fn storage(shape: &ModelShape) -> String {
    match (shape.quantization, shape.dtype) {
        (Quantization::None, Dtype::Bf16) => "bf16".to_string(),
        (Quantization::None, Dtype::Fp16) => "fp16".to_string(),
        (Quantization::None, dtype) => dtype.name().to_string(),
        (quantization, _) => quantization.name(),
    }
}

fn show_text(shape: &ModelShape, notes: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let tied = if shape.tied_embeddings {
        ", tied to the LM head"
    } else {
        ""
    };
    let mut rows = vec![
        ("model", shape.name.clone()),
        ("architecture", shape.architecture.clone()),
        (
            "parameters",
            format!(
                "{} ({} a token)",
                grouped(shape.parameters()),
                grouped(shape.active_parameters())
            ),
        ),
        (
            "weights",
            format!("{:.2} GiB as {}", shape.weight_bytes(1).gib(), storage(shape)),
        ),
        ("hidden size", grouped(u64::from(shape.hidden_size))),
        (
            "vocabulary",
            format!("{}{tied}", grouped(u64::from(shape.vocab_size))),
        ),
        ("context", grouped(u64::from(shape.max_position))),
    ];
    rows.extend(shape.layers.iter().map(|group| ("layers", layers(group))));
    // What DeepSeek's sparse attention keeps on Hopper.
    let scaled = shape.indexer().map(|_| Dtype::Fp8Scaled);
    for dtype in [shape.dtype, Dtype::Fp8].into_iter().chain(scaled) {
        let bytes = shape.kv_bytes_per_token(dtype, 1).0;
        rows.push((
            "KV cache",
            format!("{} bytes a token in {}", grouped(bytes), dtype.name()),
        ));
    }
    let gflop = shape.linear_flops_per_token().0 / 1e9;
    rows.push((
        "work",
        format!(
            "{gflop:.3} GFLOP a token in linear layers, {:.3} a sampled row",
            shape.lm_head_flops_per_row().0 / 1e9
        ),
    ));
    rows.extend(notes.iter().map(|note| ("note", note.clone())));
    rows.iter()
        .try_for_each(|(what, value)| writeln!(out, "{what:<14} {value}"))?;
    Ok(())
}

fn layers(group: &LayerGroup) -> String {
    let attention = match &group.attention {
        &Attention::Grouped {
            query_heads,
            kv_heads,
            head_dim,
            value_dim,
            window,
            gate,
            shares_kv,
        } => {
            let shared = if shares_kv {
                ", keys and values of a layer before"
            } else {
                ""
            };
            let gate = told_gate(gate);
            let width = match value_dim == head_dim {
                true => head_dim.to_string(),
                false => format!("{head_dim}, values of {value_dim}"),
            };
            let window = window.map_or(String::new(), |window| {
                format!(", window {}", grouped(u64::from(window)))
            });
            format!("{query_heads} query and {kv_heads} KV heads of {width}{window}{gate}{shared}")
        }
        &Attention::Latent {
            query_heads,
            kv_rank,
            rope_dim,
            gate,
            indexer,
            ..
        } => {
            let gate = told_gate(gate);
            let picks = indexer.map_or(String::new(), |indexer| {
                let whose = match indexer.scores {
                    true => format!("by an indexer of {} heads of {}", indexer.heads, indexer.head_dim),
                    false => "by a layer before".to_string(),
                };
                format!(", {} tokens picked {whose}", grouped(u64::from(indexer.top_k)))
            });
            format!("{query_heads} heads on a latent of {kv_rank} + {rope_dim}{gate}{picks}")
        }
        Attention::Recurrent(recurrence) => told(recurrence),
        Attention::Absent => String::new(),
    };
    let mlp = match group.mlp {
        Mlp::Dense { intermediate, gated } => {
            format!(
                "{}MLP of {}",
                if gated { "gated " } else { "" },
                grouped(u64::from(intermediate))
            )
        }
        Mlp::Experts {
            experts,
            experts_per_token,
            intermediate,
            shared_intermediate,
            gated,
            latent,
        } => {
            let kind = if gated { "" } else { "ungated " };
            let latent = latent.map_or(String::new(), |width| {
                format!(" on a latent of {}", grouped(u64::from(width)))
            });
            let shared = if shared_intermediate > 0 {
                format!(" and a shared one of {}", grouped(u64::from(shared_intermediate)))
            } else {
                String::new()
            };
            format!(
                "{experts_per_token} of {experts} {kind}experts of {}{latent}{shared}",
                grouped(u64::from(intermediate))
            )
        }
        Mlp::Absent => String::new(),
    };
    let parts: Vec<String> = [attention, mlp]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    format!("{} × ({})", group.count, parts.join("; "))
}

fn told_gate(gate: OutputGate) -> &'static str {
    match gate {
        OutputGate::None => "",
        OutputGate::OfQueries | OutputGate::Own => ", gated",
        OutputGate::OfHeads => ", gated head by head",
    }
}

fn told(recurrence: &Recurrence) -> String {
    let dtype = recurrence.state_dtype.name();
    match recurrence.rule {
        Rule::GatedDelta {
            key_heads,
            value_heads,
            key_dim,
            value_dim,
        } => format!(
            "gated delta net, {key_heads} key heads of {key_dim} and {value_heads} value heads of {value_dim}, states in {dtype}"
        ),
        Rule::KimiDelta { heads, dim, .. } => {
            format!("Kimi delta attention, {heads} heads of {dim}, states in {dtype}")
        }
        Rule::ShortConv { channels } => format!(
            "convolution over {} tokens of {} channels",
            recurrence.conv_kernel,
            grouped(u64::from(channels))
        ),
        Rule::StateSpace {
            heads,
            head_dim,
            groups,
            state_size,
        } => format!(
            "Mamba2, {heads} heads of {head_dim} × {state_size} in {}, states in {dtype}",
            counted(u64::from(groups), "group")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, format: &str) -> String {
        let args = Args {
            action: Some(Action::Show {
                name: name.to_string(),
            }),
            format: format.to_string(),
        };
        let mut out = Vec::new();
        run(&args, &mut out, None).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_mixture_with_latent_attention_is_shown_in_full() {
        insta::assert_snapshot!(shown("DeepSeek-V3", "text"), @r#"
        model          deepseek-ai/DeepSeek-V3
        architecture   DeepseekV3ForCausalLM
        parameters     671,026,419,200 (37,552,297,472 a token)
        weights        626.77 GiB as fp8 (block)
        hidden size    7,168
        vocabulary     129,280
        context        163,840
        layers         3 × (128 heads on a latent of 512 + 64; gated MLP of 18,432)
        layers         58 × (128 heads on a latent of 512 + 64; 8 of 256 experts of 2,048 and a shared one of 2,048)
        KV cache       70,272 bytes a token in bfloat16
        KV cache       35,136 bytes a token in fp8
        work           71.396 GFLOP a token in linear layers, 1.853 a sampled row
        note           multi-token prediction layers are not counted: engines load them only to speculate
        "#);
    }

    #[test]
    fn json_has_the_sizes() {
        let json: Value = serde_json::from_str(&shown("llama-3.1-8b", "json")).unwrap();
        assert_eq!(json["parameters"], 8_030_261_248_u64);
        assert_eq!(json["layers"][0]["attention"]["num_key_value_heads"], 8);
    }

    #[test]
    fn every_model_is_listed() {
        let text = listed(&[], None).unwrap();
        assert!(model::names().all(|name| text.contains(name)));
        let narrow = listed(&[], Some(80)).unwrap();
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(model::names().all(|name| narrow.contains(name)), "{narrow}");
    }

    #[test]
    fn words_narrow_the_list() {
        let text = listed(&["qwen3-8b", "FP8"], None).unwrap();
        assert!(
            text.contains("Qwen/Qwen3-8B-FP8 ") && !text.contains("Qwen/Qwen3-8B "),
            "{text}"
        );
        let error = listed(&["abacus"], None).unwrap_err();
        assert!(
            error.contains("no shipped model has abacus in its name"),
            "{error}"
        );
    }

    fn listed(words: &[&str], width: Option<usize>) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
        let mut out = Vec::new();
        list(&words, "text", &mut out, width).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }
}
