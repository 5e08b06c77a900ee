//! How many GPUs served a row, and how they shared the work: by its columns, and by its flags where those are silent.

use toml::Value;

use super::{Draft, quoted};

impl Draft<'_> {
    /// Where the tensor parallelism is not said, the GPUs of each data-parallel rank and stage share every layer.
    pub(super) fn ranks(&mut self) -> Result<(), String> {
        let by_rank = self.attends_by_rank();
        let tensor_parallel = self.tensor_parallel(by_rank)?;
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
            if !(by_rank && column == "dp") {
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
        let Some(groups) = setup.expert_parallel.filter(|groups| *groups > 1) else {
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

    /// Whether SGLang's ranks attend by themselves: as the flags say, or because there are as many data-parallel ranks as GPUs
    /// of a tensor-parallel group, and no more GPUs.
    fn attends_by_rank(&mut self) -> bool {
        let setup = &self.row.setup;
        let is_sglang = (setup.engine.as_deref()).is_some_and(|engine| engine.eq_ignore_ascii_case("sglang"));
        let key = "sglang.enable_dp_attention";
        if let Some(said) = self.said.keys.get(key) {
            return said.as_bool() == Some(true);
        }
        let is_by_rank = match (setup.tensor_parallel, setup.data_parallel, setup.n_gpus) {
            (Some(tp), Some(dp), Some(gpus)) => is_sglang && dp > 1 && tp == dp && tp == gpus,
            _ => false,
        };
        if is_by_rank {
            self.said.keys.insert(key.to_owned(), Value::Boolean(true));
            self.assume("tp, dp and n_gpus are equal: each rank attends by itself (--enable-dp-attention)");
        }
        is_by_rank
    }
}
