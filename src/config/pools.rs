//! Pools of unlike replicas: each is judged as a server of its own, over the scenario's own tables.
//!
//! A scenario without `[[cluster.pools]]` is one pool, judged on the scenario itself. What a pool's judge finds is
//! handed to the scenario's: problems once, assumed values into the pool's own table, so that the spelt-out input
//! reproduces the run.

use super::diagnostic::Diagnostic;
use super::document::{Source, pool_key};
use super::files::Files;
use super::hybrid;
use super::judge::Judge;
use super::pipeline;
use super::raw::{RawPool, RawRole, RawScenario, spelled};
use super::scalar::Count;
use super::server::{self, Draft, Server};
use crate::sim::{Pool, Role};

/// A pool before its memory is planned.
pub(super) struct PoolDraft {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) replicas: u32,
    /// Fewest and most prompt tokens of a request that it gets.
    pub(super) prompts: (u32, u32),
    /// Which of the cluster's groups it is in.
    pub(super) group: usize,
    pub(super) draft: Draft,
    /// The pool's own input; `None` where the scenario itself is the pool.
    own: Option<Own>,
}

/// A pool's input as if it were a whole scenario's.
struct Own {
    index: usize,
    judge: Judge,
    raw: RawScenario,
}

/// The drafts of all pools, in the order of the file.
pub(super) fn draft(judge: &mut Judge, raw: &RawScenario, files: &dyn Files) -> Vec<PoolDraft> {
    if raw.cluster.pools.is_empty() {
        return vec![PoolDraft {
            name: String::new(),
            role: Role::Both,
            replicas: 1,
            prompts: (0, u32::MAX),
            group: 0,
            draft: server::draft(judge, raw, Role::Both, files),
            own: None,
        }];
    }
    refuse_totals(judge, raw);
    let mut drafts = Vec::new();
    for (index, pool) in raw.cluster.pools.iter().enumerate() {
        let name = name(judge, raw, index);
        let role = role(judge, index, pool);
        let replicas = replicas(judge, index, pool);
        let (mut own, own_raw) = Judge::new(judge.document.of_pool(index));
        // What has no right shape was found in the scenario, which holds the same tables.
        own.problems.clear();
        let mut draft = server::draft(&mut own, &own_raw, role, files);
        if role != Role::Both {
            draft.flags.hand_kv_over();
            let key = format!("cluster.pools.{index}.role");
            hybrid::check_role(judge, &key, draft.model.as_ref());
            pipeline::check_role(judge, &key, draft.pipeline.as_ref());
        }
        let mut draft = PoolDraft {
            name,
            role,
            replicas,
            prompts: prompts(judge, index, pool),
            group: 0,
            draft,
            own: Some(Own {
                index,
                judge: own,
                raw: own_raw,
            }),
        };
        draft.hand_over(judge);
        drafts.push(draft);
    }
    drafts
}

/// Keys that say of the whole what each pool says of itself.
fn refuse_totals(judge: &mut Judge, raw: &RawScenario) {
    let totals = [
        ("cluster.replicas", raw.cluster.replicas.is_some()),
        (
            "cluster.data_parallel_size",
            raw.cluster.data_parallel_size.is_some(),
        ),
        (
            "trtllm.enable_attention_dp",
            raw.trtllm.enable_attention_dp == Some(true),
        ),
    ];
    let by_role = raw.cluster.pools.iter().any(|pool| pool.role.is_some());
    let help = match by_role {
        true => {
            "the numbers of replicas are those of --prefill and --decode, or of each [[cluster.pools]]: leave it out"
        }
        false => "write `replicas` in each [[cluster.pools]]",
    };
    judge.refuse_given(&totals, "does not go with pools", "each pool has its own", help);
}

