//! Commands that are not read: other engines, other clients, and vLLM's other benchmarks, each with the way out.

use crate::config::diagnostic::{Diagnostic, Place};

/// Servers and clients that people paste, as programs or modules of Python are called.
const SERVERS: [&str; 8] = [
    "lmdeploy",
    "text-generation-launcher",
    "text-generation-inference",
    "ollama",
    "llama-server",
    "mlc_llm",
    "tritonserver",
    "aphrodite",
];
const CLIENTS: [&str; 12] = [
    "guidellm",
    "genai-perf",
    "aiperf",
    "inference-perf",
    "llmperf",
    "token_benchmark_ray.py",
    "sglang.bench_one_batch_server",
    "sglang.bench_one_batch",
    "sglang.bench_offline_throughput",
    "locust",
    "k6",
    "oha",
];

/// SGLang's router, alone and with the servers behind it.
const ROUTERS: [&str; 5] = [
    "sglang_router.launch_server",
    "sglang_router.launch_router",
    "sglang_router",
    "sglang-router",
    "smg",
];

/// `benchmarks/benchmark_….py` of vLLM before its command `vllm bench`, but for that of a server, which is read.
const VLLMS_SCRIPTS: [&str; 6] = [
    "latency",
    "throughput",
    "prefix_caching",
    "long_document_qa_throughput",
    "prioritization",
    "serving_structured_output",
];

/// A program's name without its folder, or an image's without its registry and tag.
pub(super) fn of_program(word: &str) -> &str {
    let last = word.rsplit('/').next().unwrap_or(word);
    last.split(':').next().unwrap_or(last)
}

/// What to say of a command that begins as none of `starts`.
pub(super) fn told(words: &[String], flag: &str, starts: &[&[&str]]) -> Diagnostic {
    let problem = |message: String| Diagnostic::new(message).at(Place::Flag(flag.to_owned()));
    let runs = |program: &str| words.iter().any(|word| of_program(word) == program);
    let is_client = flag == "--bench-cmd";
    if runs("trtllm-bench") {
        return problem("`trtllm-bench` is not read".to_owned()).help(
            "of TensorRT-LLM's commands trtllm-serve is read: say what trtllm-bench sends by flags beside",
        );
    }
    if let Some((called, other)) = other_benchmark(words) {
        let told = problem(format!(
            "`{called}` is not read: of vLLM's benchmarks `vllm bench serve` is"
        ));
        let same = as_flags(&other, words);
        return told
            .help(same)
            .help("its results are read by calibrate and audit");
    }
    if runs("docker-compose") || (runs("docker") && runs("compose")) {
        return problem(format!("`{flag}` must hold a whole command"))
            .help("what a compose file runs is not read from it: paste the command that stands there");
    }
    if let Some(router) = ROUTERS.into_iter().find(|name| runs(name)) {
        let starts_servers = router.ends_with("launch_server");
        let told = match starts_servers {
            true => problem(format!(
                "`{router}` starts a router with its servers, and is not read"
            )),
            false => problem(format!("`{router}` starts a router, and no server")),
        };
        let told = told.help(
            "paste a server that it sends to, `python -m sglang.launch_server …`, and say the router beside it: --replicas N --router \
             cache_aware, which is its default policy",
        );
        return match starts_servers {
            true => told.help("its --dp-size is --replicas here; the flags that begin with --router- have no place in the server's command"),
            false => told.help("of one with --pd-disaggregation the servers are --prefill N --decode N"),
        };
    }
    if let Some(server) = SERVERS.into_iter().find(|name| runs(name)) {
        return problem(format!("`{server}` is an engine that is not simulated"))
            .help("vllm serve, python -m sglang.launch_server and trtllm-serve are read; --engine lists what is simulated");
    }
    if let Some(client) = CLIENTS.into_iter().find(|name| runs(name)) {
        return problem(format!("`{client}` is a client that is not read"))
            .help(
                "vllm bench serve, benchmark_serving.py, python -m sglang.bench_serving, aiperf profile, genai-perf profile and guidellm \
                 benchmark are read",
            )
            .help(format!(
                "say what {client} sends by flags beside: --request-rate or --max-concurrency, --num-prompts, --input-len, --output-len"
            ));
    }
    // The other flag's own command.
    let swapped = match is_client {
        true => runs("serve") || runs("sglang.launch_server") || runs("trtllm-serve"),
        false => runs("bench") || runs("sglang.bench_serving"),
    };
    let begins = format!("begin it with `{}`", starts[0].join(" "));
    let module = words
        .iter()
        .position(|word| word == "-m")
        .and_then(|at| words.get(at + 1));
    let told = match module.filter(|_| !swapped) {
        Some(module) => problem(format!("`python -m {module}` is not read")).help(match is_client {
            true => format!("{begins}, or say what it sends by flags beside: --request-rate or --max-concurrency, --num-prompts, --input-len, --output-len"),
            false => format!("{begins}, or say what it serves by flags beside: --model, --gpu, --engine, --tensor-parallel-size …"),
        }),
        None => problem(format!("`{flag}` must hold a whole command")).help(begins),
    };
    match (swapped, is_client) {
        (true, true) => told.help("a server's command belongs into --serve-cmd"),
        (true, false) => told.help("a client's command belongs into --bench-cmd"),
        (false, _) => told,
    }
}

