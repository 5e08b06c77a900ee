//! What a scenario's `[report]` asks for and a form of output does not show: named, never dropped in silence.
//!
//! Flags that say the same are refused or named where outputs are checked ([`super::outputs`]); this is about files.

use super::outputs::{Format, Outputs, Writer};
use crate::config::{Document, Source};

/// A sentence for each key of `[report]` that changes nothing in what `writer` writes.
pub(super) fn unread(document: &Document, outputs: &Outputs, writer: Writer) -> Vec<String> {
    const KEYS: [&str; 4] = ["percentiles", "metrics", "label", "metadata"];
    let unread = KEYS.into_iter().filter_map(|key| {
        let Some(Source::File { name, line }) = document.source(&format!("report.{key}")) else {
            return None;
        };
        let why = why_unread(key, outputs, writer)?;
        Some(format!(
            "{key} in [report] ({name}:{line}) has no effect here: {why}"
        ))
    });
    unread.collect()
}

/// Why a key is not shown; `None` where it is.
fn why_unread(key: &str, outputs: &Outputs, writer: Writer) -> Option<&'static str> {
    let is_json = matches!(outputs.format, Format::Json | Format::Jsonl);
    let names_percentiles = matches!(key, "percentiles" | "metrics");
    match writer {
        // A saved result has all of them.
        Writer::Run | Writer::Sweep if outputs.save_result => None,
        Writer::Knee if names_percentiles => Some("the columns of knee are fixed"),
        Writer::Size if names_percentiles => Some("the columns of size are fixed"),
        Writer::Run | Writer::Knee | Writer::Size | Writer::Sweep if is_json => None,
        Writer::Sweep if outputs.format == Format::Csv => None,
        Writer::Run if names_percentiles && outputs.format == Format::Table => None,
        Writer::Run if key == "metrics" && outputs.format == Format::Md => None,
        _ if names_percentiles => Some("this table has columns of its own; JSON has them"),
        _ => Some("it stands in JSON"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outputs::OutputFlags;
    use super::*;
    use crate::config::pasted::ResultFlags;

    #[test]
    fn what_a_form_does_not_show_is_named_and_what_it_shows_is_not() {
        let text = "[report]\npercentiles = [50.0]\nlabel = \"a\"\n";
        let document = Document::parse("a.toml", text).unwrap();
        let told = |format, writer| {
            let flags = OutputFlags {
                format: Some(format),
                ..OutputFlags::default()
            };
            let outputs = flags.resolve(&ResultFlags::default(), writer).unwrap();
            unread(&document, &outputs, writer)
        };
        let knee = told(Format::Table, Writer::Knee);
        assert_eq!(
            knee[0],
            "percentiles in [report] (a.toml:2) has no effect here: the columns of knee are fixed"
        );
        assert_eq!(
            knee[1],
            "label in [report] (a.toml:3) has no effect here: it stands in JSON"
        );
        assert_eq!(told(Format::Json, Writer::Knee).len(), 1);
        assert_eq!(told(Format::Table, Writer::Run).len(), 1);
        assert_eq!(told(Format::Table, Writer::Sweep).len(), 2);
        for writer in [Writer::Run, Writer::Sweep] {
            assert!(told(Format::Json, writer).is_empty());
        }
    }
}
