//! Names that stand where a subcommand is expected: `plimsoll hw h100`, `plimsoll models qwen3 fp8`.

/// Words that stand where a subcommand is expected, and the form that is asked for among them: clap reads no flags behind such words.
pub(super) fn named<'w>(words: &'w [String], format: &'w str) -> anyhow::Result<(Vec<&'w str>, &'w str)> {
    let (mut names, mut asked) = (Vec::new(), format);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        asked = match word.strip_prefix("--format") {
            Some("") => rest.next().map_or("", String::as_str),
            Some(form) => form.trim_start_matches('='),
            None if word.starts_with('-') => anyhow::bail!("unexpected argument '{word}' found"),
            None => {
                names.push(word.as_str());
                continue;
            }
        };
    }
    match asked {
        "table" => Ok((names, "text")),
        "text" | "json" | "toml" => Ok((names, asked)),
        _ => anyhow::bail!("`--format {asked}` is none of text, json"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_found_among_names() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, names, form) in [
            ("l40s", vec!["l40s"], "text"),
            ("l40s --format json", vec!["l40s"], "json"),
            ("--format=toml h100", vec!["h100"], "toml"),
            ("qwen3 fp8 --format table", vec!["qwen3", "fp8"], "text"),
        ] {
            assert_eq!(named(&words(text), "text").unwrap(), (names, form), "{text}");
        }
        for wrong in ["l40s --fromat json", "l40s --format yaml", "l40s --format"] {
            assert!(named(&words(wrong), "text").is_err(), "{wrong}");
        }
    }
}
