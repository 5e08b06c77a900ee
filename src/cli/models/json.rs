//! A shape as an object, with its layers by groups.

use serde_json::{Value, json};

use crate::model::{Attention, LayerGroup, Mlp, ModelShape, OutputGate, Recurrence, Rule};

pub(super) fn model_json(shape: &ModelShape, notes: &[String]) -> Value {
    let groups: Vec<Value> = shape.layers.iter().map(group_json).collect();
    json!({
        "name": shape.name,
        "architecture": shape.architecture,
        "parameters": shape.parameters(),
        "active_parameters": shape.active_parameters(),
        "weight_bytes": shape.weight_bytes(1).0,
        "kv_bytes_per_token": shape.kv_bytes_per_token(shape.dtype, 1).0,
        "hidden_size": shape.hidden_size,
        "vocab_size": shape.vocab_size,
        "num_hidden_layers": shape.layer_count(),
        "tie_word_embeddings": shape.tied_embeddings,
        "max_position_embeddings": shape.max_position,
        "dtype": shape.dtype.name(),
        "quantization": shape.quantization.name(),
        "layers": groups,
        "notes": notes,
    })
}

fn group_json(group: &LayerGroup) -> Value {
    let attention = match &group.attention {
        Attention::Grouped {
            query_heads,
            kv_heads,
            head_dim,
            value_dim,
            window,
            gate,
            shares_kv,
        } => {
            let mut written = json!({"num_attention_heads": query_heads, "num_key_value_heads": kv_heads,
                "head_dim": head_dim, "sliding_window": window});
            if value_dim != head_dim {
                written["v_head_dim"] = json!(value_dim);
            }
            write_gate(&mut written, *gate);
            if *shares_kv {
                written["shares_kv"] = json!(true);
            }
            written
        }
        Attention::Recurrent(recurrence) => recurrence_json(recurrence),
        Attention::Absent => Value::Null,
        Attention::Latent {
            query_heads,
            query_rank,
            kv_rank,
            rope_dim,
            nope_dim,
            value_dim,
            gate,
            indexer,
        } => {
            let mut written = json!({"num_attention_heads": query_heads, "q_lora_rank": query_rank, "kv_lora_rank": kv_rank,
                "qk_rope_head_dim": rope_dim, "qk_nope_head_dim": nope_dim, "v_head_dim": value_dim});
            write_gate(&mut written, *gate);
            if let Some(indexer) = indexer {
                written["index_n_heads"] = json!(indexer.heads);
                written["index_head_dim"] = json!(indexer.head_dim);
                written["index_topk"] = json!(indexer.top_k);
                written["has_own_indexer"] = json!(indexer.scores);
            }
            written
        }
    };
    let mlp = match group.mlp {
        Mlp::Dense { intermediate, gated } => json!({"intermediate_size": intermediate, "gated": gated}),
        Mlp::Experts {
            experts,
            experts_per_token,
            intermediate,
            shared_intermediate,
            gated,
            latent,
        } => {
            let mut written = json!({"num_experts": experts, "num_experts_per_tok": experts_per_token,
                "moe_intermediate_size": intermediate, "shared_expert_intermediate_size": shared_intermediate});
            if !gated {
                written["gated"] = json!(false);
            }
            if let Some(width) = latent {
                written["moe_latent_size"] = json!(width);
            }
            written
        }
        Mlp::Absent => Value::Null,
    };
    json!({"count": group.count, "attention": attention, "mlp": mlp})
}

fn write_gate(written: &mut Value, gate: OutputGate) {
    match gate {
        OutputGate::None => {}
        OutputGate::OfQueries | OutputGate::Own => written["attn_output_gate"] = json!(true),
        OutputGate::OfHeads => written["head_wise_attn_gate"] = json!(true),
    }
}

fn recurrence_json(recurrence: &Recurrence) -> Value {
    let mut written = match recurrence.rule {
        Rule::GatedDelta {
            key_heads,
            value_heads,
            key_dim,
            value_dim,
        } => json!({"linear_num_key_heads": key_heads, "linear_num_value_heads": value_heads,
            "linear_key_head_dim": key_dim, "linear_value_head_dim": value_dim}),
        Rule::KimiDelta { heads, dim, .. } => json!({"linear_num_heads": heads, "linear_head_dim": dim}),
        Rule::ShortConv { channels } => json!({"conv_channels": channels}),
        Rule::StateSpace {
            heads,
            head_dim,
            groups,
            state_size,
        } => json!({"mamba_num_heads": heads, "mamba_head_dim": head_dim, "n_groups": groups,
            "ssm_state_size": state_size}),
    };
    written["conv_kernel"] = json!(recurrence.conv_kernel);
    written["chunk_size"] = json!(recurrence.chunk);
    written["state_dtype"] = json!(recurrence.state_dtype.name());
    written
}
