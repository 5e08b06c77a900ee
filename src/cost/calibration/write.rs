//! From a [`Calibration`] to the text of a file.

use toml::{Table, Value};

use super::{
    Attention, Calibration, Copies, DecodeAttention, Direction, Gemm, GemmForm, Host, KernelFormat, Moe,
    Occupancy, OccupancyPnorm, PrefillAttention, Rate, Residual, Source,
};
use crate::cost::Trust;
use crate::cost::jitter::JitterLaw;

impl Calibration {
    /// The calibration as a file of schema 1, which [`Calibration::parse`] reads back unchanged.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // One section after the other: a single table would put them in alphabetical order.
        let mut file = String::from("schema = 1\n");
        let mut insert = |key: &str, value: Value, empty: bool| {
            if !empty {
                let section = Table::from_iter([(key.to_owned(), value)]);
                let text = toml::to_string(&section);
                file += "\n";
                file += &text.expect("a table of strings and numbers is always valid");
            }
        };
        insert("provenance", Value::Table(self.provenance_table()), false);
        let gemm = KernelFormat::ALL
            .iter()
            .filter_map(|(format, name)| Some((*name, self.gemm.get(format)?)));
        insert(
            "gemm",
            tables(gemm.map(|(name, gemm)| (name, gemm_table(gemm)))),
            self.gemm.is_empty(),
        );
        if let Some(attention) = &self.attention {
            insert("attention", Value::Table(attention_table(attention)), false);
        }
        let moe = KernelFormat::ALL
            .iter()
            .filter_map(|(format, name)| Some((*name, self.moe.get(format)?)));
        insert(
            "moe",
            tables(moe.map(|(name, moe)| (name, moe_table(moe)))),
            self.moe.is_empty(),
        );
        if let Some(elementwise) = &self.elementwise {
            let mut table = numbers(&[
                ("kernels_per_layer", elementwise.kernels_per_layer),
                ("sampling_kernels", elementwise.sampling_kernels),
                ("floor_us", elementwise.floor_us),
                ("eb", elementwise.bandwidth_efficiency),
            ]);
            trust(&mut table, elementwise.trust);
            insert("elementwise", Value::Table(table), false);
        }
        insert(
            "allreduce",
            all_reduce_list(&self.allreduce),
            self.allreduce.is_empty(),
        );
        let fused = &self.fused_allreduce;
        insert("fused_allreduce", all_reduce_list(fused), fused.is_empty());
        let link = Direction::ALL
            .iter()
            .filter_map(|(direction, name)| Some((*name, self.copies.get(direction)?)));
        insert(
            "host_link",
            tables(link.map(|(name, copies)| (name, copies_table(copies)))),
            self.copies.is_empty(),
        );
        let host = self
            .host
            .iter()
            .map(|(engine, host)| (engine.as_str(), host_table(host)));
        insert("host", tables(host), self.host.is_empty());
        let jitter = self
            .jitter
            .iter()
            .map(|(engine, law)| (engine.as_str(), jitter_table(law)));
        insert("jitter", tables(jitter), self.jitter.is_empty());
        let scale: Vec<(&str, f64)> = self
            .scale
            .iter()
            .map(|(name, factor)| (name.as_str(), *factor))
            .collect();
        insert("scale", Value::Table(numbers(&scale)), scale.is_empty());
        if let Some(evidence) = &self.evidence {
            insert("evidence", evidence.to_value(), false);
        }
        file
    }

    fn provenance_table(&self) -> Table {
        let source = match self.provenance.source {
            Source::Probe => "probe",
            Source::PublicFit => "public-fit",
            Source::Benchmark => "benchmark",
            Source::Prior => "prior",
            Source::Hand => "hand",
            Source::Datasheet => "datasheet",
        };
        let mut table = Table::new();
        let texts = [
            ("source", source),
            ("gpu", &self.provenance.gpu),
            ("date", &self.provenance.date),
            ("credit", &self.provenance.credit),
        ];
        for (key, text) in texts {
            table.insert(key.to_owned(), Value::String(text.to_owned()));
        }
        let notes = self.provenance.notes.iter().cloned().map(Value::String).collect();
        table.insert("notes".to_owned(), Value::Array(notes));
        table
    }
}

