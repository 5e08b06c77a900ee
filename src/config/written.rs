//! The input of a run with everything that it depends on spelt out.

use super::assumed;
use super::resolve::Resolved;
use super::rooted::{self, Rooted};

/// The input that reproduces a run to the last bit with this version, in any folder: every assumed value is written out, and
/// every file is named from the root.
#[must_use]
pub fn resolved_toml(resolved: &Resolved) -> String {
    written(resolved, &resolved.rooted)
}

/// The same with files named as they were given: what tells inputs apart, wherever their folder lies.
#[must_use]
pub fn resolved_as_given(resolved: &Resolved) -> String {
    written(resolved, &[])
}

fn written(resolved: &Resolved, rooted: &[Rooted]) -> String {
    let said = |sentences: &[String]| -> Vec<String> {
        sentences
            .iter()
            .map(|sentence| rooted::said(sentence, rooted))
            .collect()
    };
    let mut text = format!(
        "# Everything that this run depends on; plimsoll {} reproduces it from this file.\n",
        env!("CARGO_PKG_VERSION")
    );
    let scenario = &resolved.scenario;
    for (pool, server) in scenario.pools.iter().zip(&resolved.servers) {
        let name = match pool.name.as_str() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        text += &format!(
            "# {name}{} on {}: {} KV blocks of {} tokens; step time by {}\n",
            server.model.name,
            server.device.id,
            pool.engine.num_gpu_blocks(),
            pool.engine.block_size(),
            server.calibration.name
        );
    }
    text.push('\n');
    text += &assumed::written(resolved.assumptions());
    text += &assumed::told(
        "ignored",
        "What the first command line said without effect.",
        &said(&resolved.ignored),
    );
    text += &assumed::told(
        "notes",
        "What else was said beside its result.",
        &said(&resolved.other_notes()),
    );
    text += &toml::to_string(&rooted::spelt_out(resolved.document.table(), rooted))
        .expect("a table that was read from TOML can be written as TOML");
    text
}
