//! All-reduces, alone and with the norms behind them.

use super::*;
use crate::cost::Part;

#[test]
fn a_fused_all_reduce_takes_the_norm_in() {
    let seconds = |tokens: u32, fused_norms: Option<u64>, operator: &str| {
        let placement = Placement {
            tensor_parallel: 8,
            fused_norms,
            ..placement()
        };
        let load = decode_load(tokens, u64::from(tokens) * 1000, 1000);
        let parts = cost("b200", &placement).breakdown(&load).parts;
        let of = |part: &&Part| part.operator == operator;
        parts.iter().find(of).map_or(0.0, |part| part.seconds)
    };
    let table = crate::cost::calibration::shipped("b200-sxm-180gb-trtllm").expect("it ships");
    let link = table
        .allreduce
        .iter()
        .find(|link| link.gpus == 8)
        .expect("it ships");
    // 32 layers of two halves, and the embedding; a norm is a kernel of 2 us.
    let reductions = 65.0;
    let one = crate::cost::kernel::all_reduce_seconds(link, 64.0 * 8192.0);
    let fused = seconds(64, Some(64), "all_reduce");
    assert!((fused - reductions * one).abs() < 1e-9, "{fused}");
    let norms = seconds(64, None, "elementwise") - seconds(64, Some(64), "elementwise");
    assert!((norms - reductions * 2e-6).abs() < 1e-9, "{norms}");
    // A larger step has them apart.
    for operator in ["all_reduce", "elementwise"] {
        assert_eq!(seconds(65, Some(64), operator), seconds(65, None, operator));
    }
}
