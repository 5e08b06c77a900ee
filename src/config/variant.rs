//! One variant of a comparison: a name, a scenario and flags, each of which may be left out, upon what all have in common.
//!
//! `"--schedule-policy lpm"`, `"cold: prefix-cold"`, `"small: --max-num-batched-tokens 512"`. A scenario or model in front
//! of the flags takes the place of the common one; flags replace common ones, as a flag that is given again does.

use clap::{CommandFactory, FromArgMatches, Parser};

use super::argv;
use super::assemble::{Assembled, assemble, is_scenario, overlay};
use super::diagnostic::{Diagnostic, Diagnostics, Place, SWEPT};
use super::document::{Document, Source};
use super::files::Files;
use super::flags::ScenarioFlags;

/// What a variant says.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The name it gives itself.
    pub name: Option<String>,
    /// The rest.
    pub words: Vec<String>,
}

impl Said {
    /// Takes a variant's text apart.
    ///
    /// # Errors
    /// A quote that does not end.
    pub fn parse(text: &str) -> Result<Said, Diagnostic> {
        let Some(mut words) = shlex::split(text) else {
            let problem = Diagnostic::new(format!("the variant `{text}` has a quote that does not end"));
            return Err(problem.at(Place::Flag("VARIANT".to_owned())));
        };
        // A name of several words ends in a colon, too.
        let before_flags = words.iter().take_while(|word| !word.starts_with('-'));
        let end = before_flags
            .enumerate()
            .find(|(_, word)| word.ends_with(':'))
            .map(|(at, _)| at + 1);
        let name = end
            .map(|end| words[..end].join(" "))
            .map(|name| name[..name.len() - 1].to_owned());
        if name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            let problem = Diagnostic::new(format!("the variant `{}` has an empty name", text.trim()))
                .help("write a word before the colon, `small: --max-num-seqs 8`, or leave the colon out");
            return Err(problem.at(Place::Flag("VARIANT".to_owned())));
        }
        words.drain(..end.unwrap_or(0));
        Ok(Said { name, words })
    }

    /// Its flags.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn flags(&self) -> Result<ScenarioFlags, Diagnostics> {
        parse(&self.words)
    }

    /// What it is called: its name, or its flags.
    #[must_use]
    pub fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.words.join(" "))
    }
}

#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    flags: ScenarioFlags,
}

/// Layers a variant over what all have in common.
///
/// # Errors
/// Everything that is wrong with it.
pub fn variant(common: &ScenarioFlags, said: &Said, files: &dyn Files) -> Result<Assembled, Diagnostics> {
    let own = parse(&said.words)?;
    let either = |own: &Option<String>, common: &Option<String>| own.clone().or_else(|| common.clone());
    let names_another = own.target.is_some() || own.scenario.is_some();
    if let Some(target) = &own.target
        && own.scenario.is_none()
        && !is_scenario(target)
        && (common.scenario.is_some() || common.target.as_deref().is_some_and(is_scenario))
        && own.server.machines.cluster.gpu.is_none()
        && common.server.machines.cluster.gpu.is_none()
    {
        let problem = Diagnostic::new(format!(
            "in the variant `{}`: there is no scenario `{target}`",
            said.words.join(" ")
        ))
        .at(Place::Flag("VARIANT".to_owned()))
        .help(format!("a model goes behind --model: `--model {target}`"));
        let is_bare = said.name.is_none() && !target.contains('/');
        let named = format!("a name has a colon, and flags behind it: `{target}: --max-num-seqs 8`");
        return Err(if is_bare { problem.help(named) } else { problem }.into());
    }
    let base = ScenarioFlags {
        target: if names_another {
            own.target.clone()
        } else {
            common.target.clone()
        },
        scenario: if names_another {
            own.scenario.clone()
        } else {
            common.scenario.clone()
        },
        serve_cmd: either(&own.serve_cmd, &common.serve_cmd),
        bench_cmd: either(&own.bench_cmd, &common.bench_cmd),
        ..common.clone()
    };
    let mut input = assemble(&base, files)?;
    let problems = overlay(&mut input.document, &own);
    if problems.is_empty() {
        Ok(input)
    } else {
        Err(Diagnostics(problems))
    }
}

/// Puts the flags of a variant upon a command, with nothing else in it, of which axes have set a part.
///
/// # Errors
/// Everything that is wrong with them; a scenario, model or pasted command among them; and what an axis sets, too.
pub fn put(document: &mut Document, said: &Said) -> Result<(), Diagnostics> {
    let called = said.called();
    let own = parse(&said.words)?;
    let whole = [&own.target, &own.scenario, &own.serve_cmd, &own.bench_cmd];
    if let Some(base) = whole.into_iter().flatten().next() {
        let problem = Diagnostic::new(format!("the variant `{called}` names `{base}`"))
            .at(Place::Flag("--variant".to_owned()))
            .help("flags alone tell variants of one sweep apart, a model by --model; `plimsoll compare` takes other scenarios, too");
        return Err(problem.into());
    }
    let swept: Vec<(String, String)> = document
        .set_by(SWEPT)
        .into_iter()
        .map(|(key, axis, _)| (key, axis))
        .collect();
    let mut problems = overlay(document, &own);
    for (key, axis) in swept {
        let is_kept = matches!(document.source(&key), Some(Source::Flag(by)) if by == axis);
        if !is_kept {
            let axis = axis.trim_start_matches(SWEPT).trim_start_matches('-');
            let problem = Diagnostic::new(format!(
                "the variant `{called}` sets `{axis}`, which is swept over, too"
            ));
            let problem = problem.at(Place::Flag("--variant".to_owned()));
            problems.push(problem.help("leave it out of the variant, or leave the axis out"));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Diagnostics(problems)),
    }
}

