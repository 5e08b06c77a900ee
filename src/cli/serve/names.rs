//! What clients may call the model by: its own names, and the name of each class of requests.
//!
//! As vLLM's LoRA adapters are models beside the one that they are of, so are classes. Whoever asks for the model itself, or names none, is of
//! the first class that asks for it.

use anyhow::bail;

use crate::serve::desk::Name;
use crate::sim::Scenario;

/// The names, the model's first; `served` are those that the model goes by in place of its own.
///
/// # Errors
/// If the name of a class or of a model is another one's, too.
pub(super) fn of(scenario: &Scenario, served: &[String]) -> anyhow::Result<Vec<Name>> {
    let classes = &scenario.workload.classes;
    let first = model_of(scenario, 0);
    let own = match served {
        [] => vec![first.to_owned()],
        served => served.to_vec(),
    };
    let priority = |class: u32| classes.get(class as usize).map_or(0, |class| class.priority);
    let mut names: Vec<Name> = Vec::new();
    let answers = &own[0];
    for name in &own {
        names.push(Name {
            name: name.clone(),
            answers: answers.clone(),
            parent: None,
            class: 0,
            priority: priority(0),
        });
    }
    let called = |model: &str| {
        if model == first {
            answers.clone()
        } else {
            model.to_owned()
        }
    };
    for (class, of) in (0..).zip(classes) {
        let model = called(model_of(scenario, class));
        if model_of(scenario, class) != first && own.contains(&model) {
            bail!(
                "`{model}` is a name of `{first}` by --served-model-name, and a model of its own: whoever asks for it, asks for which?\n  help: leave \
                 that name out"
            );
        }
        if !names.iter().any(|name| name.answers == model) {
            names.push(Name {
                name: model.clone(),
                answers: model.clone(),
                parent: None,
                class,
                priority: of.priority,
            });
        }
    }
    for (class, of) in (0..).zip(classes) {
        match names.iter().find(|name| name.name == of.name) {
            Some(name) if name.class == class => {}
            Some(_) => bail!(
                "`{}` is the name of a class and of a model: whoever asks for it, asks for which?\n  help: give the class another name, or the model \
                 by --served-model-name",
                of.name
            ),
            None => names.push(Name {
                name: of.name.clone(),
                answers: of.name.clone(),
                parent: Some(called(model_of(scenario, class))),
                class,
                priority: of.priority,
            }),
        }
    }
    Ok(names)
}

/// The model that requests of a class get; that of the first pool where nothing is said of classes.
fn model_of(scenario: &Scenario, class: u32) -> &str {
    let mut groups = scenario.cluster.groups.iter();
    let serves = |classes: &Vec<u32>| classes.contains(&class);
    let group = groups.find(|group| group.serves.classes.as_ref().is_some_and(serves));
    let replica = group.and_then(|group| group.members.first());
    let pools = scenario.pool_of_each();
    let pool = replica.and_then(|replica| pools.get(*replica as usize));
    &scenario.pools[pool.map_or(0, |pool| *pool as usize)].model
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Document, NoFiles, resolve, without_traffic};

    /// Name, what answers have, parent and class.
    type Told = (String, String, Option<String>, u32);

    fn names(tables: &str, served: &[&str]) -> anyhow::Result<Vec<Told>> {
        let mut document = Document::parse("x.toml", tables).unwrap();
        without_traffic(&mut document, &NoFiles).unwrap();
        let resolved = resolve(document, &NoFiles)
            .map_err(|problems| problems.to_string())
            .unwrap();
        let served: Vec<String> = served.iter().map(|name| (*name).to_owned()).collect();
        let names = of(&resolved.scenario, &served)?;
        Ok(names
            .into_iter()
            .map(|name| (name.name, name.answers, name.parent, name.class))
            .collect())
    }

    const ONE: &str = "[model]\nname = \"Qwen/Qwen3-8B\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n";
    const CLASSES: &str = "[[workload.classes]]\nname = \"chat\"\n[[workload.classes]]\nname = \"batch\"\n";

    fn name(name: &str, answers: &str, parent: Option<&str>, class: u32) -> Told {
        (
            name.to_owned(),
            answers.to_owned(),
            parent.map(str::to_owned),
            class,
        )
    }

    #[test]
    fn classes_are_models_beside_the_one_that_is_served() {
        let model = "Qwen/Qwen3-8B";
        assert_eq!(names(ONE, &[]).unwrap(), [name(model, model, None, 0)]);
        assert_eq!(
            names(&format!("{ONE}{CLASSES}"), &["q", "chat"]).unwrap(),
            [
                name("q", "q", None, 0),
                name("chat", "q", None, 0),
                name("batch", "batch", Some("q"), 1)
            ]
        );
        let twice = names(&format!("{ONE}{CLASSES}"), &["batch"])
            .unwrap_err()
            .to_string();
        assert!(twice.contains("`batch` is the name of a class"), "{twice}");
    }

    #[test]
    fn each_model_s_own_name_is_the_first_class_that_asks_for_it() {
        let pools = "[cluster]\ngpu = \"H100-SXM-80GB\"\n[[cluster.pools]]\nname = \"a\"\nmodel.name = \"Qwen/Qwen3-8B\"\n\
                     [[cluster.pools]]\nname = \"b\"\nmodel.name = \"Qwen/Qwen3-4B\"\n\
                     [[workload.classes]]\nname = \"small\"\nmodel = \"Qwen3-4B\"\n[[workload.classes]]\nname = \"large\"\n\
                     model = \"Qwen3-8B\"\n";
        assert_eq!(
            names(pools, &[]).unwrap(),
            [
                name("Qwen/Qwen3-4B", "Qwen/Qwen3-4B", None, 0),
                name("Qwen/Qwen3-8B", "Qwen/Qwen3-8B", None, 1),
                name("small", "small", Some("Qwen/Qwen3-4B"), 0),
                name("large", "large", Some("Qwen/Qwen3-8B"), 1),
            ]
        );
        for served in [&["q", "Qwen/Qwen3-8B"][..], &["Qwen/Qwen3-8B"]] {
            let twice = names(pools, served).unwrap_err().to_string();
            assert!(twice.contains("and a model of its own"), "{twice}");
        }
    }
}
