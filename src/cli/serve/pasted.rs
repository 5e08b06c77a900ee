//! What a pasted command of a server says that only a server for real clients has an effect for.

use anyhow::Context;

use crate::config::argv;

/// What a pasted command says of how its server stands towards clients.
#[derive(Debug, Default)]
pub(super) struct Pasted {
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) names: Vec<String>,
}

impl Pasted {
    /// Of a whole command; nothing of an empty one.
    pub(super) fn of(command: &str) -> anyhow::Result<Pasted> {
        let words = shlex::split(command).unwrap_or_default();
        let words = argv::normalise_beside(&words, &argv::SERVING).args;
        let mut pasted = Pasted::default();
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let (flag, mut values) = match word.split_once('=') {
                Some((flag, value)) => (flag, vec![value.to_owned()]),
                None => (word, Vec::new()),
            };
            let Some(name) = flag
                .strip_prefix("--")
                .filter(|name| argv::SERVING.contains(name))
            else {
                continue;
            };
            let takes_many = name == "served-model-name";
            while values.is_empty() || takes_many {
                match words.next_if(|word| !word.starts_with('-')) {
                    Some(value) => values.push(value.to_owned()),
                    None => break,
                }
            }
            match (name, values.pop()) {
                ("host", host) => pasted.host = host,
                ("port", port) => {
                    let port = port.unwrap_or_default();
                    let read = port.parse();
                    pasted.port =
                        Some(read.with_context(|| format!("in --serve-cmd: `{port}` is no --port"))?);
                }
                (_, last) => {
                    values.extend(last);
                    pasted.names = values;
                }
            }
        }
        Ok(pasted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_where_and_by_which_names() {
        let pasted =
            Pasted::of("vllm serve m --served_model_name a b -tp 2 --port=81 --host 0.0.0.0").unwrap();
        assert_eq!(pasted.names, ["a", "b"]);
        assert_eq!((pasted.port, pasted.host.as_deref()), (Some(81), Some("0.0.0.0")));
        assert!(
            Pasted::of("vllm serve m --port abc")
                .unwrap_err()
                .to_string()
                .contains("abc")
        );
        assert!(Pasted::of("").unwrap().names.is_empty());
    }
}
