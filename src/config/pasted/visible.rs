//! GPUs that the environment before a pasted command shows its server, and those that the server needs.
//!
//! Left out: servers over several machines, each of which has an environment of its own.

use crate::config::diagnostic::{Diagnostic, Place};
use crate::config::flags::ScenarioFlags;

/// Settings that hide GPUs from a server.
const VISIBLE: [&str; 3] = [
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
];

/// A server that asks for more GPUs than its environment shows it, and does not start. One over several machines has others.
pub(super) fn too_few(
    flags: &ScenarioFlags,
    settings: &[(String, String)],
    (words, engine): (&[String], &str),
    flag: &str,
) -> Option<Diagnostic> {
    const OVER_MACHINES: [&str; 5] = [
        "ray",
        "--nnodes",
        "--node-rank",
        "--data-parallel-address",
        "--dist-init-addr",
    ];
    let (setting, visible) = visible_gpus(settings)?;
    let is_over_machines = |word: &String| {
        OVER_MACHINES
            .iter()
            .any(|known| word.split('=').any(|part| part == *known))
    };
    if words.iter().any(is_over_machines) {
        return None;
    }
    let sizes = [
        ("-tp", flags.server.machines.cluster.tensor_parallel_size),
        ("-pp", flags.server.machines.cluster.pipeline_parallel_size),
        // SGLang's engines may share the GPUs of a group.
        (
            "-dp",
            flags
                .server
                .machines
                .cluster
                .data_parallel_size
                .filter(|_| engine != "sglang"),
        ),
    ];
    let given = sizes.into_iter().filter_map(|(name, size)| Some((name, size?.0)));
    let given: Vec<(&str, u64)> = given.collect();
    let asked = given.iter().map(|(_, size)| *size).fold(1, u64::saturating_mul);
    if asked <= visible {
        return None;
    }
    let by = given.iter().filter(|(_, size)| *size > 1);
    let by: Vec<String> = by.map(|(name, size)| format!("{name} {size}")).collect();
    let needs = match by.as_slice() {
        [] => "the server needs 1".to_owned(),
        by => format!("`{}` needs {asked}", by.join(" ")),
    };
    let are = if visible == 1 { "GPU is" } else { "GPUs are" };
    let problem = format!(
        "in {flag}: with `{setting}` {visible} {are} visible, and {needs}: the server does not start"
    );
    Some(
        Diagnostic::new(problem)
            .at(Place::Flag(flag.to_string()))
            .help("name as many GPUs there as the server needs, or leave the setting out"),
    )
}

/// The setting that leaves a server the fewest GPUs, and how many: `CUDA_VISIBLE_DEVICES=0,1`, 2. Nothing where none hides any.
fn visible_gpus(settings: &[(String, String)]) -> Option<(String, u64)> {
    let hiding = VISIBLE.iter().filter_map(|&name| {
        let (_, value) = settings.iter().rev().find(|(known, _)| known == name)?;
        let value = value.trim();
        // What is a variable of a shell, or all of them, says no number.
        let is_list = !value.contains('$') && value != "all";
        // CUDA stops at the first that is none.
        let devices = value.split(',').map(str::trim);
        let devices = devices.take_while(|device| !["", "-1", "none", "void", "NoDevFiles"].contains(device));
        is_list.then(|| (format!("{name}={value}"), devices.count() as u64))
    });
    hiding.min_by_key(|(_, gpus)| *gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_gpus_are_counted_as_cuda_does() {
        let count = |value: &str| {
            let setting = ("CUDA_VISIBLE_DEVICES".to_owned(), value.to_owned());
            visible_gpus(&[setting]).map(|(_, gpus)| gpus)
        };
        for (value, expected) in [
            ("0,1", Some(2)),
            ("3", Some(1)),
            ("GPU-8932f937, GPU-1a2b3c4d", Some(2)),
            ("0,-1,1", Some(1)),
            ("", Some(0)),
            ("$GPUS", None),
        ] {
            assert_eq!(count(value), expected, "{value}");
        }
        assert_eq!(visible_gpus(&[("HF_HOME".into(), "/models".into())]), None);
    }
}
