//! What was believed of the host's terms, beside where a fit has put them.

use crate::calibrate::solve::Parameter;

/// How near, relative to it, a term is to an end that it lies at.
const AT_END: f64 = 1e-3;
/// Distance from what is believed, in its standard deviations, above which the belief was of other hosts.
const SURPRISE: f64 = 2.0;

/// Terms that add up in one step: if all runs are of one load, only their priors tell them apart.
const ADDED: [[&str; 2]; 2] = [
    ["step_us", "per_seq_us"],
    ["async_gap_us", "async_gap_per_seq_us"],
];

/// The priors as they should have been, now that the best values are known: where one lies far from its prior, that prior was too
/// narrow by as much, and so was that of the term that it is added to.
pub(super) fn surprised(parameters: &[Parameter], values: &[f64]) -> Vec<Parameter> {
    let distance = |name: &str| {
        let at = parameters.iter().position(|parameter| parameter.name == name)?;
        let (parameter, value) = (&parameters[at], values[at]);
        Some(parameter.apart(value, parameter.prior))
    };
    let widened = |parameter: &Parameter| {
        let added = ADDED.iter().find(|pair| pair.contains(&parameter.name));
        let alone = [parameter.name];
        let together: &[&str] = added.map_or(&alone, |pair| pair);
        let distances = together.iter().filter_map(|name| distance(name));
        let furthest = distances.fold(0.0, f64::max);
        Parameter {
            sd: parameter.sd * if furthest > SURPRISE { furthest } else { 1.0 },
            ..parameter.clone()
        }
    };
    parameters.iter().map(widened).collect()
}

/// Terms that lie at an end of what is possible.
pub(super) fn at_ends(parameters: &[Parameter], values: &[f64]) -> Vec<&'static str> {
    let is_at_end = |(parameter, value): &(&Parameter, &f64)| {
        let share = |end: f64| (**value / end - 1.0).abs();
        share(parameter.low).min(share(parameter.high)) <= AT_END
    };
    let stuck = parameters.iter().zip(values).filter(is_at_end);
    stuck.map(|(parameter, _)| parameter.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_belief_that_was_far_off_is_held_less_firmly() {
        let gap = Parameter::factor("async_gap_us", (10.0, 3000.0), 100.0, 0.5);
        let per_seq = Parameter::factor("async_gap_per_seq_us", (0.5, 200.0), 24.0, 0.5);
        let terms = [gap, per_seq];
        let widths = |values: [f64; 2]| {
            surprised(&terms, &values)
                .iter()
                .map(|of| of.sd)
                .collect::<Vec<f64>>()
        };
        assert_eq!(widths([150.0, 30.0]), [0.5, 0.5]);
        // ln 4 is 2.77 times 0.5.
        let wide = widths([150.0, 96.0]);
        assert!(wide.iter().all(|sd| (sd - 4f64.ln()).abs() < 1e-12), "{wide:?}");
        assert_eq!(at_ends(&terms, &[3000.0, 96.0]), ["async_gap_us"]);
        assert_eq!(at_ends(&terms, &[2990.0, 0.5]), ["async_gap_per_seq_us"]);
    }
}
