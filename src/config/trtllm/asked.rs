//! What a pasted `trtllm-serve …` asks for that no flag of a server says: a subcommand, and a backend.
//!
//! `trtllm-serve` takes `serve` to be meant where no subcommand stands (`DefaultGroup`, commands/serve.py).

use crate::config::diagnostic::Diagnostic;

/// Subcommands beside `serve`, and why they are no server that is simulated.
const OTHERS: [(&str, &str, &str); 4] = [
    (
        "disaggregated",
        "starts a router before servers that a file names",
        "describe prefill and decode pools by --prefill and --decode, and paste one server's command",
    ),
    (
        "disaggregated_mpi_worker",
        "starts workers of a router whose file names them",
        "describe prefill and decode pools by --prefill and --decode, and paste one server's command",
    ),
    (
        "mm_embedding_serve",
        "serves an encoder of images, not a language model",
        "paste the command of the language model's server",
    ),
    (
        "visual_gen",
        "serves a model that draws, not a language model",
        "paste the command of the language model's server",
    ),
];

/// What cannot be honoured of a command whose words these are; `flag` holds it.
pub(in crate::config) fn problems(words: &[String], flag: &str) -> Vec<Diagnostic> {
    let program = words.iter().position(|word| word.ends_with("trtllm-serve"));
    let behind = program.map_or(words, |at| &words[at + 1..]);
    let other = behind
        .first()
        .and_then(|word| OTHERS.iter().find(|(name, ..)| name == word));
    let other = other.map(|(name, why, help)| {
        let message = format!("in {flag}: `trtllm-serve {name}` {why}");
        Diagnostic::new(message).help(help.to_string())
    });
    let backend = backend(behind).filter(|backend| *backend != "pytorch");
    let backend = backend.map(|backend| {
        Diagnostic::new(format!("in {flag}: `--backend {backend}` is not modelled"))
            .help("TensorRT-LLM's PyTorch backend is: leave the flag out, or write pytorch")
    });
    other.into_iter().chain(backend).collect()
}

/// The value of `--backend`.
fn backend(words: &[String]) -> Option<&str> {
    let at = words.iter().position(|word| word.starts_with("--backend"))?;
    match words[at].strip_prefix("--backend")?.strip_prefix('=') {
        Some(value) => Some(value),
        None => Some(words.get(at + 1).map_or("", String::as_str)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_serve_is_a_server() {
        let told = |command: &str| {
            let words: Vec<String> = command.split(' ').map(str::to_string).collect();
            let told = problems(&words, "--serve-cmd");
            told.iter()
                .map(|problem| problem.message.clone() + "\n")
                .collect::<String>()
        };
        for served in [
            "trtllm-serve m",
            "trtllm-serve serve m --backend pytorch",
            "mpirun -n 2 trtllm-serve serve m --backend=pytorch",
        ] {
            assert_eq!(told(served), "", "{served}");
        }
        assert!(told("trtllm-serve disaggregated -c disagg.yml").contains("a router before servers"));
        assert!(told("/opt/bin/trtllm-serve mm_embedding_serve m").contains("an encoder of images"));
        assert!(
            told("trtllm-serve serve m --backend tensorrt").contains("`--backend tensorrt` is not modelled")
        );
        assert!(told("trtllm-serve m --backend=_autodeploy").contains("`--backend _autodeploy`"));
    }
}
