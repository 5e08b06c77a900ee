//! Kernel tables: CSV files in the columns of `tests/data/kernels`, told apart by their header.
//!
//! Rows of other GPUs and frameworks are passed over; rows of this one that cannot be used are counted with the
//! reason; a table without a column for either is everybody's. Prefill may have a column `prefix` of cached tokens;
//! Vidur's chunks (`q_chunk`, `kv_prefix`) are read, too, without their time of writing the cache. Copies have
//! `direction` (h2d, d2h), `bytes` and, if they were of several, `pieces`. Traps: `l2_warm` rows were replayed from the cache and say nothing of memory; `above_peak_bw` rows are
//! faster than the memory allows.

mod experts;
mod header;
mod kernels;
mod row;
mod skew;

use std::collections::{BTreeMap, BTreeSet};

pub use self::experts::prefer_balanced;
pub use self::header::{is_kernel_table, lacks};
pub(super) use self::row::SIZE_MAX;

use self::row::Row;
use super::observation::Observation;
use crate::hardware::{self, Device};
use crate::results::csv_rows;

/// Whose rows to take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    /// The `gpu` column, `h100_sxm`.
    pub gpu: String,
    /// The `fw` column: `vllm`, `sglang`, `trtllm`.
    pub framework: String,
}

/// What a table gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Rows of the selection that can be fitted.
    pub observations: Vec<Observation>,
    /// Rows of the whole file.
    pub rows: u64,
    /// Rows of the selection that were left, by reason.
    pub left: BTreeMap<String, u64>,
}

/// Why a table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The header is not one of the known ones.
    #[error(
        "{file} is no kernel table: its header has neither of the columns `n, k, m`, `context`, `seqlen`, `q_chunk`, `experts`, `elements`, `direction`"
    )]
    Unknown {
        /// The file.
        file: String,
    },
    /// Rows are broken.
    #[error("{file}, {}", listed(.problems))]
    Rows {
        /// The file.
        file: String,
        /// All of them: the line, from 1, the header's, and what is wrong.
        problems: Vec<(u64, String)>,
    },
}

/// Problems that are listed; the rest are counted.
const SHOWN: usize = 10;

fn listed(problems: &[(u64, String)]) -> String {
    let shown = problems.iter().take(SHOWN);
    let lines: Vec<String> = shown.map(|(line, what)| format!("line {line}: {what}")).collect();
    let text = lines.join("\n  ");
    match problems.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text}\n  and {more} more lines"),
    }
}

/// A file's checksum as a calibration's provenance writes it: CRC-32 in hexadecimal.
#[must_use]
pub fn crc32(text: &str) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(text.as_bytes());
    format!("{:08x}", crc.sum())
}

/// Longest time of a kernel, µs: an hour.
const US_MAX: f64 = 3.6e9;

/// Reads the rows of a selection; `input` is remembered in each of them.
///
/// # Errors
/// An unknown header, or all rows that lack a number.
pub fn read(file: &str, text: &str, input: usize, selection: &Selection) -> Result<Table, TableError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader
        .headers()
        .map(|header| header.iter().map(str::to_owned).collect())
        .unwrap_or_default();
    let has = |name: &str| header.iter().any(|column| column == name);
    let row_of = kernels::reader(has).ok_or_else(|| TableError::Unknown {
        file: file.to_owned(),
    })?;
    let framework_column = ["fw", "impl"].into_iter().find(|name| has(name));
    let mut table = Table::default();
    let mut gpus: BTreeMap<String, bool> = BTreeMap::new();
    let mut problems = Vec::new();
    for (line, row) in csv_rows(text) {
        table.rows += 1;
        let row = match row {
            Ok(row) => Row(row),
            Err(message) => {
                problems.push((line, message));
                continue;
            }
        };
        let is_asked = |column: &str| is_framework(row.text(column), &selection.framework);
        let mut is_asked_gpu = |name: &str| {
            let known = gpus.get(name).copied();
            known.unwrap_or_else(|| {
                *gpus
                    .entry(name.to_owned())
                    .or_insert(is_gpu(name, &selection.gpu))
            })
        };
        let is_other_gpu = has("gpu") && !is_asked_gpu(row.text("gpu"));
        if is_other_gpu || !framework_column.is_none_or(is_asked) {
            continue;
        }
        match row_of(&row).and_then(|read| timed(read, &row)) {
            Ok(Ok(((block, kernel, shape), seconds))) => table.observations.push(Observation {
                block,
                kernel,
                seconds,
                shape,
                input,
            }),
            Ok(Err(reason)) => *table.left.entry(reason).or_default() += 1,
            Err(message) => problems.push((line, message)),
        }
    }
    if !problems.is_empty() {
        let file = file.to_owned();
        return Err(TableError::Rows { file, problems });
    }
    Ok(table)
}

