//! Which pools a request may go to: those that serve its class's model, by the length of its prompt.
//!
//! Law: every request that the traffic can send belongs to exactly one group of pools. What could belong to none, or
//! to two, is refused here, before a run.

use super::diagnostic::Diagnostic;
use super::judge::Judge;
use super::pools::PoolDraft;
use crate::cluster::ClusterSpec;
use crate::workload::WorkloadSpec;

/// Gives each group of pools the classes that it serves.
pub(super) fn resolve(
    judge: &mut Judge,
    pools: &[PoolDraft],
    spec: &WorkloadSpec,
    cluster: &mut ClusterSpec,
) {
    let models = models(pools);
    if !spec.classes.is_empty() {
        for index in 0..spec.classes.len() {
            class(judge, &models, index, spec, cluster, pools);
        }
        check_idle(judge, pools, cluster);
    } else if models.len() > 1 {
        let place = judge.place("cluster.pools");
        let told = Diagnostic::new("pools serve several models, and nothing says which a request asks for")
            .at(place)
            .help("give [[workload.classes]], each with its share and its model");
        judge.report(told);
    }
    for model in &models {
        check_prompts(judge, pools, model);
    }
}

/// The models that are served, each once.
fn models(pools: &[PoolDraft]) -> Vec<String> {
    let mut models: Vec<String> = Vec::new();
    for pool in pools {
        let name = served(pool);
        if !models.contains(&name) {
            models.push(name);
        }
    }
    models
}

fn served(pool: &PoolDraft) -> String {
    let model = pool.draft.model.as_ref();
    model.map_or_else(String::new, |model| model.name.clone())
}

/// Whether `asked` names the model: whole, or without the organisation.
fn is_named(asked: &str, model: &str) -> bool {
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_lowercase();
    asked == model || last(asked) == last(model)
}

fn class(
    judge: &mut Judge,
    models: &[String],
    index: usize,
    spec: &WorkloadSpec,
    cluster: &mut ClusterSpec,
    pools: &[PoolDraft],
) {
    let class = &spec.classes[index];
    let model = match (&class.model, models) {
        (Some(asked), _) => {
            let Some(model) = models.iter().find(|model| is_named(asked, model)) else {
                let key = format!("workload.classes.{index}.model");
                let help = format!("served are {}", models.join(", "));
                judge.wrong_help(&key, "is served by no pool", asked.clone(), help);
                return;
            };
            model
        }
        (None, [only]) => only,
        (None, _) => {
            let place = judge.place(&format!("workload.classes.{index}"));
            let told = format!("class {} does not say which model it asks for", class.name);
            let told = Diagnostic::new(told).at(place);
            judge.report(told.help(format!("give it a model: served are {}", models.join(", "))));
            return;
        }
    };
    for pool in pools.iter().filter(|pool| served(pool) == *model) {
        let classes = &mut cluster.groups[pool.group].serves.classes;
        let classes = classes.get_or_insert_with(Vec::new);
        if !classes.contains(&(index as u32)) {
            classes.push(index as u32);
        }
    }
}

/// A pool that no class asks for stands idle: it takes nobody, rather than anybody.
fn check_idle(judge: &mut Judge, pools: &[PoolDraft], cluster: &mut ClusterSpec) {
    for pool in pools {
        let classes = &mut cluster.groups[pool.group].serves.classes;
        if classes.get_or_insert_default().is_empty() && !pool.name.is_empty() {
            judge.notes.push(format!(
                "pool {} stands idle: no class asks for {}",
                pool.name,
                served(pool)
            ));
        }
    }
}

/// The pools of a model take every length of prompt once.
fn check_prompts(judge: &mut Judge, pools: &[PoolDraft], model: &str) {
    let of_model = pools
        .iter()
        .enumerate()
        .filter(|(_, pool)| served(pool) == *model);
    let mut ranges: Vec<((u32, u32), usize)> = of_model.map(|(index, pool)| (pool.prompts, index)).collect();
    ranges.sort_unstable();
    ranges.dedup_by_key(|(range, _)| *range);
    let mut next = 1u64;
    for &((least, most), index) in &ranges {
        let key = format!("cluster.pools.{index}.min_prompt_tokens");
        let least = u64::from(least.max(1));
        if least > next {
            let label = format!("nobody takes prompts of {next} to {} tokens", least - 1);
            judge.wrong_help(&key, "leaves a gap", label, format!("write {next}"));
        } else if least < next {
            let place = judge.place(&format!("cluster.pools.{index}"));
            let name = &pools[index].name;
            let told = format!("pool {name} and another take prompts of {least} tokens");
            let help = "let each max_prompt_tokens be one below the next min_prompt_tokens";
            judge.report(Diagnostic::new(told).at(place).help(help));
        }
        next = next.max(u64::from(most) + 1);
    }
    if next <= u64::from(u32::MAX)
        && let Some((_, index)) = ranges.last()
    {
        let key = format!("cluster.pools.{index}.max_prompt_tokens");
        let label = format!("nobody takes prompts of {next} tokens or more");
        judge.wrong_help(&key, "leaves a gap", label, "leave it out in the last pool");
    }
}
