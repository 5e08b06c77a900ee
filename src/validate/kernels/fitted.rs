//! Which rows the shipped calibrations were fitted to, whatever file they stand in: a checksum each, in `fitted_rows.txt`, by
//! calibration and block.
//!
//! A row is its kernel and its time, so that a table may be shuffled, cut or saved anew. The file is made from
//! `tests/data/kernels` and what the calibrations say of their inputs; a test holds it to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::calibrate::observation::Observation;
use crate::calibrate::tables;

/// A line for each calibration and block: both names, and a checksum for each row.
const TEXT: &str = include_str!("fitted_rows.txt");

static ROWS: LazyLock<BTreeMap<(&str, &str), BTreeSet<&str>>> = LazyLock::new(|| {
    let lines = TEXT.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some(((words.next()?, words.next()?), words.collect()))
    });
    lines.collect()
});

/// Whether a shipped calibration was fitted to a row.
pub(super) fn is_fitted(calibration: &str, row: &Observation) -> bool {
    let block = row.block.to_string();
    let rows = ROWS.get(&(calibration, block.as_str()));
    rows.is_some_and(|rows| rows.contains(checksum(row).as_str()))
}

/// A row in words that are the same for the same kernel and time.
pub(super) fn spelled(row: &Observation) -> String {
    format!("{} {:?} {}", row.block, row.kernel, 1e6 * row.seconds)
}

fn checksum(row: &Observation) -> String {
    tables::crc32(&spelled(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::tables::Selection;
    use crate::cost::calibration::{for_device, shipped};
    use crate::hardware;

    const TABLES: [&str; 5] = ["gemm", "attn_decode", "attn_prefill", "moe", "collectives"];

    /// The rows of the tables that took part in the fits of the cards that they name.
    fn rows() -> String {
        let mut all: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        let mut selections: BTreeSet<Selection> = BTreeSet::new();
        let text = |table: &str| {
            let path = format!("{}/tests/data/kernels/{table}.csv", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).unwrap()
        };
        for table in TABLES {
            selections.extend(tables::selections(&text(table)));
        }
        for selection in selections {
            let mut devices = hardware::all().iter();
            let Some(device) = devices.find(|device| tables::gpu_name(device) == selection.gpu) else {
                continue;
            };
            let name = for_device(device, &selection.framework).calibration.name;
            let evidence = shipped(&name).and_then(|calibration| calibration.evidence);
            let Some(evidence) = evidence else { continue };
            let mut counted: BTreeMap<String, u64> = BTreeMap::new();
            for table in TABLES {
                let file = format!("{table}.csv");
                let is_input = |input: &crate::cost::calibration::Input| input.file == file && input.used > 0;
                if !evidence.inputs.iter().any(is_input) {
                    continue;
                }
                let mut read = tables::read(&file, &text(table), 0, &selection).unwrap();
                tables::prefer_balanced(&mut read);
                for row in read.observations {
                    let block = row.block.to_string();
                    *counted.entry(block.clone()).or_default() += 1;
                    all.entry((name.clone(), block)).or_default().push(checksum(&row));
                }
            }
            for (block, rows) in counted {
                assert_eq!(evidence.blocks[&block].rows, rows, "{name} {block}");
            }
        }
        let line = |((name, block), mut rows): ((String, String), Vec<String>)| {
            rows.sort();
            format!("{name} {block} {}\n", rows.join(" "))
        };
        all.into_iter().map(line).collect()
    }

    #[test]
    fn the_file_is_what_the_tables_and_the_calibrations_say() {
        let made = std::env::temp_dir().join("fitted_rows.txt");
        let rows = rows();
        if rows != TEXT {
            std::fs::write(&made, rows).unwrap();
            panic!("src/validate/kernels/fitted_rows.txt is to be {}", made.display());
        }
    }
}