/// A row's kernel with its time, s, unless the row is left.
fn timed<K>(read: Result<K, String>, row: &Row) -> Result<Result<(K, f64), String>, String> {
    let kernel = match read {
        Ok(kernel) => kernel,
        Err(reason) => return Ok(Err(reason)),
    };
    let us = row.number("us")?;
    if us <= 0.0 || us > US_MAX {
        return Err(format!("`us` is {us}; a time is above 0 and below an hour"));
    }
    Ok(Ok((kernel, us * 1e-6)))
}

/// Every selection that some row belongs to, in order; a table that cannot be read has none.
#[must_use]
pub fn selections(text: &str) -> BTreeSet<Selection> {
    let rows = csv_rows(text).filter_map(|(_, row)| row.ok().map(Row));
    rows.filter_map(|row| {
        let framework = match row.text("fw") {
            "" if !row.0.contains_key("impl") => "vllm",
            "" => *FRAMEWORKS
                .iter()
                .find(|framework| is_framework(row.text("impl"), framework))?,
            framework => framework,
        };
        Some(Selection {
            gpu: row.text("gpu").to_owned(),
            framework: framework.to_owned(),
        })
    })
    .collect()
}

/// Frameworks whose kernels some calibration has.
pub const FRAMEWORKS: [&str; 3] = ["vllm", "sglang", "trtllm"];

/// Whether a table says whose its rows are; one that does not is taken whole.
#[must_use]
pub fn names_gpus(text: &str) -> bool {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers();
    header.is_ok_and(|header| header.iter().any(|column| column == "gpu"))
}

/// A device as tables name it: `h100_sxm` for H100-SXM-80GB.
#[must_use]
pub fn gpu_name(device: &Device) -> String {
    let id = device.id.to_lowercase();
    let parts: Vec<&str> = id.split('-').filter(|part| !part.ends_with("gb")).collect();
    parts.join("_")
}

/// Whether a table's name of a card means the one that is asked for: as tables write it, or as `--gpu` takes it.
fn is_gpu(found: &str, asked: &str) -> bool {
    found == asked || hardware::find(found).is_ok_and(|(card, _)| gpu_name(&card) == asked)
}

