//! What stands around a pasted command: settings of the environment, launchers, containers, redirections.
//!
//! Left out: shell scripts, compose files. Law: nothing before or behind the command is dropped without a word.

/// A command without what stood around it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Bare {
    /// The program as it is known here, `sglang serve`; of a container that serves by itself its image.
    pub(super) program: String,
    /// What follows the program's name.
    pub(super) args: Vec<String>,
    /// Settings of the environment, in order.
    pub(super) settings: Vec<(String, String)>,
    /// The container's image, if one runs the command.
    pub(super) image: Option<Image>,
    /// What was dropped, as sentences.
    pub(super) dropped: Vec<String>,
    /// The API that a client speaks, taken from its arguments: servers have flags of this name that say other things.
    pub(super) backend: Option<String>,
}

/// `vllm/vllm-openai:v0.11.0` and its tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Image {
    pub(super) name: String,
    pub(super) tag: Option<String>,
}

impl Image {
    /// What starts the engine that is in it.
    pub(super) fn command(&self) -> &'static str {
        match self.name.as_str() {
            "sglang" => "python3 -m sglang.launch_server",
            "release" => "trtllm-serve",
            _ => "vllm serve",
        }
    }
}

/// Whether an image has an engine in it: vLLM's, SGLang's, TensorRT-LLM's and those that NVIDIA and AMD make of vLLM.
fn has_engine(image: &str) -> bool {
    let (folder, last) = image.rsplit_once('/').unwrap_or(("", image));
    match last.split([':', '@']).next().unwrap_or_default() {
        "vllm-openai" | "sglang" | "vllm" => true,
        "release" => name(folder) == "tensorrt-llm",
        _ => false,
    }
}

/// Why there is no command.
#[derive(Debug, PartialEq)]
pub(super) enum Missing {
    /// None begins as one of those that are known.
    Unknown,
    /// This image is run without one, and serves with one only.
    Idle(Image),
}

/// Programs that run a command of a container's image.
const CONTAINERS: [&str; 4] = ["docker", "podman", "nerdctl", "apptainer"];
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];
/// What stands before settings, and does nothing else.
const INTRODUCE: [&str; 2] = ["env", "export"];
/// Other programs that run another one.
const LAUNCHERS: [&str; 17] = [
    "kubectl", "exec", "sudo", "nohup", "timeout", "time", "nice", "ionice", "numactl", "taskset", "stdbuf",
    "setsid", "srun", "nsys", "uv", "tini", "setarch",
];

/// Whether a program runs another one, by whose names those behind each other are told apart.
fn launches(name: &str) -> bool {
    let all = [&CONTAINERS[..], &SHELLS, &INTRODUCE, &LAUNCHERS];
    all.iter().any(|programs| programs.contains(&name))
}

/// Finds the command that begins as one of `starts`. If `serves`, the image of a container that does so by itself is one, too.
pub(super) fn strip(words: &[String], starts: &[&[&str]], serves: bool) -> Result<Bare, Missing> {
    let (words, has_entrypoint) = entered(ends_apart(words));
    let words = &words;
    let found = find(words, starts);
    let shell = in_a_shell(words).filter(|shell| found.as_ref().is_none_or(|found| shell.at < found.begin));
    if let Some(Shell { at, inner }) = shell {
        let before = before(&words[..=at]);
        let mut bare = strip(&inner, starts, serves)?;
        bare.settings.splice(0..0, before.settings);
        bare.image = bare
            .image
            .or_else(|| image(&words[..=at]).map(|(_, image)| image));
        bare.dropped.splice(0..0, before.dropped);
        bare.dropped.extend(behind(&words[at + 3..]));
        return Ok(bare);
    }
    let image = image(&words[..found.as_ref().map_or(words.len(), |found| found.begin)]);
    let Found { begin, args, program } = match (found, &image) {
        (Some(found), _) => found,
        (None, _) if has_entrypoint => return Err(Missing::Unknown),
        (None, Some((at, image))) if serves && image.name.ends_with("vllm-openai") => Found {
            begin: *at,
            args: at + 1,
            program: image.name.clone(),
        },
        (None, Some((_, image))) if serves => return Err(Missing::Idle(image.clone())),
        (None, _) => return Err(Missing::Unknown),
    };
    let end = (args..words.len())
        .find(|&at| is_of_shell(&words[at]))
        .unwrap_or(words.len());
    let mut before = before(&words[..begin]);
    before.dropped.extend(behind(&words[end..]));
    Ok(Bare {
        program,
        args: words[args..end].to_vec(),
        settings: before.settings,
        image: image.map(|(_, image)| image),
        dropped: before.dropped,
        backend: None,
    })
}

