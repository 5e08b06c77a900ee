//! Bundled shapes against the published totals, and names by which they are found.

use super::*;

/// Parameter totals as the checkpoints have them: the `total_parameters` that the Hub shows for the safetensors
/// files, or their index's `total_size` over two bytes. For Gemma 3 the language model alone (the SigLIP tower has
/// 416,866,032 and its projector 1,152·(d + 1)); for tied Qwen3 the copy of the LM head in the files is not counted;
/// DeepSeek-V3 is without its prediction layer, and Kimi K2 with its fp8 scales, one in 16,384. DeepSeek-V3.2, Gemma 4, GLM-4.7, GLM-5, Kimi K2.5, Llama 4,
/// MiMo, MiniMax, Nemotron, Qwen3-Coder, Qwen3-Next, Qwen3-VL and Qwen3.5 are what `transformers` 5.20 makes of the language
/// model of their `config.json`, Qwen3-Next of its class's defaults, which are its own;
/// DeepSeek-V3.2, Kimi K2.5 and Nemotron with the correction of their routers, which is no parameter there,
/// GLM-4.5 and its Air are the sums of their matrices without that correction, with which a prediction layer and its tables make the Hub's 358.3 and 110.5
/// thousand million, and the larger two of Gemma 4 with the values that engines store beside keys that are both.
#[rustfmt::skip]
const PUBLISHED: [(&str, u64); 101] = [
    ("codellama-13b", 13_016_028_160),
    ("codellama-34b", 33_743_970_304),
    ("codellama-70b", 68_976_910_336),
    ("codellama-7b", 6_738_546_688),
    ("deepseek-v2-lite", 15_706_484_224),
    ("deepseek-v3", 671_026_419_200),
    ("deepseek-v3.2", 671_877_929_216 + 58 * 256),
    ("gemma-2-27b", 27_227_128_320),
    ("gemma-2-2b", 2_614_341_888),
    ("gemma-2-9b", 9_241_705_984),
    ("gemma-3-12b", 12_187_325_040 - 416_866_032 - 1_152 * 3_841),
    ("gemma-3-1b", 999_885_952),
    ("gemma-3-27b", 27_432_406_640 - 416_866_032 - 1_152 * 5_377),
    ("gemma-3-4b", 4_300_079_472 - 416_866_032 - 1_152 * 2_561),
    ("gemma-4-26b-a4b", 25_233_141_760 + 5 * 2_816 * 1_024),
    ("gemma-4-31b", 30_697_345_280 + 10 * 5_376 * 2_048),
    ("gemma-4-e2b", 4_628_569_344),
    ("gemma-4-e4b", 7_463_013_376),
    ("glm-4.5", 352_797_829_024 - 89 * 160),
    ("glm-4.5-air", 106_852_251_264 - 45 * 128),
    ("glm-4.7-flash", 29_943_390_976),
    ("glm-5", 743_911_199_232),
    ("glm-5.2", 743_377_000_704),
    ("granite-4.0-h-small", 32_207_337_984),
    ("gpt-oss-120b", 116_829_156_672),
    ("gpt-oss-20b", 20_914_757_184),
    ("kimi-k2", 1_026_470_731_056),
    ("kimi-k2-thinking", 1_026_408_209_408 + 60 * 384),
    ("kimi-k2.5", 1_026_408_209_408 + 60 * 384),
    ("kimi-linear-48b-a3b", 49_122_675_072 + 26 * 256),
    ("lfm2-1.2b", 1_170_340_608),
    ("lfm2-8b-a1b", 8_339_929_856 + 22 * 32),
    ("llama-2-13b", 13_015_864_320),
    ("llama-2-70b", 68_976_648_192),
    ("llama-2-7b", 6_738_415_616),
    ("llama-3-70b", 70_553_706_496),
    ("llama-3-8b", 8_030_261_248),
    ("llama-3.1-405b", 405_853_388_800),
    ("llama-3.1-70b", 70_553_706_496),
    ("llama-3.1-8b", 8_030_261_248),
    ("llama-3.2-1b", 1_235_814_400),
    ("llama-3.2-3b", 3_212_749_824),
    ("llama-4-maverick", 400_711_848_960),
    ("llama-4-scout", 107_769_861_120),
    ("mimo-7b", 7_622_619_136),
    ("mimo-v2-flash", 308_778_768_832 + 47 * 256),
    ("minimax-m2.5", 228_689_748_992),
    ("minimax-m2.7", 228_689_748_992),
    ("mistral-7b-v0.1", 7_241_732_096),
    ("mistral-7b-v0.2", 7_241_732_096),
    ("mistral-7b-v0.3", 7_248_023_552),
    ("mistral-large-123b", 122_610_069_504),
    ("mistral-nemo-12b", 12_247_782_400),
    ("mistral-small-24b", 23_572_403_200),
    ("mixtral-8x22b", 140_620_634_112),
    ("mixtral-8x7b", 46_702_792_704),
    ("nemotron-3-nano-30b-a3b", 31_577_937_344 + 23 * 128),
    ("nemotron-3-super-120b-a12b", 120_668_687_360 + 40 * 512),
    ("nemotron-h-56b", 56_324_350_464),
    ("nemotron-super-49b", 49_867_145_216),
    ("olmo-hybrid-7b", 7_430_870_688),
    ("opt-125m", 125_239_296),
    ("phi-3-medium-128k", 13_960_238_080),
    ("phi-3-medium-4k", 13_960_238_080),
    ("phi-3-mini-128k", 3_821_079_552),
    ("phi-3-mini-4k", 3_821_079_552),
    ("phi-4", 14_659_507_200),
    ("phi-4-mini", 3_836_021_760),
    ("qwen2.5-0.5b", 494_032_768),
    ("qwen2.5-1.5b", 1_543_714_304),
    ("qwen2.5-14b", 14_770_033_664),
    ("qwen2.5-32b", 32_763_876_352),
    ("qwen2.5-3b", 3_085_938_688),
    ("qwen2.5-72b", 72_706_203_648),
    ("qwen2.5-7b", 7_615_616_512),
    ("qwen3-0.6b", 596_049_920),
    ("qwen3-1.7b", 1_720_574_976),
    ("qwen3-14b", 14_768_307_200),
    ("qwen3-235b-a22b", 235_093_634_560),
    ("qwen3-30b-a3b", 30_532_122_624),
    ("qwen3-32b", 32_762_123_264),
    ("qwen3-4b", 4_022_468_096),
    ("qwen3-8b", 8_190_735_360),
    ("qwen3-coder-480b-a35b", 480_154_875_392),
    ("qwen3-next-80b-a3b", 79_674_391_296),
    ("qwen3-vl-235b-a22b", 235_093_634_560),
    ("qwen3-vl-2b", 1_720_574_976),
    ("qwen3-vl-30b-a3b", 30_532_122_624),
    ("qwen3-vl-32b", 32_762_123_264),
    ("qwen3-vl-4b", 4_022_468_096),
    ("qwen3-vl-8b", 8_190_735_360),
    ("qwen3.5-122b-a10b", 122_111_526_912),
    ("qwen3.5-27b", 26_895_998_464),
    ("qwen3.5-35b-a3b", 34_660_610_688),
    ("qwen3.5-397b-a17b", 396_346_350_336),
    ("step-3.5-flash", 196_428_160_256 + 128_896 * 4_096 + 42 * 288),
    ("tinyllama-1.1b", 1_100_048_384),
    ("trinity-mini", 26_123_974_400),
    ("trinity-nano", 6_120_003_328),
    ("yi-34b", 34_388_917_248),
    ("yi-6b", 6_061_035_520),
];

