//! A scenario whose requests come from outside: all of it but its traffic. Of the traffic stays what servers know of its classes.

use toml::{Table, Value};

use super::base;
use super::diagnostic::Diagnostics;
use super::document::Document;
use super::files::Files;

/// Tables that have no effect, but for some keys where there are classes, and why.
const LEFT_OUT: [(&str, &[&str], &str); 4] = [
    ("workload", &["classes", "seed"], "traffic is what clients send"),
    ("slo", &["goodput"], "what it promises is for who measures"),
    ("sweep", &[], "this is one server"),
    ("run", &[], "it runs until Ctrl-C"),
];
/// What of a class holds whoever sends its requests.
const OF_CLASSES: [&str; 4] = ["name", "priority", "model", "goodput"];

/// Takes the traffic out of a scenario, and what only a run has, and puts what is judged in its place; what is to be said of that.
///
/// # Errors
/// If the workload that it starts from cannot be read.
pub fn without_traffic(document: &mut Document, files: &dyn Files) -> Result<Vec<String>, Diagnostics> {
    let mut notes = Vec::new();
    base::underlay(document, files, &mut notes)?;
    let seed = document.get("workload.seed").cloned();
    let classes = document.get("workload.classes").and_then(Value::as_array);
    let classes = classes.map_or(0, Vec::len);
    for (table, of_classes, why) in LEFT_OUT {
        if document.get(table).is_none() {
            continue;
        }
        if classes == 0 || of_classes.is_empty() {
            notes.push(format!("[{table}] of the scenario has no effect: {why}"));
            document.remove(table);
        } else if keep(document, table, of_classes) {
            notes.push(format!(
                "[{table}] of the scenario has an effect on its classes alone: {why}"
            ));
        }
    }
    let mut is_cut = false;
    for index in 0..classes {
        let class = format!("workload.classes.{index}");
        is_cut |= keep(document, &class, &OF_CLASSES);
        document.set_default(&format!("{class}.share"), Value::Float(1.0), OF);
    }
    if is_cut {
        let note = "the scenario's classes hold by their priorities, models and limits: when their requests come, how long they are and what \
                    they share, clients say";
        notes.push(note.to_owned());
    }
    stand_in(document, seed);
    Ok(notes)
}

/// Whose the defaults are.
const OF: &str = "serve";

/// Removes all other keys of a table; whether there were any.
fn keep(document: &mut Document, table: &str, kept: &[&str]) -> bool {
    let keys = document.get(table).and_then(Value::as_table);
    let keys = keys.into_iter().flat_map(Table::keys);
    let others: Vec<String> = keys
        .filter(|key| !kept.contains(&key.as_str()))
        .cloned()
        .collect();
    others
        .iter()
        .for_each(|key| document.remove(&format!("{table}.{key}")));
    !others.is_empty()
}

/// Traffic that is valid and that nobody simulates.
fn stand_in(document: &mut Document, seed: Option<Value>) {
    let table = Value::Table(Table::new());
    document.set_default("workload.arrivals.all_at_once", table, OF);
    for key in [
        "num_prompts",
        "lengths.random.input_len",
        "lengths.random.output_len",
    ] {
        document.set_default(&format!("workload.{key}"), Value::Integer(1), OF);
    }
    if let Some(seed) = seed {
        document.set_default("workload.seed", seed, OF);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::files::NoFiles;
    use crate::config::resolve;

    const MACHINE: &str = "[model]\nname = \"Qwen/Qwen3-8B\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n";

    #[test]
    fn classes_keep_what_servers_know_of_them() {
        let text = format!(
            "{MACHINE}[[cluster.rate_limits]]\nclass = \"batch\"\nrequests_per_second = 2\n[slo]\nattainment = 0.9\n\
             goodput = {{ ttft = \"2 s\" }}\n[workload]\nseed = 7\n[[workload.classes]]\nname = \"chat\"\n\
             goodput = {{ ttft = \"1 s\" }}\narrivals.poisson.request_rate = 4.0\nlengths.fixed = {{ input_len = 9, output_len = 9 }}\n\
             [[workload.classes]]\nname = \"batch\"\npriority = 10\nlengths.nonsense = 1\n"
        );
        let mut document = Document::parse("x.toml", &text).unwrap();
        let notes = without_traffic(&mut document, &NoFiles).unwrap();
        assert_eq!(notes.len(), 2, "{notes:?}");
        let resolved = resolve(document, &NoFiles)
            .map_err(|error| error.to_string())
            .unwrap();
        let classes = &resolved.scenario.workload.classes;
        let told: Vec<_> = classes
            .iter()
            .map(|class| (class.name.as_str(), class.priority))
            .collect();
        assert_eq!(told, [("chat", 0), ("batch", 10)]);
        assert_eq!(classes[0].promise.ttft.map(|ttft| ttft.seconds()), Some(1.0));
        assert_eq!(resolved.scenario.admission.rates[0].class, Some(1));
        assert_eq!(resolved.scenario.seed, 7);
        assert_eq!(
            resolved.slo.goodput.len(),
            1,
            "of the class that has none of its own"
        );
    }

    #[test]
    fn what_is_wrong_with_a_class_points_at_it() {
        let text =
            format!("{MACHINE}[[workload.classes]]\nname = \"chat\"\nmodel = \"another\"\nshare = -1.0\n");
        let mut document = Document::parse("x.toml", &text).unwrap();
        without_traffic(&mut document, &NoFiles).unwrap();
        let problems = resolve(document, &NoFiles)
            .err()
            .map(|problems| problems.to_string());
        let problems = problems.unwrap_or_default();
        assert!(
            problems.contains("x.toml:7") && problems.contains("is served by no pool"),
            "{problems}"
        );
    }
}
