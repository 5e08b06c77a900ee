//! How many GPUs served a row, and how they shared the work: by its columns, and by its flags where those are silent.

use toml::Value;

use super::{Draft, quoted};
use crate::config::version::EngineKind;

impl Draft<'_> {
    /// Where the tensor parallelism is not said, the GPUs of each data-parallel rank and stage share every layer.
    pub(super) fn ranks(&mut self) -> Result<(), String> {
        let by_rank = self.attends_by_rank();
        let tensor_parallel = match by_rank {
            Some(ByRank {
                group: Some(gpus), ..
            }) => Some(gpus),
            _ => self.tensor_parallel(by_rank.is_some())?,
        };
        let setup = &self.row.setup;
        let replicas = match setup.router {
            Some(_) => "replicas",
            None => "data_parallel_size",
        };
        let all = [
            ("tp", "tensor_parallel_size", tensor_parallel),
            ("pp", "pipeline_parallel_size", setup.pipeline_parallel),
            ("dp", replicas, setup.data_parallel),
        ];
        // Wide enough for any three counts.
        let mut gpus = 1_i128;
        for (column, key, ranks) in all {
            if ranks == Some(0) {
                return Err(format!("its {column} is 0"));
            }
            let said = self.said_ranks(key);
            // Ranks that attend by themselves are GPUs of the tensor-parallel group.
            if let Some(by_rank) = by_rank.filter(|_| column == "dp") {
                if !by_rank.counts_ranks {
                    continue;
                }
            } else {
                gpus *= i128::from(ranks.map(i64::from).or(said).unwrap_or(1));
            }
            if let Some(ranks) = ranks.filter(|ranks| *ranks > 1 || said.is_some()) {
                self.entry_of_column(column, ("cluster", key), &Value::from(i64::from(ranks)))?;
            }
        }
        self.experts();
        let setup = &self.row.setup;
        match setup.n_gpus.map(i128::from) {
            Some(there) if gpus > there => {
                return Err(format!(
                    "the row contradicts itself: tp, pp and dp need {gpus} GPUs, and n_gpus is {there}"
                ));
            }
            Some(there) if gpus < there => {
                self.assume(format!(
                    "tp, pp and dp need {gpus} GPUs of the row's {there}: the others are idle"
                ));
            }
            _ => {}
        }
        if let Some(router) = &setup.router {
            self.entry("router", &quoted(router));
        }
        Ok(())
    }

    /// What a flag says of a kind of ranks.
    fn said_ranks(&self, key: &str) -> Option<i64> {
        let said = self.said.keys.get(&format!("cluster.{key}"));
        said.and_then(Value::as_integer)
    }

    /// The column's, or what the number of GPUs leaves of it, unless the flags say it.
    fn tensor_parallel(&mut self, by_rank: bool) -> Result<Option<u32>, String> {
        let setup = &self.row.setup;
        let gpus = match (setup.tensor_parallel, setup.n_gpus) {
            (None, Some(gpus)) if self.said_ranks("tensor_parallel_size").is_none() => gpus,
            (given, _) => return Ok(given),
        };
        let of = |column: Option<u32>, key: &str| {
            let said = column.map(i64::from).or(self.said_ranks(key));
            said.unwrap_or(1).max(1)
        };
        let stages = of(setup.pipeline_parallel, "pipeline_parallel_size");
        let ranks = match by_rank {
            true => 1,
            false => of(setup.data_parallel, "data_parallel_size"),
        };
        let groups = stages.saturating_mul(ranks);
        if groups == 1 {
            return Ok(Some(gpus));
        }
        if i64::from(gpus) % groups != 0 {
            return Err(format!(
                "the row contradicts itself: {gpus} GPUs are not shared out evenly among pp and dp, {groups} groups"
            ));
        }
        let each = i64::from(gpus) / groups;
        self.assume(format!(
            "tp is not said: {each} of {gpus} GPUs for each of {groups} groups (pp and dp)"
        ));
        Ok(u32::try_from(each).ok())
    }

    /// Whole experts on each GPU instead of a part of every one.
    fn experts(&mut self) {
        let setup = &self.row.setup;
        let Some(groups) = self.expert_groups().filter(|groups| *groups > 1) else {
            return;
        };
        let is_vllm =
            (setup.engine.as_deref()).is_none_or(|engine| engine.to_lowercase().starts_with("vllm"));
        let said = ["enable_expert_parallel", "expert_parallel_size"].map(|key| format!("cluster.{key}"));
        if said.iter().any(|key| self.said.keys.contains_key(key)) {
            return;
        }
        match is_vllm {
            true => self.entry("enable_expert_parallel", "true"),
            false => self.entry("expert_parallel_size", &groups.to_string()),
        }
    }

    /// Ranks of SGLang or TensorRT-LLM that attend by themselves: as the flags say; because there are as many data-parallel ranks as GPUs of a
    /// tensor-parallel group, and no more GPUs; or because experts are shared out among more GPUs than attention is, and these are all.
    fn attends_by_rank(&mut self) -> Option<ByRank> {
        let setup = &self.row.setup;
        let kind = EngineKind::of(setup.engine.as_deref());
        let (key, flag) = match kind {
            EngineKind::Sglang => ("sglang.enable_dp_attention", "--enable-dp-attention"),
            EngineKind::Trtllm => ("trtllm.enable_attention_dp", "enable_attention_dp"),
            _ => return None,
        };
        // Of TensorRT-LLM's there are as many as GPUs: no other flag counts them.
        let counts_ranks = kind == EngineKind::Sglang;
        let said = self.said.keys.get(key).map(|said| said.as_bool() == Some(true));
        if said == Some(false) {
            return None;
        }
        let is_said = said.is_some();
        let (Some(tp), Some(dp), Some(gpus)) = (setup.tensor_parallel, setup.data_parallel, setup.n_gpus)
        else {
            let group = None;
            return is_said.then_some(ByRank { group, counts_ranks });
        };
        let product = u64::from(tp) * u64::from(dp);
        let each_is_alone = tp == 1 || counts_ranks;
        let are_all = dp > 1 && each_is_alone && product == u64::from(gpus);
        let over = self.experts_lie_on();
        let (group, why) = if dp > 1 && tp == dp && tp == gpus {
            (Some(tp), "tp, dp and n_gpus are equal".to_owned())
        } else if are_all && (is_said || over > tp) {
            let why = format!("experts lie on {over} GPUs and attention on {tp}, {dp} times over");
            (Some(gpus), why)
        } else if is_said {
            (None, String::new())
        } else {
            return None;
        };
        if !is_said {
            self.said.keys.insert(key.to_owned(), Value::Boolean(true));
            self.assume(format!("{why}: each rank attends by itself ({flag})"));
        }
        Some(ByRank { group, counts_ranks })
    }

    /// GPUs that share one set of routed experts, as far as the row says: by whole experts (the column), and by parts of each (`moe_tp=2 moe_ep=4` of NVIDIA's
    /// tables).
    fn experts_lie_on(&self) -> u32 {
        let parts = self.noted("moe_tp=").unwrap_or(1);
        parts.saturating_mul(self.expert_groups().unwrap_or(1))
    }

    /// Groups of GPUs with whole experts.
    fn expert_groups(&self) -> Option<u32> {
        self.row.setup.expert_parallel.or_else(|| self.noted("moe_ep="))
    }

    /// A number behind a name in the row's notes.
    fn noted(&self, name: &str) -> Option<u32> {
        let mut words = self.row.setup.notes.split([' ', ';', ',']);
        words.find_map(|word| word.strip_prefix(name))?.parse().ok()
    }
}

