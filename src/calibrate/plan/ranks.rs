//! How many GPUs served a row, and how they shared the work: by its columns, and by its flags where those are silent.

use toml::Value;

use super::{Draft, quoted};

impl Draft<'_> {
    /// Where only the number of GPUs is known, they share every layer.
    pub(super) fn ranks(&mut self) -> Result<(), String> {
        let setup = &self.row.setup;
        let replicas = match setup.router {
            Some(_) => "replicas",
            None => "data_parallel_size",
        };
        let flags_say = [
            "tensor_parallel_size",
            "data_parallel_size",
            "pipeline_parallel_size",
        ]
        .iter()
        .any(|key| self.said.keys.contains_key(&format!("cluster.{key}")));
        let is_shared_by_all = !flags_say && setup.data_parallel.is_none_or(|ranks| ranks <= 1);
        let tensor_parallel = setup
            .tensor_parallel
            .or(setup.n_gpus.filter(|_| is_shared_by_all));
        let all = [
            ("tp", "tensor_parallel_size", tensor_parallel),
            ("pp", "pipeline_parallel_size", setup.pipeline_parallel),
            ("dp", replicas, setup.data_parallel),
        ];
        let by_rank = self.attends_by_rank();
        let mut gpus = 1;
        for (column, key, ranks) in all {
            if ranks == Some(0) {
                return Err(format!("its {column} is 0"));
            }
            let said = self
                .said
                .keys
                .get(&format!("cluster.{key}"))
                .and_then(Value::as_integer);
            // Ranks that attend by themselves are GPUs of the tensor-parallel group.
            if !(by_rank && column == "dp") {
                gpus *= ranks.map(i64::from).or(said).unwrap_or(1);
            }
            if let Some(ranks) = ranks.filter(|ranks| *ranks > 1 || said.is_some()) {
                self.entry_of_column(column, ("cluster", key), &Value::from(i64::from(ranks)))?;
            }
        }
        self.experts();
        let setup = &self.row.setup;
        if let Some(there) = setup.n_gpus.map(i64::from).filter(|there| gpus > *there) {
            return Err(format!(
                "the row contradicts itself: tp, pp and dp need {gpus} GPUs, and n_gpus is {there}"
            ));
        }
        if let Some(router) = &setup.router {
            self.entry("router", &quoted(router));
        }
        Ok(())
    }

    /// Whole experts on each GPU instead of a part of every one.
    fn experts(&mut self) {
        let are_whole = self.row.setup.expert_parallel.is_some_and(|ranks| ranks > 1);
        if are_whole && !self.said.keys.contains_key("cluster.enable_expert_parallel") {
            self.entry("enable_expert_parallel", "true");
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
