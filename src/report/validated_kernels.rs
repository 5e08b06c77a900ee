//! How far the shipped calibrations are from kernel tables, as text, Markdown, JSON and CSV.

use serde_json::{Value, json};

use super::chart::{Picture, Scatter, validation};
use super::figures::{self, percent, signed_percent};
use super::page::{folded, table_on};
use super::tables::{Column, markdown};
use super::validated::quoted;
use crate::stats::quantile;
use crate::validate::kernels::{KernelRow, KernelScore, Kernels};

/// The answer in one line.
#[must_use]
pub fn answer(kernels: &Kernels) -> String {
    if kernels.rows.is_empty() {
        return format!("none of {} kernel rows can be modelled", kernels.rows_read);
    }
    let of = |(kind, median): &(String, f64)| format!("{kind} {}", percent(*median));
    let medians: Vec<String> = kernels.medians().iter().map(of).collect();
    format!(
        "median error over {} of {} kernel rows: {}",
        kernels.rows.len(),
        kernels.rows_read,
        medians.join(", ")
    )
}

/// What is wrong with rows that were scored all the same.
fn doubt(kernels: &Kernels) -> Option<String> {
    let rows = match kernels.impossible() {
        0 => return None,
        1 => "1 row is".to_owned(),
        more => format!("{more} rows are"),
    };
    Some(format!(
        "{rows} faster than the GPU's peak allows: are times in µs, and of this GPU?"
    ))
}

fn laid_out(kernels: &Kernels) -> (Vec<Column>, Vec<Vec<String>>) {
    let columns = vec![
        Column::left("GPU"),
        Column::left("framework"),
        Column::left("kernel"),
        Column::left("dtype"),
        Column::right("rows"),
        Column::right("median"),
        Column::right("p95"),
        Column::right("bias"),
        Column::left("calibration"),
    ];
    let cells = |score: &KernelScore| {
        let group = &score.group;
        let mark = if group.is_fitted { " [fitted]" } else { "" };
        vec![
            group.gpu.clone(),
            group.framework.clone(),
            group.kernel.clone(),
            group.dtype.clone(),
            score.rows.to_string(),
            percent(score.median_error),
            percent(score.p95_error),
            signed_percent(score.bias),
            format!("{}{mark}", group.calibration),
        ]
    };
    (columns, kernels.scores().iter().map(cells).collect())
}

/// The scores for people, within the columns of a screen if there is one.
#[must_use]
pub fn text(kernels: &Kernels, width: Option<usize>) -> String {
    let (columns, rows) = laid_out(kernels);
    let left: String = kernels
        .left
        .iter()
        .map(|(reason, number)| format!("  {number:>4}  {reason}\n"))
        .collect();
    let left = if left.is_empty() {
        left
    } else {
        format!("\nleft, {} rows\n{left}", kernels.left.values().sum::<u64>())
    };
    let doubt = doubt(kernels).map_or(String::new(), |doubt| format!("DOUBTFUL: {doubt}\n"));
    let text = format!(
        "{}\n{doubt}\n{}{left}\n[fitted]: the calibration was fitted to these very rows; residuals, not a test\n",
        answer(kernels),
        table_on(&columns, &rows, 1, width)
    );
    folded(&text, width)
}

/// Kinds of kernels as a chart names them, one panel each.
const KINDS: [&str; 6] = [
    "products in 16 bits",
    "products in 8 and 4 bits",
    "decode attention",
    "prefill attention",
    "routed experts",
    "all-reduce",
];

fn kind(row: &KernelRow) -> Option<&'static str> {
    let group = &row.group;
    let index = match group.kernel.as_str() {
        "gemm" if group.dtype == "bf16" => 0,
        "gemm" => 1,
        "attention.decode" => 2,
        "attention.prefill" => 3,
        "moe" => 4,
        name if name.starts_with("allreduce") => 5,
        _ => return None,
    };
    Some(KINDS[index])
}

