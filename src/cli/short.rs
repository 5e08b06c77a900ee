//! `-h`: one screen with the flags that matter first; `--help` has all of them.

use clap::Command;

/// Commands with hundreds of flags.
const LONG: [&str; 6] = ["fit", "run", "knee", "size", "sweep", "compare"];

/// The flags that a first run, a first knee and a first sweep need, but for those that a command refuses.
const FIRST: [&str; 29] = [
    "gpu",
    "tensor-parallel-size",
    "replicas",
    "engine",
    "quantization",
    "max-model-len",
    "max-num-seqs",
    "request-rate",
    "max-concurrency",
    "num-prompts",
    "input-len",
    "output-len",
    "trace",
    "goodput",
    "serve-cmd",
    "bench-cmd",
    "list",
    "for-rate",
    "users",
    "think-time",
    "gpus",
    "spare",
    "prices",
    "why",
    "columns",
    "charts",
    "output",
    "format",
    "help",
];

/// Examples that are shown.
const EXAMPLES: usize = 3;

/// The command with a short help of one screen.
pub(super) fn with_short_help(cli: Command) -> Command {
    LONG.into_iter()
        .fold(cli, |cli, name| cli.mut_subcommand(name, shortened))
}

/// Bytes of a clause that says something: the commands that a flag is of do not.
const SHORTEST: usize = 12;

/// The first clause of a flag's help.
fn first(told: &str) -> &str {
    let ends = ["; ", ". ", ": ", " ("];
    let found = ends.iter().filter_map(|end| told.find(end));
    let end = found.filter(|at| *at >= SHORTEST).min();
    &told[..end.unwrap_or(told.len())]
}

fn shortened(command: Command) -> Command {
    let name = command.get_name();
    let has_why = !matches!(name, "sweep" | "compare" | "size");
    let is_size = name == "size";
    let is_of_it = move |long: &str| match long {
        "why" => has_why,
        // It counts replicas, and users are one of its demands.
        "replicas" | "num-prompts" => !is_size,
        "users" | "think-time" => is_size,
        _ => true,
    };
    let is_first = move |long: Option<&str>| long.is_none_or(|long| FIRST.contains(&long) && is_of_it(long));
    let all = command
        .get_arguments()
        .filter(|arg| arg.get_long().is_some())
        .count();
    let whole = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let shown: Vec<&str> = whole.lines().take(1 + EXAMPLES).collect();
    let end = format!(
        "{}\n\n-h has the flags that matter first; --help has all {all}, each in full.",
        shown.join("\n")
    );
    let command = command.mut_args(|arg| match is_first(arg.get_long()) {
        // A heading for every few flags would fill the screen.
        true => {
            let told = arg
                .get_help()
                .map(ToString::to_string)
                .map(|told| first(&told).to_owned());
            let has_values = arg.get_action().takes_values();
            let arg = arg.help_heading(None);
            let arg = if has_values {
                arg.hide_possible_values(true)
            } else {
                arg
            };
            match told {
                Some(told) => arg.help(told),
                None => arg,
            }
        }
        false => arg.hide_short_help(true),
    });
    command.after_help(end).after_long_help(whole)
}