/// The words with a `;` or `&` that hangs on one as a word of its own, as shells have it.
fn ends_apart(words: &[String]) -> Vec<String> {
    let apart = |word: &String| match word.strip_suffix([';', '&']) {
        Some(rest) if !rest.is_empty() && !is_of_shell(word) => {
            vec![rest.to_string(), word[rest.len()..].to_string()]
        }
        _ => vec![word.clone()],
    };
    words.iter().flat_map(apart).collect()
}

/// The words with the program that a container's `--entrypoint` names behind the image, where it is run, and whether there
/// is one.
fn entered(words: Vec<String>) -> (Vec<String>, bool) {
    const FLAG: &str = "--entrypoint";
    let Some((at, _)) = image(&words) else {
        return (words, false);
    };
    let program = words[..at].iter().enumerate().find_map(|(place, word)| {
        let attached = word.strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('='));
        let behind = || words.get(place + 1).filter(|_| word == FLAG && place + 1 < at);
        attached.map(str::to_string).or_else(|| behind().cloned())
    });
    let Some(program) = program.filter(|program| !program.is_empty()) else {
        return (words, false);
    };
    let (before, behind) = words.split_at(at + 1);
    ([before, &[program], behind].concat(), true)
}

/// A program's name without its folder.
fn name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Where a command begins, where its arguments do, and what it runs.
struct Found {
    begin: usize,
    args: usize,
    program: String,
}

/// The first command that begins as one of `starts`. Each word may be a path.
fn find(words: &[String], starts: &[&[&str]]) -> Option<Found> {
    let is_same = |(word, part): (&String, &&str)| word == part || word.ends_with(&format!("/{part}"));
    (0..words.len()).find_map(|at| {
        starts.iter().find_map(|start| {
            let found = words.get(at..at + start.len())?;
            found.iter().zip(start.iter()).all(is_same).then(|| Found {
                begin: at,
                args: at + start.len(),
                program: start.join(" "),
            })
        })
    })
}

/// A shell that is given a command as one text.
struct Shell {
    /// Its name's place.
    at: usize,
    inner: Vec<String>,
}

fn in_a_shell(words: &[String]) -> Option<Shell> {
    let at = words.windows(3).position(|three| {
        SHELLS.contains(&name(&three[0])) && three[1].starts_with('-') && three[1].ends_with('c')
    })?;
    let inner = shlex::split(&words[at + 2])?;
    Some(Shell { at, inner })
}

/// The image that a container is made of, and where it stands. A digest is no tag.
fn image(words: &[String]) -> Option<(usize, Image)> {
    let runs = words.iter().any(|word| CONTAINERS.contains(&name(word)));
    let at = words.iter().position(|word| {
        // A path begins with a stroke.
        runs && has_engine(word) && word.contains(['/', ':']) && !word.starts_with('/')
    })?;
    let whole = words[at].split('@').next().unwrap_or_default();
    let (name, tag) = match name(whole).split_once(':') {
        Some((name, tag)) => (name, Some(tag.to_string())),
        None => (name(whole), None),
    };
    let name = name.to_string();
    Some((at, Image { name, tag }))
}

/// What stands before a command, taken apart.
#[derive(Default)]
struct Before {
    settings: Vec<(String, String)>,
    dropped: Vec<String>,
}

