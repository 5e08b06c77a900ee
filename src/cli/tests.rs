//! What the command line takes, and what it says of what it does not.

use super::disk::Disk;
use super::*;
use crate::config::files;

fn parse_line(line: &str) -> Result<Parsed, clap::Error> {
    let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    parse(&args)
}

#[test]
fn every_exit_code_stands_in_the_guide_and_in_help() {
    let page = include_str!("../../docs/answers.md");
    let help = Cli::command().render_long_help().to_string();
    for (exit, meaning) in Exit::ALL {
        let row = format!("| {} | {meaning} |", exit as u8);
        assert!(page.contains(&row), "docs/answers.md lacks {row}");
        let words = meaning.split(' ').next().unwrap();
        assert!(help.contains(&format!("{:<3}  {words}", exit as u8)), "{help}");
    }
}

/// What stands in backquotes after `plimsoll`, whole commands only.
fn commands(page: &str) -> Vec<&str> {
    let quoted = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let commands = quoted.filter_map(|text| text.strip_prefix("plimsoll "));
    commands.filter(|command| !command.contains('…')).collect()
}

#[test]
fn every_command_of_the_pages_is_one() {
    let pages = [
        include_str!("../../README.md"),
        include_str!("../../docs/tour.md"),
        include_str!("../../docs/answers.md"),
        include_str!("../../docs/glossary.md"),
        include_str!("../../docs/trust.md"),
        include_str!("../../docs/limits.md"),
        include_str!("../../docs/calibrate.md"),
        include_str!("../../docs/probe.md"),
        include_str!("../../docs/model.md"),
    ];
    let all: Vec<&str> = pages.into_iter().flat_map(commands).collect();
    assert!(all.len() > 30, "{all:?}");
    // A name alone speaks of the command, not of a call of it.
    for command in all.into_iter().filter(|command| command.contains(' ')) {
        let words = shlex::split(command).unwrap();
        if let Err(error) = parse(&words) {
            panic!("{command}: {error}");
        }
    }
}

#[test]
fn every_command_of_the_labs_is_one() {
    let commands = commands(include_str!("../../docs/labs.md"));
    assert!(commands.len() > 40, "{commands:?}");
    for command in commands {
        // What stands behind `>` is the shell's.
        let words = shlex::split(command.split(" > ").next().unwrap_or_default()).unwrap();
        // `audit` and `scenarios NAME` stand in sentences.
        if words.len() == 1 || words.iter().any(|word| word == "NAME") {
            continue;
        }
        if let Err(error) = parse(&words) {
            panic!("{command}: {error}");
        }
        let [name, subject, ..] = words.as_slice() else {
            panic!("{command}")
        };
        // Of an exercise and a page the first word is no scenario.
        let has_scenario = !["guide", "lab"].contains(&name.as_str());
        let is_path = subject.contains('/') || subject.ends_with(".json") || !has_scenario;
        assert!(is_path || files::find(subject, &Disk).is_some(), "{command}");
    }
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn a_flag_before_the_command_changes_nothing_about_it() {
    let flags = "m --gpu h100 -tp 2 --request-rate 4 --max_num_seqs 8 --max-num-seqs 4";
    for before in ["", "--quiet ", "--color never ", "--color=never ", "--color run "] {
        let parsed = parse_line(&format!("{before}run {flags}"));
        let right = !before.contains("run");
        assert_eq!(parsed.is_ok(), right, "{before}: {:?}", parsed.err());
        let Ok((
            Cli {
                command: Command::Run(args),
                ..
            },
            ..,
        )) = parsed
        else {
            continue;
        };
        assert_eq!(
            args.scenario.server.engines.engine.max_num_seqs.unwrap().0,
            4,
            "{before}"
        );
    }
}

#[test]
fn spellings_of_vllm_are_accepted_where_its_flags_are() {
    for line in [
        "run m --gpu h100 -tp 2 --max_num_seqs 8 --no-enable-prefix-caching --request-rate 4",
        "knee --goodput ttft:500 tpot:50 --attainment 0.99",
        "run m --max-model-len 32k --enable-prefix-caching --host 0.0.0.0",
        "sweep course-week1 -L request-rate 1,2 -S max-num-seqs 8..32 step 8",
    ] {
        let parsed = parse_line(line);
        assert!(
            matches!(parsed, Ok((_, _, None))),
            "{line}: {}",
            parsed.err().map_or(String::new(), |error| error.to_string())
        );
    }
    assert!(parse_line("run m --cpu-offload-gb 4").unwrap().2.is_some());
    // Given again, a flag replaces the first; a list of our own grows.
    let (cli, ..) =
        parse_line("sweep m --max-num-seqs 8 -L gpu h100,l40s --max_num_seqs=4 -L block-size 16,32").unwrap();
    let Command::Sweep(sweep) = cli.command else {
        panic!("not a sweep")
    };
    assert_eq!(sweep.scenario.server.engines.engine.max_num_seqs.unwrap().0, 4);
    assert_eq!(sweep.axes.lists.len(), 4);
    assert!(
        parse_line("hw show h100 --format text --format json").is_err(),
        "elsewhere it is a slip"
    );
    assert!(parse_line("run m --max-num-sequences 4").is_err());
    let elsewhere = parse_line("fit m --gpu h100 --request-rate 4")
        .unwrap_err()
        .to_string();
    assert!(
        elsewhere.contains("`--request-rate` is a flag of run, knee, size, sweep"),
        "{elsewhere}"
    );
    let negative = parse_line("run Qwen/Qwen3-8B --input-len -5")
        .unwrap_err()
        .to_string();
    assert!(negative.contains("'-5' for '--input-len"), "{negative}");
    let (.., several) = parse_line("run m --input-len -5 --output-len x").unwrap();
    assert_eq!(several.unwrap().0.len(), 3);
}

#[test]
fn the_short_help_is_one_screen_and_names_the_long_one() {
    let told = |line: &str| parse_line(line).map(|_| ()).unwrap_err().render().to_string();
    for command in ["fit", "run", "knee", "size", "sweep", "compare"] {
        let (short, long) = (told(&format!("{command} -h")), told(&format!("{command} --help")));
        assert!(short.lines().count() <= 50, "{command}:\n{short}");
        assert!(
            short.contains("--gpu") && short.contains("--help has all "),
            "{command}:\n{short}"
        );
        assert!(
            !short.contains("--kv-cache-dtype-skip-layers"),
            "{command}:\n{short}"
        );
        assert!(long.contains("--kv-cache-dtype-skip-layers"), "{command}");
        assert!(long.contains("Model:\n"), "{command}: headings");
    }
    assert!(told("run -h").contains("--request-rate"));
}
