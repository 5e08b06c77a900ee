//! What stands around a pasted command: settings of the environment, launchers, containers, redirections.
//!
//! Left out: shell scripts, compose files. Law: nothing before or behind the command is dropped without a word.

/// A command without what stood around it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Bare {
    /// What follows the program's name.
    pub(super) args: Vec<String>,
    /// Settings of the environment, in order.
    pub(super) settings: Vec<(String, String)>,
    /// Tag of the container's image.
    pub(super) tag: Option<String>,
    /// What was dropped, as sentences.
    pub(super) dropped: Vec<String>,
}

/// Programs that run a command of a container's image.
const CONTAINERS: [&str; 4] = ["docker", "podman", "nerdctl", "apptainer"];
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];

/// What changes how fast kernels are, or which are chosen.
const OF_KERNELS: [&str; 9] = [
    "VLLM_ATTENTION_BACKEND",
    "VLLM_FLASH_ATTN_VERSION",
    "VLLM_USE_FLASHINFER",
    "VLLM_USE_TRITON",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_MOE_",
    "VLLM_ALL2ALL_BACKEND",
    "VLLM_FUSED_MOE",
    "VLLM_MXFP4",
];
/// Where things are, what is logged, how a model is loaded.
const HARMLESS: [&str; 17] = [
    "HF_",
    "HUGGING_FACE",
    "TRANSFORMERS_",
    "TOKENIZERS_",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTHON",
    "PATH",
    "VLLM_LOGGING_",
    "VLLM_HOST_IP",
    "VLLM_PORT",
    "VLLM_API_KEY",
    "VLLM_CACHE_ROOT",
    "VLLM_NO_USAGE_STATS",
    "VLLM_USE_MODELSCOPE",
    "NCCL_DEBUG",
];

/// Finds the command that begins as one of `starts`; `None` if there is none.
pub(super) fn strip(words: &[String], starts: &[&[&str]]) -> Option<Bare> {
    if let Some((before, inner)) = in_a_shell(words) {
        let mut bare = strip(&inner, starts)?;
        bare.settings.splice(0..0, settings(before));
        bare.tag = bare.tag.or_else(|| image(before).and_then(|(_, tag)| tag));
        bare.dropped.extend(wrapper(before));
        return Some(bare);
    }
    let (begin, args) = find(words, starts).or_else(|| {
        let (at, _) = image(words)?;
        Some((at, at + 1))
    })?;
    let before = &words[..begin];
    let end = (args..words.len())
        .find(|&at| is_of_shell(&words[at]))
        .unwrap_or(words.len());
    let mut dropped = wrapper(before);
    if end < words.len() {
        dropped.push(format!(
            "`{}` has no effect: it is for the shell",
            words[end..].join(" ")
        ));
    }
    Some(Bare {
        args: words[args..end].to_vec(),
        settings: settings(before),
        tag: image(&words[..args]).and_then(|(_, tag)| tag),
        dropped,
    })
}

/// Where a command begins, and where its arguments do. Each word may be a path.
fn find(words: &[String], starts: &[&[&str]]) -> Option<(usize, usize)> {
    let is_same = |(word, part): (&String, &&str)| word == part || word.ends_with(&format!("/{part}"));
    (0..words.len()).find_map(|at| {
        starts.iter().find_map(|start| {
            let found = words.get(at..at + start.len())?;
            found
                .iter()
                .zip(start.iter())
                .all(is_same)
                .then_some((at, at + start.len()))
        })
    })
}

/// Words up to a shell, and those of the text that it is given.
fn in_a_shell(words: &[String]) -> Option<(&[String], Vec<String>)> {
    let at = words.windows(3).position(|three| {
        let name = three[0].rsplit('/').next().unwrap_or(&three[0]);
        SHELLS.contains(&name) && three[1].starts_with('-') && three[1].ends_with('c')
    })?;
    Some((&words[..=at], shlex::split(&words[at + 2])?))
}

/// The image of a container that serves by itself, `vllm/vllm-openai:v0.11.0`, and its tag.
fn image(words: &[String]) -> Option<(usize, Option<String>)> {
    let runs = words
        .iter()
        .any(|word| CONTAINERS.contains(&word.rsplit('/').next().unwrap_or(word)));
    let at = words.iter().position(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        let name = name.split([':', '@']).next().unwrap_or(name);
        runs && ["vllm-openai", "sglang"].contains(&name) && word.contains(['/', ':'])
    })?;
    let tag = words[at]
        .rsplit('/')
        .next()?
        .split_once(':')
        .map(|(_, tag)| tag.to_string());
    Some((at, tag))
}