/// Ranks that attend by themselves.
#[derive(Clone, Copy)]
struct ByRank {
    /// GPUs of the tensor-parallel group that they are in, where the row says so.
    group: Option<u32>,
    /// Whether the engine has a flag for their number.
    counts_ranks: bool,
}

#[cfg(test)]
mod tests {
    use crate::calibrate::plan::tests::{plan, row};
    use crate::results::Load;

    #[test]
    fn gpus_that_no_column_shares_out_are_shared_out_among_the_ranks() {
        let with = |flags: &str, dp: Option<u32>, gpus: u32| {
            let mut row = row(Load::Burst);
            (row.setup.n_gpus, row.setup.data_parallel) = (Some(gpus), dp);
            row.setup.flags = flags.into();
            plan(&row, &|_| None)
        };
        for (flags, dp, gpus, tp) in [
            ("", None, 4, 4),
            ("", Some(2), 4, 2),
            ("-dp 2", None, 8, 4),
            ("-pp 2", None, 8, 4),
        ] {
            let scenario = with(flags, dp, gpus).unwrap().scenario;
            let line = format!("tensor_parallel_size = {tp}\n");
            assert!(scenario.contains(&line), "{flags} {dp:?} {gpus}: {scenario}");
        }
        let uneven = with("", Some(3), 4).unwrap_err();
        assert!(uneven.contains("not shared out evenly"), "{uneven}");
        let idle = with("-tp 4", None, 8).unwrap().assumptions.join("; ");
        assert!(idle.contains("the others are idle"), "{idle}");
    }

