//! Kernel tables against the calibrations that ship: each usable row a prediction, scored by GPU, framework, kernel and
//! format.
//!
//! Times are those of [`crate::cost::kernel`] at burst clocks, as tables were timed. A GPU without a calibration of its own
//! is predicted by its architecture's prior, and the score names it; a calibration that is asked for predicts its own card's, by
//! itself. Rows that cannot be modelled are counted with the
//! reason, as is a row that was there before. Rows that a calibration was fitted to are recognised one by one, whatever file
//! they stand in, and scored apart. Law: nothing is fitted here.

mod fitted;

use std::collections::{BTreeMap, BTreeSet};

use crate::calibrate::ceiling::least_seconds;
use crate::calibrate::observation::{Block, Kernel, Observation, format_name};
use crate::calibrate::tables::{self, FRAMEWORKS, Selection, TableError};
use crate::cost::calibration::{Calibration, for_device};
use crate::cost::experts::moe_seconds;
use crate::cost::kernel::{
    Ceilings, all_reduce_seconds, copy_seconds, decode_attention_seconds, gemm_seconds, peak,
    prefill_attention_seconds,
};
use crate::hardware::{self, Device};
use crate::stats::quantile;
use crate::validate::TimedBy;

/// A measured kernel and its prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelRow {
    /// What it is counted with.
    pub group: Group,
    /// Its shape, for people.
    pub shape: String,
    /// As published, µs.
    pub measured_us: f64,
    /// As the calibration has it, µs.
    pub predicted_us: f64,
    /// Faster than the GPU's peak allows, whoever wrote the kernel.
    pub is_impossible: bool,
}

impl KernelRow {
    /// `predicted / measured − 1`.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }
}

/// Rows that are scored together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// As the table has it, `h100_sxm`.
    pub gpu: String,
    /// `vllm`, `sglang`, `trtllm`.
    pub framework: String,
    /// `gemm`, `attention.decode`, `allreduce.4` …
    pub kernel: String,
    /// Of the weights; of the KV cache for attention.
    pub dtype: String,
    /// Whose parameters predict.
    pub calibration: String,
    /// Whether the calibration was fitted to these very rows.
    pub is_fitted: bool,
}

/// How far off a group is.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelScore {
    /// Which.
    pub group: Group,
    /// Its rows.
    pub rows: usize,
    /// Median of |error|.
    pub median_error: f64,
    /// 95th percentile of |error|.
    pub p95_error: f64,
    /// Median of the error with its sign.
    pub bias: f64,
}

/// What the tables gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernels {
    /// Whose the rows are of a table without a column `gpu`.
    pub gpu: Option<Device>,
    /// What predicts instead of the calibrations that ship.
    pub timed_by: Option<TimedBy>,
    /// Rows of all files.
    pub rows_read: u64,
    /// Those that were predicted.
    pub rows: Vec<KernelRow>,
    /// The others, by reason.
    pub left: BTreeMap<String, u64>,
    /// Whose, what and how long, of every row that was predicted.
    seen: BTreeSet<String>,
}