/// Another of vLLM's benchmarks than that of a server: as it is called, by the command or by the script of older versions, and
/// its name.
fn other_benchmark(words: &[String]) -> Option<(String, String)> {
    let script = words.iter().find_map(|word| {
        let program = of_program(word).rsplit('.').find(|part| *part != "py")?;
        let name = program.strip_prefix("benchmark_")?;
        VLLMS_SCRIPTS
            .contains(&name)
            .then(|| (format!("benchmark_{name}.py"), name.to_owned()))
    });
    let command = words
        .windows(2)
        .find(|pair| pair[0] == "bench" && pair[1] != "serve")
        .filter(|_| words.iter().any(|word| of_program(word) == "vllm"));
    command
        .map(|pair| (format!("vllm bench {}", pair[1]), pair[1].clone()))
        .or(script)
}

/// Takes a flag of one of these names out of the arguments; the last one's value.
pub(super) fn taken(args: &mut Vec<String>, names: &[&str]) -> Option<String> {
    let (mut value, mut at) = (None, 0);
    while let Some(arg) = args.get(at) {
        let (name, attached) = match arg.split_once('=') {
            Some((name, value)) => (name.replace('_', "-"), Some(value.to_owned())),
            None => (arg.replace('_', "-"), None),
        };
        if !names.contains(&name.as_str()) {
            at += 1;
            continue;
        }
        args.remove(at);
        let behind = attached.is_none() && args.get(at).is_some_and(|next| !next.starts_with('-'));
        value = attached.or_else(|| behind.then(|| args.remove(at)));
    }
    value
}