    #[test]
    fn experts_that_lie_on_more_gpus_than_attention_tell_that_ranks_attend_by_themselves() {
        let of = |engine: &str, (tp, dp): (u32, u32), notes: &str| {
            let mut row = row(Load::Burst);
            row.setup.model = Some("deepseek-ai/DeepSeek-R1".into());
            row.setup.gpu = Some("H200".into());
            row.setup.engine = Some(engine.into());
            (row.setup.tensor_parallel, row.setup.data_parallel) = (Some(tp), Some(dp));
            (row.setup.n_gpus, row.setup.notes) = (Some(8), notes.into());
            plan(&row, &|_| None).map(|plan| plan.scenario)
        };
        let has = |scenario: &str, lines: &[&str]| {
            for line in lines {
                assert!(scenario.contains(&format!("{line}\n")), "{line}: {scenario}");
            }
        };
        let sglang = of("sglang", (2, 4), "moe_tp=1 moe_ep=8; stat not stated").unwrap();
        let group = [
            "tensor_parallel_size = 8",
            "data_parallel_size = 4",
            "expert_parallel_size = 8",
        ];
        has(&sglang, &group);
        has(&sglang, &["enable_dp_attention = true"]);
        let parts = of("sglang", (1, 8), "moe_tp=8 moe_ep=1").unwrap();
        has(
            &parts,
            &[
                "tensor_parallel_size = 8",
                "data_parallel_size = 8",
                "enable_dp_attention = true",
            ],
        );
        assert!(!parts.contains("expert_parallel_size"), "{parts}");
        for each_alone in [(1, 8), (8, 8)] {
            let trtllm = of("tensorrt-llm", each_alone, "moe_tp=1 moe_ep=8").unwrap();
            has(
                &trtllm,
                &[
                    "tensor_parallel_size = 8",
                    "expert_parallel_size = 8",
                    "enable_attention_dp = true",
                ],
            );
            assert!(!trtllm.contains("data_parallel_size"), "{trtllm}");
        }
        // Where the flags say it, the columns still say of how many GPUs.
        // Engines side by side, each with experts of its own; and vLLM's, whose engines share them anyway.
        let beside = of("sglang", (4, 2), "moe_tp=4 moe_ep=1").unwrap();
        assert!(!beside.contains("attention"), "{beside}");
        let vllm = of("vllm", (1, 8), "moe_tp=1 moe_ep=8").unwrap();
        has(
            &vllm,
            &["data_parallel_size = 8", "enable_expert_parallel = true"],
        );
    }
}
