//! Where each value of a file stands.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::Table;
use toml::de::{DeTable, DeValue};

use super::super::diagnostic::{Diagnostic, Place, SourceFile};

/// The byte range of every value, by key path.
pub(super) type Spans = BTreeMap<String, Range<usize>>;

/// Reads a file into its values and their places.
pub(super) fn parse(file: &SourceFile) -> Result<(Table, Spans), Diagnostic> {
    let place = |error: &toml::de::Error| match error.span() {
        Some(span) => Place::File(
            Arc::new(SourceFile {
                name: file.name.clone(),
                text: file.text.clone(),
            }),
            span,
        ),
        None => Place::Nowhere,
    };
    let bad = |error: toml::de::Error| {
        Diagnostic::new(format!("{} is not TOML: {}", file.name, plainly(error.message()))).at(place(&error))
    };
    let spanned = DeTable::parse(&file.text).map_err(bad)?;
    let mut spans = Spans::new();
    walk_table("", spanned.get_ref(), &mut spans);
    let table = toml::from_str(&file.text).map_err(bad)?;
    Ok((table, spans))
}

/// TOML's whole numbers have 64 bits; the parser names a wider one by Rust's type.
fn plainly(message: &str) -> String {
    let number = message
        .strip_prefix("invalid type: integer `")
        .and_then(|rest| rest.split_once("` as "));
    match number {
        Some((number, _)) => format!("{number} is too large, a whole number is at most {}", i64::MAX),
        None => message.to_owned(),
    }
}

/// Collects the byte range of every value, by key path; a table's is that of its key.
fn walk_table(path: &str, table: &DeTable<'_>, spans: &mut Spans) {
    for (key, value) in table.iter() {
        let inner = if path.is_empty() {
            key.get_ref().to_string()
        } else {
            format!("{path}.{}", key.get_ref())
        };
        let span = if matches!(value.get_ref(), DeValue::Table(_)) {
            key.span()
        } else {
            value.span()
        };
        spans.insert(inner.clone(), span);
        spans.insert(format!("{inner}.@key"), key.span());
        walk_value(&inner, value.get_ref(), spans);
    }
}

fn walk_value(path: &str, value: &DeValue<'_>, spans: &mut Spans) {
    match value {
        DeValue::Table(table) => walk_table(path, table, spans),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let inner = format!("{path}.{index}");
                spans.insert(inner.clone(), item.span());
                walk_value(&inner, item.get_ref(), spans);
            }
        }
        _ => {}
    }
}
