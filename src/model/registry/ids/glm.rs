//! Zhipu's.

use super::super::{Shipped, Tower, shipped};

const GLM_VL: &str = "Glm4vForConditionalGeneration";
const GLM_VL_MOE: &str = "Glm4vMoeForConditionalGeneration";
/// Of both: 24 layers, which its config calls `depth`.
const GLM_TOWER: Tower = Tower {
    layers: None,
    hidden_size: Some(1536),
};

#[rustfmt::skip]
pub(super) const GLM: &[Shipped] = &[
    shipped("zai-org/GLM-4.5", "glm-4.5"),
    shipped("zai-org/GLM-4.5-FP8", "glm-4.5").fp8_dynamic(),
    shipped("zai-org/GLM-4.5-Air", "glm-4.5-air"),
    shipped("zai-org/GLM-4.5-Air-FP8", "glm-4.5-air").fp8_dynamic(),
    shipped("zai-org/GLM-4.6", "glm-4.5").context(202_752),
    shipped("zai-org/GLM-4.6-FP8", "glm-4.5").context(202_752).fp8_dynamic(),
    shipped("zai-org/GLM-4.7", "glm-4.5").context(202_752),
    shipped("zai-org/GLM-4.7-FP8", "glm-4.5").context(202_752).fp8_dynamic(),
    shipped("zai-org/GLM-4.7-Flash", "glm-4.7-flash"),
    shipped("zai-org/GLM-5", "glm-5"),
    shipped("zai-org/GLM-5-FP8", "glm-5").fp8_blocks(),
    shipped("zai-org/GLM-5.2", "glm-5.2"),
    shipped("zai-org/GLM-5.2-FP8", "glm-5.2").fp8_blocks(),
    shipped("zai-org/GLM-5.1", "glm-5"),
    shipped("zai-org/GLM-5.1-FP8", "glm-5").fp8_blocks(),
    shipped("zai-org/GLM-4.5-Base", "glm-4.5"),
    shipped("zai-org/GLM-4.5-Air-Base", "glm-4.5-air"),
    shipped("zai-org/GLM-4-32B-0414", "glm-4-32b-0414"),
    shipped("zai-org/GLM-Z1-32B-0414", "glm-4-32b-0414"),
    shipped("zai-org/GLM-4-32B-Base-0414", "glm-4-32b-0414"),
    shipped("zai-org/GLM-4-9B-0414", "glm-4-9b-0414"),
    shipped("zai-org/GLM-Z1-9B-0414", "glm-4-9b-0414"),
    shipped("zai-org/glm-4-9b-chat", "glm-4-9b"),
    shipped("zai-org/glm-4-9b", "glm-4-9b").context(8_192),
    shipped("zai-org/chatglm3-6b", "chatglm3-6b"),
    shipped("zai-org/chatglm3-6b-32k", "chatglm3-6b").context(32_768),
    shipped("zai-org/GLM-5.3", "glm-5.2").fp8_blocks(),
    shipped("zai-org/GLM-5.3-BF16", "glm-5.2"),
    shipped("zai-org/GLM-4.5V", "glm-4.5-air").context(65_536).sees(GLM_VL_MOE, GLM_TOWER),
    shipped("zai-org/GLM-4.6V", "glm-4.5-air").sees(GLM_VL_MOE, GLM_TOWER),
    shipped("zai-org/GLM-4.1V-9B-Thinking", "glm-4-9b-0414").context(65_536).sees(GLM_VL, GLM_TOWER),
    shipped("zai-org/GLM-4.1V-9B-Base", "glm-4-9b-0414").context(65_536).sees(GLM_VL, GLM_TOWER),
    shipped("zai-org/GLM-4.6V-Flash", "glm-4-9b-0414").context(131_072).sees(GLM_VL, GLM_TOWER),
    shipped("zai-org/glm-4-9b-chat-hf", "glm-4-9b"),
    shipped("zai-org/glm-4-9b-hf", "glm-4-9b").context(8_192),
    shipped("zai-org/codegeex4-all-9b", "glm-4-9b"),
    shipped("zai-org/chatglm2-6b", "chatglm3-6b").context(32_768),
    shipped("PrimeIntellect/INTELLECT-3.1", "glm-4.5-air"),
];