/// `A=b` before the command, behind a container's `-e`, too.
fn settings(words: &[String]) -> Vec<(String, String)> {
    let attached = |word: &str| word.strip_prefix("--env=").map(str::to_string);
    words
        .iter()
        .filter_map(|word| {
            let word = attached(word).unwrap_or_else(|| word.trim_end_matches(';').to_string());
            let (name, value) = word.split_once('=')?;
            let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            (!name.is_empty() && name.chars().all(is_name)).then(|| (name.to_string(), value.to_string()))
        })
        .collect()
}

/// A sentence about the program that runs the command.
fn wrapper(before: &[String]) -> Vec<String> {
    let plain = before
        .iter()
        .find(|word| !word.contains('=') && !["env", "export", "exec", "sudo"].contains(&word.as_str()));
    let Some(first) = plain else {
        return Vec::new();
    };
    let name = first.rsplit('/').next().unwrap_or(first);
    let reason = match name {
        "docker" | "podman" | "nerdctl" | "apptainer" => "a container changes nothing that is simulated",
        "kubectl" => "where it runs is not simulated",
        "numactl" | "taskset" => "which cores and memory of the host it may use is not modelled",
        _ => "what runs the command is not simulated",
    };
    vec![format!("`{name}` before the command has no effect: {reason}")]
}

/// Whether a word ends a command for a shell: `>`, `2>&1`, `|`, `&` …
fn is_of_shell(word: &str) -> bool {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    ["&", "|", ";", "&&", "||"].contains(&word)
        || rest.starts_with('>')
        || word.starts_with("&>")
        || word == "<"
}

/// What becomes of a setting of the environment, as a sentence.
pub(super) fn told(name: &str, value: &str) -> String {
    let starts = |known: &&str| name.starts_with(*known);
    // Tokens for downloads are nobody's business.
    let value = match name.contains("TOKEN") || name.contains("KEY") {
        true => "…",
        false => value,
    };
    if name == "VLLM_USE_V1" {
        format!("{name}={value} has no effect: the profile says which engine it is")
    } else if OF_KERNELS.iter().any(starts) {
        format!("{name}={value} is not modelled: the calibration says how fast kernels are")
    } else if HARMLESS.iter().any(starts) {
        format!("{name}={value} has no effect on what is simulated")
    } else {
        format!("{name}={value} is not modelled: the environment is not read here")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTS: [&[&str]; 2] = [&["vllm", "serve"], &["python3", "-m", "api_server"]];

    fn bare(line: &str) -> Option<Bare> {
        strip(&shlex::split(line).unwrap(), &STARTS)
    }

    #[test]
    fn the_command_is_found_in_what_runs_it() {
        let check = |line: &str, args: &str| {
            let found = bare(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(found.args.join(" "), args, "{line}");
            found
        };
        check("vllm serve m -tp 2", "m -tp 2");
        check("/opt/bin/vllm serve m", "m");
        let docker = check(
            "docker run --gpus all -e VLLM_USE_V1=1 --env=HF_TOKEN=x -p 8000:8000 vllm/vllm-openai:v0.11.0 --model m -tp 2",
            "--model m -tp 2",
        );
        assert_eq!(docker.tag.as_deref(), Some("v0.11.0"));
        assert_eq!(docker.settings.len(), 2);
        assert_eq!(
            check("podman run docker.io/vllm/vllm-openai --model m", "--model m").tag,
            None
        );
        check("kubectl exec -it pod -n llm -- vllm serve m", "m");
        check("numactl --cpunodebind=0 vllm serve m", "m");
        check("CUDA_VISIBLE_DEVICES=0 nohup vllm serve m > log 2>&1 &", "m");
        let shell = check(
            "docker exec -e A=1 box bash -lc 'B=2 vllm serve m --port 1 | tee log'",
            "m --port 1",
        );
        assert_eq!(
            shell.settings,
            [
                ("A".to_string(), "1".to_string()),
                ("B".to_string(), "2".to_string())
            ]
        );
        assert_eq!(bare("docker run vllm"), None);
        assert_eq!(bare("docker compose up"), None);
    }

    #[test]
    fn nothing_around_it_is_dropped_without_a_word() {
        let told = bare("numactl --membind=0 vllm serve m > log 2>&1 &")
            .unwrap()
            .dropped;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains("numactl") && told[1].contains("> log"),
            "{told:?}"
        );
        assert!(bare("A=1 vllm serve m").unwrap().dropped.is_empty());
    }
}
