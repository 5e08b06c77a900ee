//! The workload that a scenario starts from, `workload.base`.

use super::diagnostic::Diagnostic;
use super::document::Document;
use super::files::{self, Files};

/// Puts the workload that the scenario starts from below it.
pub(super) fn underlay(
    document: &mut Document,
    files: &dyn Files,
    notes: &mut Vec<String>,
) -> Result<(), Diagnostic> {
    let key = "workload.base";
    let Some(name) = document
        .get(key)
        .and_then(toml::Value::as_str)
        .map(str::to_string)
    else {
        document.settle_rate(false);
        return Ok(());
    };
    let wrong = |document: &Document, error: String| {
        let known: Vec<&str> = files::SHIPPED
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| name.starts_with("workloads/"))
            .collect();
        let problem = Diagnostic::new(format!("`{}` names no workload", document.name_of(key)));
        problem
            .at(document.place(key))
            .of_value()
            .label(error)
            .help(format!("shipped are {}", known.join(", ")))
    };
    let (name, text) = match files::find(&name, files) {
        Some(shipped) => {
            notes.extend(shipped.note());
            (shipped.name, shipped.text)
        }
        None => {
            let bytes = files.read(&name).map_err(|error| wrong(document, error))?;
            let text = files::decoded(bytes).map_err(|what| wrong(document, format!("{name} {what}")))?;
            (name, text)
        }
    };
    let has_arrivals = document.get("workload.arrivals").is_some();
    document.underlay(&name, &text)?;
    document.remove(key);
    document.settle_rate(!has_arrivals);
    Ok(())
}