fn all_reduce_list(links: &[super::AllReduce]) -> Value {
    let entry = |link: &super::AllReduce| {
        let mut table = numbers(&[("o_us", link.overhead_us), ("bus_gbs", link.bus_gbs)]);
        table.insert("gpus".to_owned(), Value::Integer(i64::from(link.gpus)));
        if let Some(one) = link.one_shot {
            table.extend(numbers(&[
                ("one_shot_gbs", one.gbs),
                ("two_shot_extra_us", one.two_shot_extra_us),
            ]));
        }
        trust(&mut table, link.trust);
        Value::Table(table)
    };
    Value::Array(links.iter().map(entry).collect())
}

fn tables<'a>(entries: impl Iterator<Item = (&'a str, Table)>) -> Value {
    Value::Table(
        entries
            .map(|(name, table)| (name.to_owned(), Value::Table(table)))
            .collect(),
    )
}

fn numbers(entries: &[(&str, f64)]) -> Table {
    entries
        .iter()
        .map(|(key, number)| ((*key).to_owned(), Value::Float(*number)))
        .collect()
}

fn jitter_table(law: &JitterLaw) -> Table {
    numbers(&[
        ("cv", law.cv),
        ("stalls_per_s", law.stalls_per_s),
        ("stall_ms", 1e3 * law.stall.seconds()),
    ])
}

fn trust(table: &mut Table, trust: Trust) {
    let word = match trust {
        Trust::Measured => "measured",
        Trust::Calibrated => "calibrated",
        Trust::Prior => "prior",
        Trust::RooflineOnly => "roofline",
        Trust::Doubtful => "doubtful",
    };
    table.insert("trust".to_owned(), Value::String(word.to_owned()));
}

fn residual(table: &mut Table, residual: &Residual) {
    let entries = [
        ("residual_median_pct", residual.median_pct),
        ("residual_p95_pct", residual.p95_pct),
        ("sigma_ln", residual.sigma_ln),
    ];
    for (key, number) in entries {
        if let Some(number) = number {
            table.insert(key.to_owned(), Value::Float(number));
        }
    }
}

fn gemm_table(gemm: &Gemm) -> Table {
    let (model, mut table) = match &gemm.form {
        GemmForm::OccupancyPnorm(form) => ("occupancy-pnorm", occupancy_table(form)),
        GemmForm::C5(form) => {
            let entries = [
                ("p_tflops", form.p_tflops),
                ("w_gbs", form.w_gbs),
                ("t0_us", form.t0_us),
                ("pnorm", form.pnorm),
                ("kappa_ns", form.kappa_ns),
            ];
            ("C5", numbers(&entries))
        }
    };
    table.insert("model".to_owned(), Value::String(model.to_owned()));
    table.extend(numbers(&[("sustained_over_burst", gemm.sustained_over_burst)]));
    residual(&mut table, &gemm.residual);
    trust(&mut table, gemm.trust);
    table
}

fn occupancy_table(form: &OccupancyPnorm) -> Table {
    let mut table = numbers(&[
        ("ec", form.compute_efficiency),
        ("eb", form.bandwidth_efficiency),
        ("o_us", form.overhead_us),
        ("pnorm", form.pnorm),
        ("a", form.occupancy_exponent),
        ("q0_us", form.quantize_us),
        ("q1", form.quantize_passes),
        ("fill_k", form.fill_k),
        ("long_over_burst", form.long_over_burst),
    ]);
    let occupancy = match form.occupancy {
        Occupancy::Smooth => "smooth",
        Occupancy::Wave => "wave",
    };
    table.insert("occupancy".to_owned(), Value::String(occupancy.to_owned()));
    let tile = [form.tile.0, form.tile.1].map(|size| Value::Integer(i64::from(size)));
    table.insert("tile".to_owned(), Value::Array(tile.to_vec()));
    table
}