/// Every word is a setting, `A=b` (behind a container's `-e`, too), or told with the program that it belongs to.
fn before(words: &[String]) -> Before {
    let mut before = Before::default();
    let mut told: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        let is_first = told.is_empty() || INTRODUCE.contains(&told[0]) || told[0] == "sudo";
        let behind_e = words.get(at).filter(|_| ["-e", "--env"].contains(&word.as_str()));
        let attached = word.strip_prefix("--env=").or_else(|| word.strip_prefix("-e"));
        if let Some(setting) = behind_e.and_then(|next| setting(next, true)) {
            before.settings.push(setting);
            at += 1;
        } else if let Some(setting) = attached.and_then(|rest| setting(rest, true)) {
            before.settings.push(setting);
        } else if let Some(setting) = setting(word, is_first) {
            before.settings.push(setting);
        } else if is_of_shell(word) {
            before.dropped.extend(wrapper(&told));
            told.clear();
        } else {
            if launches(name(word)) {
                before.dropped.extend(wrapper(&told));
                told.clear();
            }
            told.push(word);
        }
    }
    before.dropped.extend(wrapper(&told));
    before
}

/// `A=b`. Names in small letters, `http_proxy`, are read only where nothing but a setting can stand, for flags have such
/// values, too: `--mount type=bind`.
fn setting(word: &str, takes_small: bool) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_letter = |c: char| c.is_ascii_uppercase() || c == '_' || (takes_small && c.is_ascii_lowercase());
    let begins = name.starts_with(is_letter);
    let goes_on = name.chars().all(|c| is_letter(c) || c.is_ascii_digit());
    (begins && goes_on).then(|| (name.to_string(), value.to_string()))
}

/// A sentence about a program that runs the command, with its flags.
fn wrapper(words: &[&str]) -> Option<String> {
    let first = words.first()?;
    if INTRODUCE.contains(first) && words.len() == 1 {
        return None;
    }
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
    let image = image(&words);
    let tag = image.as_ref().and_then(|(_, image)| image.tag.clone());
    let tag = tag.filter(|tag| super::tagged(tag).is_some());
    let reason = match (name(first), tag) {
        (container, Some(tag)) if CONTAINERS.contains(&container) => {
            words.retain(|word| !has_engine(word));
            &format!(
                "of a container only the image's tag is read, {tag}, which says what version of the engine runs"
            )
        }
        (container, None) if CONTAINERS.contains(&container) => {
            "a container changes nothing that is simulated"
        }
        ("kubectl", _) => "where it runs is not simulated",
        ("numactl" | "taskset", _) => "which cores and memory of the host it may use is not modelled",
        _ => "what runs the command is not simulated",
    };
    let all = words.join(" ");
    Some(format!("`{all}` before the command has no effect: {reason}"))
}

/// A sentence about what stands behind the command.
fn behind(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| format!("`{}` has no effect: it is for the shell", words.join(" ")))
}