fn parse(words: &[String]) -> Result<ScenarioFlags, Diagnostics> {
    let normal = argv::normalise(words);
    if !normal.problems.is_empty() {
        return Err(Diagnostics(normal.problems));
    }
    let rules = argv::last_wins(Flags::command(), argv::Replaced::All);
    let parsed = rules
        .try_get_matches_from(normal.args)
        .and_then(|matches| Flags::from_arg_matches(&matches));
    parsed.map(|Flags { flags }| flags).map_err(|error| {
        let within = format!("the variant `{}`", words.join(" "));
        argv::unparsable(&error, &within, Place::Flag("VARIANT".to_owned())).into()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{NoFiles, resolve};
    use super::*;

    #[test]
    fn a_name_ends_in_a_colon() {
        assert!(Said::parse(": --max-num-seqs 8").is_err());
        assert_eq!(Said::parse("a: x").unwrap().name.as_deref(), Some("a"));
        let two = Said::parse("2xtp2 ph: prefix-cold -tp 2").unwrap();
        assert_eq!(two.name.as_deref(), Some("2xtp2 ph"));
        assert_eq!(two.words, ["prefix-cold", "-tp", "2"]);
        let told = resolved("quickstart", "graphs").err().unwrap().to_string();
        assert!(
            told.contains("a name has a colon, and flags behind it: `graphs: --"),
            "{told}"
        );
    }

    fn resolved(common: &str, text: &str) -> Result<crate::config::Resolved, Diagnostics> {
        let words = shlex::split(common).unwrap();
        let common = parse(&words)?;
        let input = variant(&common, &Said::parse(text)?, &NoFiles)?;
        resolve(input.document, &NoFiles)
    }

    #[test]
    fn a_variant_is_the_scenario_with_its_flags() {
        let base = resolved("prefix-warm --request-rate 2", "").unwrap();
        let other = resolved("prefix-warm --request-rate 2", "off: --no-enable-prefix-caching").unwrap();
        assert_eq!(base.scenario.workload, other.scenario.workload);
        assert!(
            base.scenario.first_pool().engine.caches_prefixes()
                && !other.scenario.first_pool().engine.caches_prefixes()
        );
        assert!((base.request_rate() - 2.0).abs() < 1e-12);
        let [tree, chain] = ["", "--engine vllm@0.33"].map(|text| resolved("radix-cache", text).unwrap());
        assert!(
            tree.scenario.first_pool().engine.vllm().is_none()
                && chain.scenario.first_pool().engine.vllm().is_some()
        );
        assert_eq!(tree.scenario.workload, chain.scenario.workload);
    }

    #[test]
    fn a_variant_may_be_another_scenario_under_the_common_flags() {
        let cold = resolved("prefix-warm --request-rate 2", "cold: prefix-cold").unwrap();
        assert_eq!(cold.scenario.workload.prefix, crate::workload::Prefix::None);
        assert!((cold.request_rate() - 2.0).abs() < 1e-12);
        assert_eq!(
            Said::parse("cold: prefix-cold").unwrap().name.as_deref(),
            Some("cold")
        );
    }

    #[test]
    fn what_is_wrong_names_the_variant() {
        let message = |text: &str| {
            resolved("prefix-warm", text).map_or_else(|error| error.to_string(), |_| String::new())
        };
        assert!(
            message("--max-num-seq 3").contains("in the variant `--max-num-seq 3`"),
            "{}",
            message("--max-num-seq 3")
        );
        assert!(message("--cpu-offload-gb 4").contains("is not supported"));
        assert!(message("'--engine").contains("a quote that does not end"));
    }

    #[test]
    fn a_name_that_is_no_scenario_beside_one_is_told_as_such() {
        let told = |text: &str| {
            let problems = resolved("quickstart", text).err().unwrap();
            (problems.0.len(), problems.to_string())
        };
        for name in ["Qwen/Qwen3-8B", "nosuchscenario"] {
            let (count, text) = told(&format!("q: {name}"));
            assert_eq!(count, 1, "{text}");
            assert!(text.contains(&format!("there is no scenario `{name}`")), "{text}");
            assert!(
                text.contains(&format!("a model goes behind --model: `--model {name}`")),
                "{text}"
            );
        }
        let swapped = resolved("quickstart", "q: --model Qwen/Qwen3-8B").unwrap();
        assert_eq!(swapped.model.name, "Qwen/Qwen3-8B");
    }
}
