//! Mistral's.

use super::super::{Shipped, Tower, shipped};

const MISTRAL_3: &str = "Mistral3ForConditionalGeneration";
const PIXTRAL: Tower = Tower {
    layers: Some(24),
    hidden_size: Some(1024),
};

#[rustfmt::skip]
pub(super) const MISTRAL: &[Shipped] = &[
    shipped("mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"),
    shipped("mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b-v0.1"),
    shipped("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2"),
    shipped("mistralai/Mistral-7B-v0.3", "mistral-7b-v0.3"),
    shipped("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
    shipped("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"),
    shipped("mistralai/Mistral-Nemo-Base-2407", "mistral-nemo-12b").context(128_000),
    shipped("mistralai/Mistral-Small-24B-Instruct-2501", "mistral-small-24b"),
    shipped("mistralai/Mistral-Small-24B-Base-2501", "mistral-small-24b"),
    shipped("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "mistral-small-24b").context(131_072).sees(MISTRAL_3, PIXTRAL),
    shipped("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "mistral-small-24b").context(131_072).sees(MISTRAL_3, PIXTRAL),
    shipped("mistralai/Devstral-Small-2505", "mistral-small-24b").context(131_072),
    shipped("mistralai/Devstral-Small-2507", "mistral-small-24b").context(131_072),
    shipped("mistralai/Mistral-Large-Instruct-2407", "mistral-large-123b"),
    shipped("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
    shipped("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
    shipped("mistralai/Mixtral-8x22B-Instruct-v0.1", "mixtral-8x22b"),
    shipped("mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"),
    shipped("mistralai/mathstral-7B-v0.1", "mistral-7b-v0.3"),
    shipped("mistralai/Codestral-22B-v0.1", "mistral-22b"),
    shipped("mistralai/Mistral-Small-Instruct-2409", "mistral-22b"),
    shipped("mistralai/Mistral-Large-Instruct-2411", "mistral-large-123b"),
    shipped("mistralai/Pixtral-12B-2409", "mistral-nemo-12b").context(128_000).sees("PixtralForConditionalGeneration", PIXTRAL),
    shipped("mistralai/Magistral-Small-2506", "mistral-small-24b").context(40_960),
    shipped("mistralai/Magistral-Small-2507", "mistral-small-24b").context(40_960),
    shipped("mistralai/Magistral-Small-2509", "mistral-small-24b").context(131_072).sees(MISTRAL_3, PIXTRAL),
    shipped("mistralai/Ministral-8B-Instruct-2410", "ministral-8b"),
    shipped("mistralai/Ministral-3-3B-Instruct-2512", "ministral-3-3b").fp8(),
    shipped("mistralai/Ministral-3-3B-Reasoning-2512", "ministral-3-3b"),
    shipped("mistralai/Ministral-3-3B-Base-2512", "ministral-3-3b"),
    shipped("mistralai/Ministral-3-8B-Instruct-2512", "ministral-3-8b").fp8(),
    shipped("mistralai/Ministral-3-8B-Reasoning-2512", "ministral-3-8b"),
    shipped("mistralai/Ministral-3-8B-Base-2512", "ministral-3-8b"),
    shipped("mistralai/Devstral-Small-2-24B-Instruct-2512", "mistral-small-24b").context(393_216).sees(MISTRAL_3, PIXTRAL).fp8(),
    shipped("mistralai/Devstral-2-123B-Instruct-2512", "devstral-2-123b").fp8(),
    shipped("HuggingFaceH4/zephyr-7b-beta", "mistral-7b-v0.1"),
];