/// Predicted against measured times, a panel a kind of kernel.
#[must_use]
pub fn chart(kernels: &Kernels) -> Picture {
    let scatter = |name: &&'static str| {
        let rows: Vec<&KernelRow> = kernels
            .rows
            .iter()
            .filter(|row| kind(row) == Some(*name))
            .collect();
        let errors: Vec<f64> = rows.iter().map(|row| row.error().abs()).collect();
        let at = |p: f64| percent(quantile(&errors, p).unwrap_or(0.0));
        let points = rows.iter().map(|row| {
            (
                1e-6 * row.measured_us,
                1e-6 * row.predicted_us,
                row.group.is_fitted,
            )
        });
        Scatter {
            name: (*name).to_owned(),
            is_time: true,
            points: points.collect(),
            spread: Some(format!(
                "{} kernels, half within {}\n95 of 100 within {}",
                figures::count(rows.len() as u64),
                at(0.5),
                at(0.95)
            )),
        }
    };
    let scatters: Vec<Scatter> = KINDS
        .iter()
        .map(scatter)
        .filter(|scatter| !scatter.points.is_empty())
        .collect();
    let errors: Vec<f64> = kernels.rows.iter().map(|row| row.error().abs()).collect();
    let fitted = kernels.rows.iter().filter(|row| row.group.is_fitted).count();
    let verb = if 2 * fitted > errors.len() {
        "reproduced"
    } else {
        "predicted"
    };
    let title = quantile(&errors, 0.5).map_or("No kernel can be modelled".to_owned(), |median| {
        format!("Half of all kernels are {verb} within {}", percent(median))
    });
    let subject = format!(
        "{} of {} rows against the shipped calibrations, {} of them fitted to (purple); lines beside the diagonal: ±25 %",
        figures::count(kernels.rows.len() as u64),
        figures::count(kernels.rows_read),
        figures::count(fitted as u64),
    );
    validation(&title, &subject, &scatters)
}

/// The scores as a Markdown table.
#[must_use]
pub fn md(kernels: &Kernels) -> String {
    let (columns, rows) = laid_out(kernels);
    let mut text = format!("{}.\n\n{}", answer(kernels), markdown(&columns, &rows));
    if let Some(doubt) = doubt(kernels) {
        text.push_str(&format!("\n* {doubt}"));
    }
    for (reason, number) in &kernels.left {
        text.push_str(&format!("\n* {number} rows left: {reason}"));
    }
    text.trim_end().to_owned() + "\n"
}

/// The scores and what was left.
#[must_use]
pub fn object(kernels: &Kernels) -> Value {
    let scores: Vec<Value> = kernels
        .scores()
        .iter()
        .map(|score| {
            let group = &score.group;
            json!({
                "gpu": group.gpu, "framework": group.framework, "kernel": group.kernel, "dtype": group.dtype,
                "calibration": group.calibration, "is_fitted": group.is_fitted, "rows": score.rows,
                "median_error": score.median_error, "p95_error": score.p95_error, "bias": score.bias,
            })
        })
        .collect();
    json!({
        "answer": answer(kernels),
        "rows": kernels.rows_read,
        "modelled": kernels.rows.len(),
        "impossible": kernels.impossible(),
        "scores": scores,
        "not_modelled": kernels.left,
    })
}

/// A line for every row that was predicted.
#[must_use]
pub fn csv(kernels: &Kernels) -> String {
    let mut lines =
        vec!["gpu,framework,kernel,dtype,calibration,shape,measured_us,predicted_us,error".to_owned()];
    lines.extend(kernels.rows.iter().map(|row| {
        let group = &row.group;
        format!(
            "{},{},{},{},{},{},{},{},{}",
            quoted(&group.gpu),
            quoted(&group.framework),
            group.kernel,
            group.dtype,
            quoted(&group.calibration),
            quoted(&row.shape),
            row.measured_us,
            row.predicted_us,
            row.error()
        )
    }));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_panel_for_each_kind_that_is_there_and_says_whether_it_was_fitted() {
        let mut kernels = Kernels::default();
        for file in ["gemm", "attn_prefill"] {
            let path = format!("{}/tests/data/kernels/{file}.csv", env!("CARGO_MANIFEST_DIR"));
            kernels
                .add(file, &std::fs::read_to_string(path).unwrap())
                .unwrap();
        }
        let picture = chart(&kernels);
        assert!(
            picture
                .title
                .starts_with("Half of all kernels are reproduced within")
        );
        let svg = picture.svg();
        assert_eq!(svg, chart(&kernels).svg());
        let panels = KINDS.iter().filter(|kind| svg.contains(*kind)).count();
        assert_eq!(panels, 3, "products in 16 bits, narrower ones, prefill attention");
        assert!(!text(&kernels, None).contains("DOUBTFUL"));
        for row in &mut kernels.rows {
            row.group.is_fitted = false;
            row.is_impossible = true;
        }
        let doubt = format!(
            "DOUBTFUL: {} rows are faster than the GPU's peak allows",
            kernels.rows.len()
        );
        assert!(text(&kernels, None).lines().nth(1).unwrap().starts_with(&doubt));
        assert!(chart(&kernels).title.contains("are predicted within"));
        assert_eq!(chart(&Kernels::default()).title, "No kernel can be modelled");
    }
}