impl Kernels {
    /// Predicts all rows of a table.
    ///
    /// # Errors
    /// An unknown header, a row that lacks a number or a kernel of no size.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), TableError> {
        let names_gpus = tables::names_gpus(text);
        let mut told = 0;
        let mut rows = 0;
        for selection in tables::selections(text) {
            let table = tables::read(file, text, 0, &selection)?;
            rows = table.rows;
            told += table.observations.len() as u64 + table.left.values().sum::<u64>();
            for (reason, number) in table.left {
                *self.left.entry(reason).or_default() += number;
            }
            self.predict(&selection, names_gpus, &table.observations);
        }
        if rows == 0 {
            // Without a selection the header has not been judged.
            let nobody = Selection {
                gpu: String::new(),
                framework: String::new(),
            };
            rows = tables::read(file, text, 0, &nobody)?.rows;
        }
        self.rows_read += rows;
        if rows > told {
            let reason = "another library's implementation than the one that an engine runs in its graphs";
            *self.left.entry(reason.to_owned()).or_default() += rows - told;
        }
        Ok(())
    }

    fn predict(&mut self, selection: &Selection, names_gpus: bool, observations: &[Observation]) {
        let device = match self.device(selection, names_gpus) {
            Ok(device) => device,
            Err(reason) => {
                *self.left.entry(reason).or_default() += observations.len() as u64;
                return;
            }
        };
        let gpu = tables::gpu_name(&device);
        let calibration = match &self.timed_by {
            None => Ok(for_device(&device, &selection.framework).calibration),
            Some(asked) => asked.kernels_of(&device).cloned(),
        };
        let calibration = match calibration {
            Ok(calibration) => calibration,
            Err(reason) => {
                *self.left.entry(reason).or_default() += observations.len() as u64;
                return;
            }
        };
        for observation in observations {
            let mut leave = |reason: String| *self.left.entry(reason).or_default() += 1;
            let (kernel, dtype) = names(observation.block);
            let Some(seconds) = seconds(&calibration, &device, observation) else {
                leave(format!("no calibration has {}", observation.block));
                continue;
            };
            let row = format!(
                "{gpu} {} {} {}",
                selection.framework,
                observation.shape,
                fitted::spelled(observation)
            );
            if !self.seen.insert(row) {
                leave("the same row again".to_owned());
                continue;
            }
            self.rows.push(KernelRow {
                group: Group {
                    gpu: gpu.clone(),
                    framework: selection.framework.clone(),
                    kernel,
                    dtype,
                    calibration: calibration.name.clone(),
                    is_fitted: fitted::is_fitted(&calibration.name, observation),
                },
                shape: observation.kernel.to_string(),
                measured_us: observation.seconds * 1e6,
                predicted_us: seconds * 1e6,
                is_impossible: observation.seconds
                    < least_seconds(&device, observation.block, &observation.kernel),
            });
        }
    }

    /// The card of a selection's rows, or why they cannot be predicted.
    fn device(&self, selection: &Selection, names_gpus: bool) -> Result<Device, String> {
        let Selection { gpu, framework } = selection;
        if !FRAMEWORKS.contains(&framework.as_str()) {
            let known = FRAMEWORKS.join(", ");
            return Err(format!("the framework `{framework}` is not known, only {known}"));
        }
        match (&self.gpu, gpu.as_str()) {
            (Some(device), "") if !names_gpus => Ok(device.clone()),
            (None, "") if !names_gpus => {
                Err("the table has no column `gpu`: --gpu says whose its rows are".to_owned())
            }
            (_, "") => Err("the column `gpu` is empty".to_owned()),
            (_, name) => device(name).ok_or_else(|| format!("the GPU `{name}` is not known")),
        }
    }

    /// Rows that no kernel on their GPU can reach.
    #[must_use]
    pub fn impossible(&self) -> usize {
        self.rows.iter().filter(|row| row.is_impossible).count()
    }

    /// Scores by group, in order of name.
    #[must_use]
    pub fn scores(&self) -> Vec<KernelScore> {
        let mut groups: BTreeMap<&Group, Vec<f64>> = BTreeMap::new();
        for row in &self.rows {
            groups.entry(&row.group).or_default().push(row.error());
        }
        groups
            .into_iter()
            .filter_map(|(group, errors)| score(group, &errors))
            .collect()
    }

    /// Median |error| of each kind of kernel, over all its rows.
    #[must_use]
    pub fn medians(&self) -> Vec<(String, f64)> {
        let mut kinds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for row in &self.rows {
            let of_any_number = row.group.kernel.starts_with("allreduce");
            let kind = if of_any_number {
                "allreduce"
            } else {
                &row.group.kernel
            };
            kinds.entry(kind).or_default().push(row.error().abs());
        }
        let median = |(kind, errors): (&str, Vec<f64>)| Some((kind.to_owned(), quantile(&errors, 0.5)?));
        kinds.into_iter().filter_map(median).collect()
    }
}

fn score(group: &Group, errors: &[f64]) -> Option<KernelScore> {
    let absolute: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    Some(KernelScore {
        group: group.clone(),
        rows: errors.len(),
        median_error: quantile(&absolute, 0.5)?,
        p95_error: quantile(&absolute, 0.95)?,
        bias: quantile(errors, 0.5)?,
    })
}

/// The device that tables name in their own way.
fn device(name: &str) -> Option<Device> {
    let own = hardware::all()
        .iter()
        .find(|device| tables::gpu_name(device) == name);
    own.cloned()
        .or_else(|| Some(hardware::find(&name.replace('_', "-")).ok()?.0))
}

fn names(block: Block) -> (String, String) {
    let (kernel, dtype) = match block {
        Block::Gemm(format) => ("gemm", format_name(format)),
        Block::Moe(format) => ("moe", format_name(format)),
        Block::PrefillAttention => ("attention.prefill", "bf16"),
        Block::PrefillAttentionFp8 => ("attention.prefill", "fp8"),
        Block::PrefillAttentionFp8Query => ("attention.prefill", "fp8, queries too"),
        Block::DecodeAttention => ("attention.decode", "bf16"),
        Block::DecodeAttentionFp8 => ("attention.decode", "fp8"),
        Block::AllReduce(gpus) => return (format!("allreduce.{gpus}"), "bf16".to_owned()),
        Block::Copy(_) => return (block.to_string(), "-".to_owned()),
    };
    (kernel.to_owned(), dtype.to_owned())
}