/// Collectives name their implementation: the one that a serving engine runs inside its CUDA graphs.
fn is_framework(found: &str, asked: &str) -> bool {
    found.eq_ignore_ascii_case(asked)
        || match asked {
            "vllm" => found == "vLLM_custom_graph",
            "sglang" => found == "SGLang_CustomAllReduce_graph",
            "trtllm" => found == "TRTLLM",
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::observation::{Block, Kernel};

    fn selection() -> Selection {
        Selection {
            gpu: "x".to_owned(),
            framework: "vllm".to_owned(),
        }
    }

    #[test]
    fn rows_of_others_are_passed_over_and_unusable_ones_counted() {
        let text = "gpu,fw,ver,dtype,n,k,m,us,l2_warm\n\
                    x,vllm,1,bf16,4096,4096,1,10,0\n\
                    x,vllm,1,bf16,1024,1024,1,3,1\n\
                    x,vllm,1,awq,4096,4096,1,10,0\n\
                    y,vllm,1,bf16,4096,4096,1,10,0\n";
        let table = read("t.csv", text, 0, &selection()).unwrap();
        assert_eq!((table.rows, table.observations.len()), (4, 1));
        assert_eq!(table.left.values().sum::<u64>(), 2);
    }

    #[test]
    fn a_card_is_known_by_the_names_that_gpu_takes_and_an_engine_in_any_case() {
        let row = |gpu: &str, engine: &str| format!("{gpu},{engine},1,bf16,4096,4096,1,10,0\n");
        let rows = [
            row("h100_sxm", "vllm"),
            row("H100-SXM-80GB", "vLLM"),
            row("NVIDIA H100 80GB HBM3", "VLLM"),
            row("h200_sxm", "vllm"),
            row("h100_sxm", "sglang"),
        ];
        let text = format!("gpu,fw,ver,dtype,n,k,m,us,l2_warm\n{}", rows.concat());
        let selection = Selection {
            gpu: "h100_sxm".to_owned(),
            ..selection()
        };
        assert_eq!(read("t.csv", &text, 0, &selection).unwrap().observations.len(), 3);
    }

    #[test]
    fn chunks_behind_a_prefix_and_copies_are_read() {
        let chunks = "gpu,heads,kv_heads,head_dim,phase,batch,q_chunk,kv_prefix,us,kv_write_us\n\
                      x,28,4,128,prefill,1,64,320,46.85,3.9\nx,28,4,128,decode,8,1,512,20,3\n";
        let table = read("t.csv", chunks, 0, &selection()).unwrap();
        assert_eq!(
            table.observations[0].kernel.to_string(),
            "1 prompts of 64 tokens, 28 heads, 4 KV heads, 320 tokens cached"
        );
        assert_eq!(table.observations[1].block, Block::DecodeAttention);
        let prefix = "gpu,fw,q_dtype,kv_dtype,heads,kv_heads,batch,seqlen,prefix,us\nx,vllm,bf16,bf16,32,8,1,64,320,40\n";
        let table = read("t.csv", prefix, 0, &selection()).unwrap();
        assert!(matches!(&table.observations[0].kernel, Kernel::Prefill(shape) if shape.prefix == 320));
        let copies = "gpu,direction,bytes,us\nx,h2d,65536,8\nx,p2p,65536,8\ny,d2h,65536,8\n";
        let table = read("t.csv", copies, 0, &selection()).unwrap();
        assert_eq!((table.observations.len(), table.left.len()), (1, 1));
        assert_eq!(table.observations[0].block.to_string(), "copy.h2d");
    }

    #[test]
    fn eight_bit_caches_and_experts_of_other_gpus_are_read() {
        let text = "gpu,fw,q_dtype,kv_dtype,heads,kv_heads,batch,seqlen,us\n\
                    x,vllm,bf16,fp8,32,8,1,512,40\nx,vllm,fp8,fp8,32,8,1,512,40\nx,vllm,fp8,bf16,32,8,1,512,40\n";
        let table = read("t.csv", text, 0, &selection()).unwrap();
        let blocks: Vec<Block> = table.observations.iter().map(|row| row.block).collect();
        assert_eq!(
            blocks,
            [Block::PrefillAttentionFp8, Block::PrefillAttentionFp8Query]
        );
        assert_eq!(table.left.values().sum::<u64>(), 1);
        let text = "gpu,fw,model,dtype,hidden,inter,experts,topk,tp,ep,dist,tokens,us\n\
                    x,vllm,a,bf16,2048,768,128,8,1,1,balanced,16,90\nx,vllm,a,bf16,2048,768,128,8,1,8,balanced,16,30\n\
                    x,vllm,a,bf16,2048,768,128,8,1,8,power_law_1.2,1024,99\nx,vllm,a,fp8,2048,768,128,8,1,1,power_law_1.2,1,9\n\
                    x,vllm,a,bf16,2048,768,128,8,1,1,by_hand,1,9\n";
        let mut table = read("t.csv", text, 0, &selection()).unwrap();
        let rows: Vec<f64> = table
            .observations
            .iter()
            .map(|row| match row.kernel {
                Kernel::Moe(shape) => shape.load.rows,
                _ => panic!("experts"),
            })
            .collect();
        assert_eq!((rows[0], rows[1], rows.len()), (128.0, 16.0, 4));
        assert!(rows[2] > 1024.0 && rows[2] < 8192.0, "{rows:?}");
        assert!(table.left.contains_key("routing by `by_hand` is not modelled"));
        // A fit takes skewed rows only where there are no others.
        prefer_balanced(&mut table);
        let blocks: Vec<String> = table
            .observations
            .iter()
            .map(|row| row.block.to_string())
            .collect();
        assert_eq!(blocks, ["moe.bf16", "moe.bf16", "moe.fp8"]);
    }

    #[test]
    fn all_broken_rows_are_told_and_many_are_counted() {
        let header = "gpu,fw,dtype,n,k,m,us,l2_warm\n";
        let text = |rows: usize| format!("{header}{}", "x,vllm,bf16,4096,4096,one,10,0\n".repeat(rows));
        let said = |text: &str| read("t.csv", text, 0, &selection()).unwrap_err().to_string();
        let other = "x,vllm,bf16,4096,4096,1,-3,0\nx,vllm\n";
        assert_eq!(
            said(&format!("{}{other}", text(1))),
            "t.csv, line 2: `m` is `one`, not a whole number\n  line 3: `us` is -3; a time is above 0 and below an hour\n  \
             line 4: has 2 cells, the header has 8"
        );
        assert!(said(&text(13)).ends_with("line 11: `m` is `one`, not a whole number\n  and 3 more lines"));
    }

    #[test]
    fn a_broken_row_is_located() {
        let text = "gpu,fw,dtype,n,k,m,us,l2_warm\nx,vllm,bf16,4096,4096,one,10,0\n";
        let error = read("t.csv", text, 0, &selection()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.csv, line 2: `m` is `one`, not a whole number"
        );
        for (text, wrong) in [
            (
                "gpu,fw,dtype,n,k,m,us,l2_warm\nx,vllm,bf16,4096,4096,0,10,0\n",
                "`m` is 0",
            ),
            (
                "gpu,fw,kv_dtype,heads,kv_heads,batch,context,us\nx,vllm,bf16,32,8,0,512,9\n",
                "`batch` is 0",
            ),
            (
                "gpu,impl,op,gpus,elements,us\nx,vLLM_custom_graph,all_reduce,2,0,9\n",
                "`elements` is 0",
            ),
        ] {
            let error = read("t.csv", text, 0, &selection()).unwrap_err().to_string();
            assert_eq!(error, format!("t.csv, line 2: {wrong}; no kernel is so small"));
        }
        let error = read("t.csv", "a,b\n1,2\n", 0, &selection()).unwrap_err();
        assert!(
            error.to_string().starts_with("t.csv is no kernel table"),
            "{error}"
        );
    }
}