fn name(judge: &mut Judge, raw: &RawScenario, index: usize) -> String {
    let pools = &raw.cluster.pools;
    let Some(name) = pools[index].name.clone().filter(|name| !name.is_empty()) else {
        let place = judge.place(&format!("cluster.pools.{index}"));
        let problem = Diagnostic::new("a pool has no name").at(place);
        judge.report(problem.help("write name = \"chat\" in it"));
        return format!("pool {index}");
    };
    let key = format!("cluster.pools.{index}.name");
    judge.given(&key, &name);
    if pools[..index]
        .iter()
        .any(|other| other.name.as_ref() == Some(&name))
    {
        judge.wrong(&key, "is taken", format!("another pool is called {name}, too"));
    }
    name
}

/// What the pool's replicas do.
fn role(judge: &mut Judge, index: usize, pool: &RawPool) -> Role {
    let Some(role) = pool.role else {
        return Role::Both;
    };
    judge.given(&format!("cluster.pools.{index}.role"), spelled(role));
    match role {
        RawRole::Both => Role::Both,
        RawRole::Prefill => Role::Prefill,
        RawRole::Decode => Role::Decode,
    }
}

fn replicas(judge: &mut Judge, index: usize, pool: &RawPool) -> u32 {
    let key = format!("cluster.pools.{index}.replicas");
    let source = Source::Assumption("one of each".to_string());
    judge.count(&key, pool.replicas, (1, super::cluster::REPLICAS_MAX), 1, source)
}

/// The prompts that the pool gets.
fn prompts(judge: &mut Judge, index: usize, pool: &RawPool) -> (u32, u32) {
    let key = |name: &str| format!("cluster.pools.{index}.{name}");
    let mut tokens = |name: &str, given: Option<Count>, default: u32| match given {
        Some(count) => judge.required(&key(name), count, (1, 1 << 28)),
        None => default,
    };
    let least = tokens("min_prompt_tokens", pool.min_prompt_tokens, 0);
    let most = tokens("max_prompt_tokens", pool.max_prompt_tokens, u32::MAX);
    if least > most {
        let label = format!("no prompt has at least {least} tokens and at most {most}");
        judge.wrong(&key("min_prompt_tokens"), "is above max_prompt_tokens", label);
    }
    (least, most)
}

impl PoolDraft {
    /// Judges something about the pool on its own input.
    pub(super) fn judge<R>(
        &mut self,
        judge: &mut Judge,
        raw: &RawScenario,
        question: impl FnOnce(&mut Judge, &RawScenario, &Draft) -> R,
    ) -> R {
        match &mut self.own {
            None => question(judge, raw, &self.draft),
            Some(own) => {
                let answer = question(&mut own.judge, &own.raw, &self.draft);
                self.hand_over(judge);
                answer
            }
        }
    }

    /// Plans memory and builds the step cost; `None` was reported.
    pub(super) fn build(
        mut self,
        judge: &mut Judge,
        raw: &RawScenario,
        at: (u32, u64),
        files: &dyn Files,
    ) -> Option<(Pool, Server)> {
        let server = match &mut self.own {
            None => self.draft.build(judge, raw, at, files),
            Some(own) => {
                let server = self.draft.build(&mut own.judge, &own.raw, at, files);
                own.hand_over(&self.name, judge);
                server
            }
        }?;
        let pool = Pool {
            name: self.name,
            role: self.role,
            replicas: self.replicas,
            engine: server.engine.clone(),
            cost: server.cost.clone(),
            frontend: server.frontend,
            model: server.model.name.clone(),
            device: server.device.id.clone(),
            gpus: server.placement.gpus(),
            price: None,
        };
        Some((pool, server))
    }

    fn hand_over(&mut self, judge: &mut Judge) {
        if let Some(own) = &mut self.own {
            own.hand_over(&self.name, judge);
        }
    }
}

impl Own {
    /// Gives everything that the pool's judge has found to the scenario's.
    fn hand_over(&mut self, name: &str, judge: &mut Judge) {
        let index = self.index;
        let root = format!("cluster.pools.{index}");
        judge.hear(&mut self.judge, &root, &format!("pool {name}"), |key| {
            pool_key(index, key)
        });
    }
}

#[cfg(test)]
mod tests;
