//! `--quantization` beside what the checkpoint says itself.
//!
//! In a pasted command it is the engine's flag: it names how the weights are read, changes nothing where the checkpoint says the same,
//! and the server does not start where it says another. On our own command line and in a file it is a choice, and may stand for another
//! checkpoint of the model, which a note says.

use super::document::Source;
use super::judge::Judge;
use crate::model::{Loading, ModelShape, Quantization, parse_quantization};

const KEY: &str = "model.quantization";

/// Ours, for a checkpoint without its quantization; vLLM's `None` asks for nothing.
const UNDONE: &str = "none";

/// The shape that is served under `--quantization word`.
pub(super) fn asked(judge: &mut Judge, shape: ModelShape, word: &str) -> ModelShape {
    judge.given(KEY, word);
    let source = judge.document.source(KEY);
    let is_pasted = matches!(source, Some(Source::Flag(flag)) if flag.starts_with("--serve-cmd"));
    let is_undone = word.eq_ignore_ascii_case(UNDONE);
    if is_pasted && is_undone {
        return shape;
    }
    match shape.loading(word) {
        Loading::AsStored => {
            told_of_bitsandbytes(judge, word);
            shape
        }
        Loading::Contradicts if is_pasted => {
            let stated = shape.quant_method.clone();
            let stated = stated.unwrap_or_else(|| shape.quantization.name());
            judge.wrong_help(
                KEY,
                "does not match the checkpoint",
                format!("it is {stated}, and the server would not start with `{word}`"),
                format!(
                    "leave the flag out of the command, or give --quantization beside it for another checkpoint than {}",
                    shape.name
                ),
            );
            shape
        }
        loading => other(judge, shape, word, loading, is_pasted),
    }
}

/// Weights that are stored otherwise than the checkpoint's, or are quantized when they are loaded.
fn other(judge: &mut Judge, shape: ModelShape, word: &str, loading: Loading, is_pasted: bool) -> ModelShape {
    let format = match parse_quantization(word) {
        Ok(format) => format,
        Err(error) if loading == Loading::Unknown => {
            judge.senseless(KEY, "is not a known method", error.to_string());
            return shape;
        }
        Err(_) => {
            judge.wrong_help(
                KEY,
                "does not say how many bits weights have",
                format!("{} is no checkpoint of `{word}`", shape.name),
                "give the path of that checkpoint's config.json for the model, or a format: fp8, int8, w8a16, awq, gptq, nvfp4",
            );
            return shape;
        }
    };
    told_of_bitsandbytes(judge, word);
    let of_checkpoint = shape.quantization;
    let changed = shape.with_quantization(format);
    if changed.quantization == of_checkpoint {
        return changed;
    }
    if of_checkpoint != Quantization::None {
        judge.notes.push(format!(
            "the checkpoint is {}: --quantization {word} stands for another checkpoint of this model, counted as {} throughout",
            of_checkpoint.name(),
            changed.quantization.name()
        ));
    } else if is_pasted && loading == Loading::NeedsOther {
        judge.notes.push(format!(
            "{} is not quantized, and `{word}` reads only weights that are: another checkpoint of this model is assumed, in {}",
            changed.name,
            changed.quantization.name()
        ));
    }
    changed
}

/// Nobody measured its kernels.
fn told_of_bitsandbytes(judge: &mut Judge, word: &str) {
    if word.eq_ignore_ascii_case("bitsandbytes") {
        let note = "bitsandbytes: its kernels were never timed here, so its products take the time of AWQ's and GPTQ's in 4 bits; they are \
                    usually slower, so these figures are optimistic";
        judge.notes.push(note.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Assembled, NoFiles, capacity};

    /// GiB of weights and the notes, or the first problem.
    fn fit(line: &str) -> Result<(f64, Vec<String>), String> {
        let flags = crate::config::flags::tests::flags_of(&format!("--gpu h100 --max-model-len 4096 {line}"));
        let Assembled { document, .. } =
            crate::config::assemble(&flags, &NoFiles).map_err(|problems| problems.to_string())?;
        let found = capacity(document, &NoFiles).map_err(|problems| problems.to_string())?;
        let plan = found.plan.map_err(|misfit| misfit.to_string())?;
        Ok((plan.weights.gib(), found.notes))
    }

    fn pasted(command: &str) -> Result<(f64, Vec<String>), String> {
        fit(&format!("--serve-cmd 'vllm serve {command}'"))
    }

    #[test]
    fn a_method_says_how_weights_are_read_and_the_checkpoint_how_many_bits_they_have() {
        let eight_bits = "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8";
        let plain = pasted(eight_bits).unwrap();
        assert!(plain.0 > 8.0, "{plain:?}");
        for method in ["gptq", "gptq_marlin"] {
            let found = pasted(&format!("{eight_bits} --quantization {method}")).unwrap();
            assert_eq!(found, plain, "{method}");
            assert_eq!(
                fit(&format!("{eight_bits} --quantization {method}")).unwrap(),
                plain
            );
        }
        let packed = "RedHatAI/Qwen3-8B-quantized.w4a16";
        let named = pasted(&format!("{packed} --quantization compressed-tensors")).unwrap();
        assert_eq!(named, pasted(packed).unwrap());
    }

    #[test]
    fn a_pasted_method_that_the_checkpoint_contradicts_is_refused_and_an_own_one_is_a_choice() {
        for (model, method) in [("Qwen/Qwen3-8B-FP8", "awq"), ("openai/gpt-oss-20b", "fp8")] {
            let told = pasted(&format!("{model} --quantization {method}")).unwrap_err();
            assert!(told.contains("would not start"), "{told}");
            let (_, notes) = fit(&format!("{model} --quantization {method}")).unwrap();
            let is_told = notes
                .iter()
                .any(|note| note.contains("another checkpoint of this model"));
            assert!(is_told, "{notes:?}");
        }
        let told = fit("Qwen/Qwen3-8B --quantization compressed-tensors").unwrap_err();
        assert!(told.contains("config.json"), "{told}");
        let told = fit("Qwen/Qwen3-8B --quantization nonsense").unwrap_err();
        assert!(told.contains("is not a known method"), "{told}");
    }

    #[test]
    fn what_was_never_timed_is_said() {
        let (_, notes) = fit("Qwen/Qwen3-8B --quantization bitsandbytes").unwrap();
        assert!(
            notes
                .iter()
                .any(|note| note.contains("these figures are optimistic")),
            "{notes:?}"
        );
    }
}
