//! The command line that does what a page shows: the words that it was started with, and what was turned since in the place of what they say.

/// Flags of controls that need no value.
const SWITCHES: [&str; 3] = ["enable-chunked-prefill", "enable-prefix-caching", "enforce-eager"];

/// The words of a base with those of turned flags in their place. `model` is the word of the base that names a model in front of all flags: another model takes that
/// place, since two names of one are refused.
pub(super) fn repeated(base: &[String], model: Option<&str>, turned: &[String]) -> Vec<String> {
    let flags: Vec<String> = turned.iter().filter_map(|word| flag_of(word)).collect();
    let mut kept = Vec::new();
    let mut words = base.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = flag_of(word).filter(|flag| flags.contains(flag)) else {
            kept.push(word.clone());
            continue;
        };
        // Its values go with it.
        if word.contains('=') || SWITCHES.contains(&flag.as_str()) {
            continue;
        }
        if flag == "goodput" {
            while words.next_if(|next| next.contains(':')).is_some() {}
        } else {
            words.next();
        }
    }
    let place = model.and_then(|model| kept.iter().position(|word| word == model));
    for word in turned {
        match (place, word.strip_prefix("--model=")) {
            (Some(place), Some(other)) => other.clone_into(&mut kept[place]),
            _ => kept.extend(as_typed(word)),
        }
    }
    kept
}

/// The flag that a word is, whatever way it is written: `-tp`, `--enable_prefix_caching`, `--no-enable-prefix-caching`.
pub(super) fn flag_of(word: &str) -> Option<String> {
    if word == "-tp" {
        return Some("tensor-parallel-size".to_owned());
    }
    let name = word.strip_prefix("--")?;
    let name = name.split('=').next().unwrap_or(name).replace('_', "-");
    Some(name.strip_prefix("no-").map_or(name.clone(), str::to_owned))
}

/// A flag and its value as people type them: `--gpu l40s`, `--no-enable-prefix-caching`.
fn as_typed(word: &str) -> Vec<String> {
    let given = word.strip_prefix("--").and_then(|word| word.split_once('='));
    let Some((name, value)) = given else {
        return vec![word.to_owned()];
    };
    match value {
        "true" => vec![format!("--{name}")],
        "false" => vec![format!("--no-{name}")],
        // Another dash in front of a word would be another flag.
        _ if value.starts_with('-') => vec![word.to_owned()],
        _ => vec![format!("--{name}"), value.to_owned()],
    }
}

/// Words as a shell takes them.
pub(super) fn joined(words: &[String]) -> String {
    let quoted = words
        .iter()
        .map(|word| shlex::try_quote(word).map_or_else(|_| word.clone(), |quoted| quoted.into_owned()));
    quoted.collect::<Vec<String>>().join(" ")
}

/// What was typed behind a command without its own flags, `own` by how many values each has: words that `run` takes.
pub(in crate::cli) fn typed(args: &[String], command: &str, own: &[(&str, usize)]) -> Vec<String> {
    let mut words = Vec::new();
    let mut args = args.iter().skip_while(|word| *word != command).skip(1);
    while let Some(word) = args.next() {
        let spelt = in_kebab(word);
        let values = own.iter().find_map(|(flag, values)| {
            let rest = spelt.strip_prefix(flag)?;
            match (rest.chars().next(), flag.starts_with("--")) {
                (None, _) => Some(*values),
                // `--port=0`, and `-oFILE` with the value at the flag.
                (Some('='), true) | (Some(_), false) => Some(values.saturating_sub(1)),
                (Some(_), true) => None,
            }
        });
        match values {
            Some(values) => args.by_ref().take(values).for_each(drop),
            None => words.push(word.clone()),
        }
    }
    words
}

/// A flag with dashes in its name, as it may be written with underscores; its value is left as it is.
fn in_kebab(word: &str) -> String {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, format!("={value}")),
        None => (word, String::new()),
    };
    match word.starts_with("--") {
        true => name.replace('_', "-") + &value,
        false => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_own_flags_are_no_words_of_a_run() {
        let own = [
            ("--quiet", 0),
            ("--port", 1),
            ("--color", 1),
            ("-o", 1),
            ("-L", 2),
        ];
        let args = "--quiet report quickstart --port 0 -L request-rate 4,8 --request-rate 9 --port=1 -oa.html -o b.html --color never";
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        assert_eq!(
            typed(&args, "report", &own),
            ["quickstart", "--request-rate", "9"]
        );
    }

    fn of(base: &str, model: Option<&str>, turned: &str) -> String {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        repeated(&words(base), model, &words(turned)).join(" ")
    }

    #[test]
    fn what_was_turned_takes_the_place_of_the_flag_and_its_values_and_of_nothing_else() {
        assert_eq!(
            of("--request-rate 2 warm", None, "--request-rate=3"),
            "warm --request-rate 3"
        );
        assert_eq!(
            of(
                "--no-enable-prefix-caching warm",
                None,
                "--enable-prefix-caching=true"
            ),
            "warm --enable-prefix-caching"
        );
        assert_eq!(
            of("--enforce_eager=true warm --seed 1", None, "--seed=-2"),
            "--enforce_eager=true warm --seed=-2"
        );
        assert_eq!(
            of("--goodput ttft:9 tpot:5 warm", None, "--goodput ttft:8 tpot:5"),
            "warm --goodput ttft:8 tpot:5"
        );
        assert_eq!(
            of("warm -tp 2", None, "--tensor-parallel-size=4"),
            "warm --tensor-parallel-size 4"
        );
    }

    #[test]
    fn another_model_takes_the_place_of_the_one_in_front() {
        assert_eq!(of("a/b --gpu h100", Some("a/b"), "--model=c/d"), "c/d --gpu h100");
        assert_eq!(of("warm --model a/b", None, "--model=c/d"), "warm --model c/d");
    }
}