fn moe_table(moe: &Moe) -> Table {
    let mut table = numbers(&[
        ("ec", moe.compute_efficiency),
        ("eb", moe.bandwidth_efficiency),
        ("o_us", moe.overhead_us),
        ("pnorm", moe.pnorm),
        ("padding_rows", moe.padding_rows),
        ("per_expert_us", moe.per_expert_us),
        ("rereads", moe.rereads),
    ]);
    if let Some(moved) = moe.moved {
        table.extend(numbers(&[
            ("moved_passes", moved.passes),
            ("foreign_share", moved.foreign_share),
        ]));
    }
    residual(&mut table, &moe.residual);
    trust(&mut table, moe.trust);
    table
}

fn attention_table(attention: &Attention) -> Table {
    let mut table = decode_table(&attention.decode);
    let mut fp8_kv = decode_table(&attention.decode_fp8_kv);
    if attention.prefill_fp8_kv != attention.prefill {
        fp8_kv.extend(prefill_table(&attention.prefill_fp8_kv));
    }
    table.insert("fp8_kv".to_owned(), Value::Table(fp8_kv));
    if let Some(prefill) = &attention.prefill_fp8_query {
        table.insert("fp8_query".to_owned(), Value::Table(prefill_table(prefill)));
    }
    table.extend(prefill_table(&attention.prefill));
    trust(&mut table, attention.trust);
    table
}

fn prefill_table(prefill: &PrefillAttention) -> Table {
    numbers(&[
        ("prefill_o_us", prefill.overhead_us),
        match prefill.compute {
            Rate::Share(share) => ("prefill_ec", share),
            Rate::Absolute(rate) => ("prefill_tflops", rate / 1e12),
        },
        match prefill.bandwidth {
            Rate::Share(share) => ("prefill_eb", share),
            Rate::Absolute(rate) => ("prefill_gbs", rate / 1e9),
        },
        ("prefill_tail", prefill.tail),
        ("prefill_resident", prefill.resident_share),
        ("prefill_token_ns", prefill.per_token_ns),
    ])
}

fn copies_table(copies: &Copies) -> Table {
    numbers(&[
        ("alpha_us", copies.alpha_us),
        ("per_copy_us", copies.per_copy_us),
        ("gbs", copies.gbs),
    ])
}

fn decode_table(decode: &DecodeAttention) -> Table {
    let bandwidth = match decode.bandwidth {
        Rate::Share(share) => ("decode_eb", share),
        Rate::Absolute(rate) => ("w_att_gbs", rate / 1e9),
    };
    numbers(&[
        ("t0_us", decode.t0_us),
        ("per_seq_head_ns", decode.per_seq_head_ns),
        ("per_query_head_ns", decode.per_query_head_ns),
        ("row_ns", decode.row_ns),
        ("per_token_ns", decode.per_token_ns),
        bandwidth,
    ])
}

fn host_table(host: &Host) -> Table {
    let mut table = numbers(&[
        ("step_us", host.step_us),
        ("per_seq_us", host.per_seq_us),
        ("async_gap_us", host.async_gap_us),
        ("async_gap_per_seq_us", host.async_gap_per_seq_us),
        ("async_floor_us", host.async_floor_us),
        ("async_floor_per_seq_us", host.async_floor_per_seq_us),
        ("eager_launch_us", host.eager_launch_us),
        ("eager_dispatch_us", host.eager_dispatch_us),
        ("eager_kernels_per_layer", host.eager_kernels_per_layer),
        ("piecewise_us_per_layer", host.piecewise_us_per_layer),
        ("request_ms", host.request_ms),
        ("request_serial_ms", host.request_serial_ms),
        ("per_prompt_token_us", host.per_prompt_token_us),
        ("per_output_token_us", host.per_output_token_us),
        ("response_ms", host.response_ms),
    ]);
    trust(&mut table, host.trust);
    table
}

#[cfg(test)]
mod tests {
    use super::super::{shipped, shipped_names};
    use super::*;

    #[test]
    fn what_was_written_reads_back_the_same() {
        for name in shipped_names() {
            let calibration = shipped(name).expect("a shipped name");
            let again =
                Calibration::parse(name, &calibration.to_toml()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again, calibration);
        }
    }
}
