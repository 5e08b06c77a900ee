//! Bundled shapes against the published totals, and names by which they are found.

mod published;

use self::published::{CATALOGUED, COUNTED, PUBLISHED};
use super::*;

#[test]
fn parameters_agree_with_the_published_totals() {
    let mut exact = 0;
    for &(stem, published) in PUBLISHED.iter().chain(COUNTED).chain(CATALOGUED) {
        let shipped = all().find(|shipped| shipped.file == stem).unwrap();
        let parameters = read(shipped).0.parameters();
        let error = parameters as f64 / published as f64 - 1.0;
        assert!(
            error.abs() < 0.005,
            "{stem}: {parameters} against {published}, {error:+.4}"
        );
        exact += usize::from(parameters == published);
    }
    assert_eq!(PUBLISHED.len() + COUNTED.len() + CATALOGUED.len(), FILES.len());
    assert!(exact >= FILES.len() - 1, "only {exact} are exact");
}

#[test]
fn every_file_is_used_and_every_id_has_one() {
    for (stem, _) in FILES {
        assert!(all().any(|shipped| shipped.file == *stem), "{stem} has no id");
    }
    for shipped in all() {
        assert_eq!(read(shipped).0.name, shipped.id);
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/model/shapes");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len());
}

#[test]
fn ids_resolve_in_any_case_and_by_their_last_part() {
    let check = |name: &str, id: &str| assert_eq!(find(name).unwrap().0.name, id);
    check(
        "meta-llama/llama-3.3-70b-instruct",
        "meta-llama/Llama-3.3-70B-Instruct",
    );
    check("Llama-3.1-8B", "meta-llama/Llama-3.1-8B");
    check("qwen3-8b", "Qwen/Qwen3-8B");
    check("gpt-oss-20b", "openai/gpt-oss-20b");
    check("THUDM/chatglm3-6b", "zai-org/chatglm3-6b");
    check("CohereForAI/c4ai-command-r-v01", "CohereLabs/c4ai-command-r-v01");
}

#[test]
fn no_id_is_there_twice() {
    let mut ids: Vec<String> = names().map(str::to_lowercase).collect();
    ids.sort_unstable();
    for pair in ids.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}

#[test]
fn variants_differ_in_context_and_storage() {
    assert_eq!(find("Qwen/Qwen2.5-7B").unwrap().0.max_position, 131_072);
    assert_eq!(find("Qwen/Qwen2.5-7B-Instruct").unwrap().0.max_position, 32_768);
    assert_eq!(
        find("Qwen/Qwen3-8B-FP8").unwrap().0.quantization,
        Quantization::Fp8Block
    );
    assert_eq!(
        find("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8")
            .unwrap()
            .0
            .quantization,
        Quantization::Fp8
    );
}

#[test]
fn what_a_checkpoint_keeps_in_16_bits_is_counted_so() {
    let (large, notes) = find("mistralai/Mistral-Large-3-675B-Instruct-2512").unwrap();
    assert_eq!(large.quantization, Quantization::Fp8Block);
    // Compressed queries, keys and values of each layer; 673.4 thousand million parameters in 8 bits, embedding and LM head in 16.
    assert!(large.layers.iter().all(|group| !group.kept.is_empty()));
    let gb = large.weight_bytes(1).0 as f64 / 1e9;
    assert!((673.4 + 1.88..678.0).contains(&gb), "{gb}");
    assert_eq!(notes, [UNCOUNTED_VISION]);
}

#[test]
fn an_unknown_id_gets_the_nearest_ones() {
    let error = find("meta-lama/Llama-3.1-8B-Instuct").unwrap_err();
    insta::assert_snapshot!(error, @r#"
    unknown model "meta-lama/Llama-3.1-8B-Instuct"
      did you mean meta-llama/Llama-3.1-8B-Instruct or meta-llama/Llama-3.1-70B-Instruct or meta-llama/Llama-3.2-1B-Instruct?
      `plimsoll models` lists the shipped ones; or give the path of a `config.json` or of its folder
    "#);
    assert!(find("abacus").unwrap_err().suggestions.is_empty());
}