/// Flags of ours that send what another benchmark of vLLM sends (`benchmarks/latency.py`, `benchmarks/throughput.py` of vLLM 0.33).
fn as_flags(benchmark: &str, words: &[String]) -> String {
    let said = |names: &[&str], default: &str| {
        let mut words = words.to_vec();
        taken(&mut words, names).unwrap_or_else(|| default.to_owned())
    };
    match benchmark {
        // One batch, all of it at once; the command turns prefix caching off by itself.
        "latency" => format!(
            "one of its batches is --request-rate inf --num-prompts {} --input-len {} --output-len {} \
             --no-enable-prefix-caching; the e2el is the latency",
            said(&["--batch-size"], "8"),
            said(&["--input-len"], "32"),
            said(&["--output-len"], "128")
        ),
        "throughput" => format!(
            "its requests are --request-rate inf --num-prompts {} --input-len {} --output-len {}, or --dataset-name sharegpt with \
             --dataset-path; its engine has no server before it, so it starts a little sooner",
            said(&["--num-prompts"], "1000"),
            said(&["--input-len", "--random-input-len"], "1024"),
            said(&["--output-len", "--random-output-len"], "128")
        ),
        "prefix_caching" => format!(
            "prompts that share prefixes are --dataset-name prefix_repetition --prefix-repetition-prefix-len TOKENS \
             --prefix-repetition-suffix-len TOKENS --prefix-repetition-num-prefixes N --prefix-repetition-output-len {} \
             --request-rate inf --num-prompts N",
            said(&["--output-len"], "10")
        ),
        _ => "say what it sends by flags beside: --request-rate, --num-prompts, --input-len, --output-len"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::said;

    fn bench(command: &str) -> String {
        said(&format!(
            "--gpu h100 --model Qwen/Qwen3-8B --max-model-len 8192 --bench-cmd '{command}'"
        ))
    }

    #[test]
    fn what_is_not_read_is_called_by_its_name_with_a_way_out() {
        let latency = bench("vllm bench latency --model m --input-len 512 --batch-size=4");
        assert!(latency.contains("`vllm bench latency` is not read"), "{latency}");
        assert!(
            latency.contains("--num-prompts 4 --input-len 512 --output-len 128"),
            "{latency}"
        );
        // The scripts that these commands were are told alike.
        let script =
            bench("python3 benchmarks/benchmark_latency.py --model m --input-len 512 --batch-size=4");
        assert_eq!(
            script.replace("benchmark_latency.py", "vllm bench latency"),
            latency
        );
        let throughput = bench("python -m benchmarks.benchmark_throughput --num-prompts 50");
        assert!(
            throughput.contains("`benchmark_throughput.py` is not read")
                && throughput.contains("--num-prompts 50 --input-len 1024"),
            "{throughput}"
        );
        let prefixes = bench("python benchmarks/benchmark_prefix_caching.py --output-len 20");
        assert!(
            prefixes.contains("--prefix-repetition-output-len 20"),
            "{prefixes}"
        );
        for (command, name) in [
            ("guidellm config", "guidellm"),
            ("inference-perf --config x.yml", "inference-perf"),
            (
                "python -m sglang.bench_one_batch_server --model x",
                "sglang.bench_one_batch_server",
            ),
        ] {
            let told = bench(command);
            assert!(
                told.contains(&format!("`{name}` is a client that is not read")),
                "{told}"
            );
            assert!(told.contains("benchmark_serving.py"), "{told}");
        }
        let serve = |command: &str| {
            said(&format!(
                "--gpu h100 --request-rate 1 --input-len 9 --output-len 9 --serve-cmd '{command}'"
            ))
        };
        for name in ["lmdeploy", "ollama", "text-generation-launcher"] {
            let told = serve(&format!("{name} serve Qwen/Qwen3-8B"));
            assert!(
                told.contains(&format!("`{name}` is an engine that is not simulated")),
                "{told}"
            );
        }
        let told = serve("vllm bench serve --model x");
        assert!(told.contains("--bench-cmd"), "{told}");
    }

    #[test]
    fn a_router_is_told_what_to_paste_instead() {
        let serve = |command: &str| {
            said(&format!(
                "--gpu h100 --request-rate 1 --input-len 9 --output-len 9 --serve-cmd '{command}'"
            ))
        };
        let both = serve(
            "python -m sglang_router.launch_server --model-path Qwen/Qwen3-8B --dp-size 2 --router-policy round_robin",
        );
        assert!(
            both.contains("`sglang_router.launch_server` starts a router with its servers")
                && both.contains("`python -m sglang.launch_server …`")
                && both.contains("--router cache_aware"),
            "{both}"
        );
        let alone = serve(
            "python3 -m sglang_router.launch_router --pd-disaggregation --prefill http://a:1 --decode http://b:2",
        );
        assert!(
            alone.contains("no server") && alone.contains("--prefill N --decode N"),
            "{alone}"
        );
    }

    #[test]
    fn a_variable_of_a_shell_is_named_where_it_would_matter() {
        let serve = |command: &str| {
            said(&format!(
                "--gpu h100 --request-rate 1 --input-len 9 --output-len 9 --serve-cmd '{command}'"
            ))
        };
        let told = serve("vllm serve $MODEL -tp ${TP} --api-key $KEY");
        assert!(
            told.contains("`$MODEL`, `$TP`: variables of a shell are not expanded"),
            "{told}"
        );
    }
}