/// What the calibration says of a kernel; `None` where it has no parameters of its block.
fn seconds(calibration: &Calibration, device: &Device, observation: &Observation) -> Option<f64> {
    let attention = calibration.attention.as_ref();
    let plain = Ceilings::of(device, device.peaks.bf16.0);
    match (observation.block, &observation.kernel) {
        (Block::Gemm(format), Kernel::Gemm(shape)) => {
            let ceilings = Ceilings::of(device, peak(&device.peaks, format).0);
            Some(gemm_seconds(
                calibration.gemm.get(&format)?,
                &ceilings,
                shape,
                1.0,
            ))
        }
        (Block::Moe(format), Kernel::Moe(shape)) => {
            let ceilings = Ceilings::of(device, peak(&device.peaks, format).0);
            Some(moe_seconds(calibration.moe.get(&format)?, &ceilings, shape, 1.0))
        }
        (Block::DecodeAttention, Kernel::Decode(shape)) => {
            Some(decode_attention_seconds(&attention?.decode, &plain, shape))
        }
        (Block::DecodeAttentionFp8, Kernel::Decode(shape)) => {
            Some(decode_attention_seconds(&attention?.decode_fp8_kv, &plain, shape))
        }
        (block, Kernel::Prefill(shape)) => {
            let attention = attention?;
            let prefill = match block {
                Block::PrefillAttentionFp8 => &attention.prefill_fp8_kv,
                Block::PrefillAttentionFp8Query => attention.prefill_fp8_query.as_ref()?,
                _ => &attention.prefill,
            };
            Some(prefill_attention_seconds(prefill, &plain, shape))
        }
        (Block::AllReduce(gpus), Kernel::AllReduce(bytes)) => {
            let link = calibration.allreduce.iter().find(|link| link.gpus == gpus)?;
            Some(all_reduce_seconds(link, *bytes))
        }
        (Block::Copy(direction), Kernel::Copy { bytes, pieces }) => {
            Some(copy_seconds(calibration.copies.get(&direction)?, *bytes, *pieces))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(file: &str) -> Kernels {
        let path = format!("{}/tests/data/kernels/{file}.csv", env!("CARGO_MANIFEST_DIR"));
        let mut kernels = Kernels::default();
        kernels
            .add(file, &std::fs::read_to_string(path).unwrap())
            .unwrap();
        kernels
    }

    #[test]
    fn every_row_of_the_shipped_tables_is_predicted_or_counted() {
        for file in ["gemm", "attn_decode", "attn_prefill", "moe", "collectives"] {
            let kernels = shipped(file);
            let left: u64 = kernels.left.values().sum();
            assert_eq!(kernels.rows.len() as u64 + left, kernels.rows_read, "{file}");
            assert!(kernels.rows.len() > 50, "{file}: {:?}", kernels.left);
        }
    }

    #[test]
    fn errors_are_those_that_the_fit_left() {
        let scores = shipped("gemm").scores();
        let of = |gpu: &str| {
            scores.iter().find(|score| {
                let group = &score.group;
                (group.gpu.as_str(), group.framework.as_str(), group.dtype.as_str()) == (gpu, "vllm", "bf16")
            })
        };
        let hopper = of("h100_sxm").unwrap();
        assert!(
            hopper.group.is_fitted && hopper.median_error < 0.08 && hopper.p95_error < 0.2,
            "{hopper:?}"
        );
        assert_eq!(hopper.group.calibration, "h100-sxm-80gb-vllm");
    }

    const HEADER: &str = "gpu,fw,ver,dtype,n,k,m,us,l2_warm\n";

    /// A table of the rows of the shipped one in another order, its columns too, with times as they may be written.
    fn shuffled(keep: impl Fn(&str) -> bool) -> Vec<String> {
        let path = format!("{}/tests/data/kernels/gemm.csv", env!("CARGO_MANIFEST_DIR"));
        let table = std::fs::read_to_string(path).unwrap();
        let rows = table.lines().skip(1).filter(|line| keep(line)).map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let [gpu, fw, ver, dtype, n, k, m, us, warm] = cells[..] else {
                panic!("nine columns: {line}")
            };
            format!("{us}0,{m},{n},{k},{warm},{dtype},{ver},{fw},{gpu}")
        });
        let rows: Vec<String> = rows.collect();
        let header = ["us,m,n,k,l2_warm,dtype,ver,fw,gpu".to_owned()];
        header.into_iter().chain(rows.into_iter().rev()).collect()
    }

    #[test]
    fn rows_that_were_fitted_to_are_known_in_any_file() {
        let is_hopper = |line: &str| line.starts_with("h100_sxm,vllm,0.24.0,bf16,");
        let mut lines = shuffled(is_hopper);
        let of = |lines: &[String]| {
            let mut kernels = Kernels::default();
            kernels.add("t.csv", &(lines.join("\n") + "\n")).unwrap();
            let scores = kernels.scores().into_iter();
            scores
                .map(|score| (score.group.is_fitted, score.rows))
                .collect::<Vec<_>>()
        };
        // The table's decimals without a point would be another number with a nought behind.
        lines.retain(|line| line.split(',').next().unwrap().contains('.') || line.starts_with("us"));
        let all = lines.len() - 1;
        let warm = lines.iter().filter(|line| line.contains(",1,bf16")).count();
        assert_eq!(of(&lines), [(true, all - warm)]);
        let cold = lines.iter().position(|line| line.contains(",0,bf16")).unwrap();
        lines[cold] = lines[cold].replacen(',', "1,", 1).replacen("0", "9", 1);
        assert_eq!(of(&lines), [(false, 1), (true, all - warm - 1)]);
    }

    #[test]
    fn a_row_counts_once_and_impossible_ones_are_told() {
        let row = "h100_sxm,vllm,1,bf16,4096,4096,1,14,0\n";
        let mut kernels = Kernels::default();
        kernels.add("a.csv", &format!("{HEADER}{row}{row}")).unwrap();
        kernels.add("b.csv", &format!("{HEADER}{row}")).unwrap();
        assert_eq!((kernels.rows.len(), kernels.rows_read), (1, 3));
        assert_eq!(kernels.left["the same row again"], 2);
        assert_eq!(kernels.impossible(), 0);
        let in_ms = row.replace(",14,", ",0.014,");
        kernels.add("c.csv", &format!("{HEADER}{in_ms}")).unwrap();
        assert_eq!((kernels.rows.len(), kernels.impossible()), (2, 1));
        assert_eq!(shipped("gemm").impossible(), 0);
        let nothing = row.replace(",1,14,", ",0,14,");
        let error = kernels.add("d.csv", &format!("{HEADER}{nothing}")).unwrap_err();
        assert!(
            error.to_string().starts_with("d.csv, line 2: `m` is 0"),
            "{error}"
        );
    }

    #[test]
    fn a_table_without_gpus_is_of_the_one_that_is_said() {
        let text = "fw,dtype,n,k,m,us,l2_warm\nvllm,bf16,4096,4096,1,14,0\n";
        let mut kernels = Kernels::default();
        kernels.add("a.csv", text).unwrap();
        let reason = "the table has no column `gpu`: --gpu says whose its rows are";
        assert_eq!((kernels.rows.len(), kernels.left[reason]), (0, 1));
        kernels.gpu = Some(hardware::find("H100-SXM-80GB").unwrap().0);
        kernels.add("a.csv", text).unwrap();
        let group = &kernels.rows[0].group;
        assert_eq!((group.gpu.as_str(), group.is_fitted), ("h100_sxm", false));
    }

    #[test]
    fn unknown_cards_frameworks_and_libraries_are_counted() {
        let mut kernels = Kernels::default();
        kernels
            .add(
                "t.csv",
                "gpu,fw,ver,dtype,n,k,m,us,l2_warm\nabacus,vllm,1,bf16,4096,4096,1,10,0\n",
            )
            .unwrap();
        kernels
            .add(
                "c.csv",
                "gpu,impl,ver,op,dtype,gpus,elements,us\nh100_sxm,NCCL,1,all_reduce,bf16,2,512,9\n",
            )
            .unwrap();
        kernels
            .add(
                "f.csv",
                &format!("{HEADER}h100_sxm,tgi,1,bf16,4096,4096,1,10,0\n"),
            )
            .unwrap();
        assert_eq!((kernels.rows.len(), kernels.rows_read), (0, 3));
        assert_eq!(kernels.left.values().sum::<u64>(), 3);
        let unknown = "the framework `tgi` is not known, only vllm, sglang, trtllm";
        assert!(kernels.left.contains_key(unknown), "{:?}", kernels.left);
        assert!(kernels.left.contains_key("the GPU `abacus` is not known"));
        assert!(kernels.add("x.csv", "a,b\n1,2\n").is_err());
    }
}