#[test]
fn parameters_agree_with_the_published_totals() {
    let mut exact = 0;
    for (stem, published) in PUBLISHED {
        let shipped = SHIPPED.iter().find(|shipped| shipped.file == stem).unwrap();
        let parameters = read(shipped).0.parameters();
        let error = parameters as f64 / published as f64 - 1.0;
        assert!(
            error.abs() < 0.005,
            "{stem}: {parameters} against {published}, {error:+.4}"
        );
        exact += usize::from(parameters == published);
    }
    assert!(exact >= PUBLISHED.len() - 1, "only {exact} are exact");
}

#[test]
fn every_file_is_used_and_every_id_has_one() {
    for (stem, _) in FILES {
        assert!(
            SHIPPED.iter().any(|shipped| shipped.file == stem),
            "{stem} has no id"
        );
    }
    for shipped in &SHIPPED {
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
fn an_unknown_id_gets_the_nearest_ones() {
    let error = find("meta-lama/Llama-3.1-8B-Instuct").unwrap_err();
    insta::assert_snapshot!(error, @r#"
    unknown model "meta-lama/Llama-3.1-8B-Instuct"
      did you mean meta-llama/Llama-3.1-8B-Instruct or meta-llama/Llama-3.1-70B-Instruct or meta-llama/Llama-3.2-1B-Instruct?
      `plimsoll models` lists the shipped ones; or give the path of a `config.json` or of its folder
    "#);
    assert!(find("abacus").unwrap_err().suggestions.is_empty());
}