/// Whether a word ends a command for a shell: `>`, `2>&1`, `|`, `&` …
fn is_of_shell(word: &str) -> bool {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    ["&", "|", ";", "&&", "||"].contains(&word)
        || rest.starts_with('>')
        || word.starts_with("&>")
        || word == "<"
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTS: [&[&str]; 2] = [&["vllm", "serve"], &["python3", "-m", "api_server"]];

    fn bare(line: &str) -> Option<Bare> {
        strip(&shlex::split(line).unwrap(), &STARTS, true).ok()
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
        let tag = |bare: Bare| bare.image.unwrap().tag;
        assert_eq!(docker.settings.len(), 2);
        assert_eq!(tag(docker).as_deref(), Some("v0.11.0"));
        let untagged = check("podman run docker.io/vllm/vllm-openai --model m", "--model m");
        assert_eq!(tag(untagged), None);
        for (image, expected) in [
            ("vllm/vllm-openai:v0.11.0@sha256:0a1b", Some("v0.11.0")),
            ("vllm/vllm-openai@sha256:0a1b", None),
            ("host:5000/vllm-openai:v0.11.0", Some("v0.11.0")),
        ] {
            let pinned = check(&format!("docker run {image} --model m"), "--model m");
            assert_eq!(tag(pinned).as_deref(), expected, "{image}");
        }
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
        check("vllm serve m; echo done", "m");
        check("vllm serve m --port 1&", "m --port 1");
        check("cd /app && exec vllm serve m", "m");
        check("vllm serve m && bash -c 'echo done'", "m");
        assert_eq!(bare("docker run vllm"), None);
        assert_eq!(bare("docker compose up"), None);
    }

    #[test]
    fn what_a_container_s_image_decides_is_not_said_to_have_no_effect() {
        let told = |image: &str| {
            bare(&format!("docker run {image} python3 -m api_server --model m"))
                .unwrap()
                .dropped
        };
        assert_eq!(
            told("lmsysorg/sglang:v0.5.4"),
            [
                "`docker run` before the command has no effect: of a container only the image's tag is read, v0.5.4, which says \
                 what version of the engine runs"
            ]
        );
        assert!(told("lmsysorg/sglang:latest")[0].ends_with("a container changes nothing that is simulated"));
    }

    #[test]
    fn an_image_of_sglang_does_not_serve_by_itself() {
        let image = |line: &str, serves: bool| strip(&shlex::split(line).unwrap(), &STARTS, serves);
        let line = "docker run lmsysorg/sglang:v0.5.4 --model m";
        let Err(Missing::Idle(idle)) = image(line, true) else {
            panic!("it is taken for a server");
        };
        assert_eq!(
            (idle.name.as_str(), idle.tag.as_deref()),
            ("sglang", Some("v0.5.4"))
        );
        let benchmark = image("docker run vllm/vllm-openai:v0.11.0 --model m", false);
        assert_eq!(benchmark, Err(Missing::Unknown), "no image is a client");
    }

    #[test]
    fn nothing_around_it_is_dropped_without_a_word() {
        let check = |line: &str, settings: &[&str], parts: &[&str]| {
            let bare = bare(line).unwrap_or_else(|| panic!("{line}"));
            let names: Vec<&str> = bare.settings.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, settings, "{line}");
            let told: Vec<&str> = bare
                .dropped
                .iter()
                .map(|sentence| sentence.split('`').nth(1).unwrap())
                .collect();
            assert_eq!(told, parts, "{line}");
        };
        check(
            "numactl --membind=0 vllm serve m > log 2>&1 &",
            &[],
            &["numactl --membind=0", "> log 2>&1 &"],
        );
        check("A=1 vllm serve m", &["A"], &[]);
        check("http_proxy=h A=1 vllm serve m", &["http_proxy", "A"], &[]);
        check("env https_proxy=h vllm serve m", &["https_proxy"], &[]);
        check("export A=1; vllm serve m", &["A"], &[]);
        check(
            "timeout 100 numactl -N 0 nice vllm serve m",
            &[],
            &["timeout 100", "numactl -N 0", "nice"],
        );
        check("sudo -u me A=1 vllm serve m", &["A"], &["sudo -u me"]);
        check("cd /app && vllm serve m", &[], &["cd /app"]);
        check(
            "my-wrapper 3 vllm serve m; echo done",
            &[],
            &["my-wrapper 3", "; echo done"],
        );
        check(
            "docker run -e A=1 -eB=2 --env=C=3 -v /m:/m --mount type=bind,src=/m vllm/vllm-openai:v0.11.0 --model m",
            &["A", "B", "C"],
            &["docker run -v /m:/m --mount type=bind,src=/m"],
        );
        check(
            "nohup bash -c 'A=1 time vllm serve m | tee log' name > out &",
            &["A"],
            &["nohup", "bash", "time", "| tee log", "name > out &"],
        );
    }
}
