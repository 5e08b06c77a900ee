//! What times to first token and between tokens are made of: the parts add up to the picosecond, whatever serves.

use plimsoll::analysis::{Experiment, simulate_watched};
use plimsoll::config::{Document, NoFiles, Resolved, resolve};
use plimsoll::metrics::{Anatomies, Anatomy, Records, RequestAnatomy, RequestRecord, TpotPart, TtftPart};
use plimsoll::sim::Outcome;
use proptest::prelude::*;

/// Ways of serving: what each writes into its scenario.
const SERVERS: [&str; 13] = [
    "[engine]\nprofile = \"vllm@0.33\"\nmax_model_len = 2500\nmax_num_batched_tokens = 512\nmax_num_seqs = 16\nnum_gpu_blocks_override = 160\n",
    "[engine]\nprofile = \"vllm@0.33\"\nmax_model_len = 2500\nasync_scheduling = false\nmax_num_batched_tokens = 512\nmax_num_seqs = 4\n",
    "[engine]\nprofile = \"vllm@0.11\"\nmax_model_len = 2500\nmax_num_batched_tokens = 1024\nmax_num_seqs = 16\nnum_gpu_blocks_override = 160\n",
    "[engine]\nprofile = \"vllm@0.6\"\nmax_model_len = 2500\nmax_num_seqs = 16\n",
    "[engine]\nprofile = \"vllm@0.33\"\nmax_model_len = 2500\n[engine.speculative_config]\nmethod = \"ngram\"\nnum_speculative_tokens = 3\nacceptance_rate = 0.5\n",
    "[engine]\nprofile = \"sglang@0.5.23\"\n[sglang]\ncontext_length = 2500\nchunked_prefill_size = 512\nmax_running_requests = 16\nmax_total_tokens = 6000\n",
    "[engine]\nprofile = \"sglang@0.5.4\"\n[sglang]\ncontext_length = 2500\nchunked_prefill_size = 512\ndisable_overlap_schedule = true\n",
    "[engine]\nprofile = \"sglang@0.5.23\"\n[sglang]\ncontext_length = 2500\nenable_mixed_chunk = true\nchunked_prefill_size = 256\n",
    "[engine]\nprofile = \"trtllm@1.2\"\n[trtllm]\nmax_seq_len = 2500\nmax_batch_size = 16\n",
    "[engine]\nprofile = \"static\"\nmax_model_len = 2500\nmax_num_seqs = 8\n",
    "[engine]\nprofile = \"hf-cb\"\nmax_model_len = 2500\n",
    "[cluster.prefill]\nreplicas = 1\n[cluster.decode]\nreplicas = 2\n[engine]\nprofile = \"vllm@0.33\"\nmax_model_len = 2500\nmax_num_batched_tokens = 512\n",
    "[cluster.prefill]\nreplicas = 2\n[cluster.decode]\nreplicas = 1\n[engine]\nprofile = \"sglang@0.5.23\"\n[sglang]\ncontext_length = 2500\n",
];

fn resolved(server: &str, cluster: &str, workload: &str) -> Resolved {
    let text = format!(
        "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n{cluster}\n{server}\n{workload}"
    );
    let document = Document::parse("law.toml", &text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
    resolve(document, &NoFiles).unwrap_or_else(|wrong| panic!("{text}\n{wrong}"))
}

/// Each request's parts, and its story, in order of leaving.
fn seen(resolved: &Resolved) -> (Anatomies, Vec<RequestRecord>) {
    let mut anatomy = Anatomy::of(&resolved.scenario);
    let experiment = Experiment::of_whole_run(Records::Requests);
    let outcome = simulate_watched(&resolved.scenario, &experiment, &mut anatomy, |_| true);
    assert_eq!(outcome.result.violations, Vec::<String>::new());
    let mut records = outcome.result.records.expect("they were asked for");
    records.retain(|record| {
        record.completion.outcome == Outcome::Completed && record.completion.first_token.is_some()
    });
    (anatomy.finish(), records)
}

/// Every part of the queue and every wait is a time; the parts add up to what the client saw, and the queue to what the engine says.
fn check(request: &RequestAnatomy, record: &RequestRecord) {
    let story = &record.completion;
    let first = story.first_token.unwrap();
    assert_eq!(request.ended, story.end);
    assert_eq!(
        request.ttft_picos(),
        (first - story.arrival).0 as i64,
        "{story:?}: {request:?}"
    );
    let part = |part: TtftPart| request.ttft[part as usize];
    for of_wait in [
        TtftPart::Gateway,
        TtftPart::FrontEndIn,
        TtftPart::Preempted,
        TtftPart::StepAhead,
        TtftPart::HandOver,
    ] {
        assert!(part(of_wait) >= 0, "{of_wait:?} {story:?}: {request:?}");
    }
    for of_queue in TtftPart::QUEUE {
        assert!(part(of_queue) >= 0, "{of_queue:?} {story:?}: {request:?}");
    }
    let until_admitted: i64 = TtftPart::QUEUE.into_iter().map(part).sum::<i64>()
        + part(TtftPart::Gateway)
        + part(TtftPart::FrontEndIn);
    assert_eq!(
        until_admitted,
        (story.first_scheduled - story.arrival).0 as i64,
        "{story:?}: {request:?}"
    );
    assert!(part(TtftPart::OwnPrefill) > 0, "{story:?}: {request:?}");
    if let Some(tokens) = request.tokens {
        assert_eq!(
            tokens.iter().sum::<i64>(),
            (story.end - first).0 as i64,
            "{story:?}: {request:?}"
        );
        assert!(tokens[TpotPart::Decode as usize] >= 0 && tokens[TpotPart::Preempted as usize] >= 0);
        let is_preempted = tokens[TpotPart::Preempted as usize] > 0;
        assert!(!is_preempted || story.preemptions > 0, "{story:?}: {request:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_of_every_request_add_up(
        server in 0..SERVERS.len(),
        rate in 2.0f64..60.0,
        input in 1u32..1500,
        output in 1u32..120,
        prefixes in any::<bool>(),
        jitter in any::<bool>(),
        burst in any::<bool>(),
        replicas in 1u32..3,
    ) {
        let name = SERVERS[server];
        let is_apart = name.contains("cluster.prefill");
        let mut cluster = String::new();
        if !is_apart && replicas > 1 {
            cluster += &format!("replicas = {replicas}\n");
        }
        if jitter {
            cluster += "step_jitter = \"cv=0.2\"\n";
        }
        let arrivals = match burst {
            true => "[workload.arrivals.all_at_once]\n".to_owned(),
            false => format!("[workload.arrivals.poisson]\nrequest_rate = {rate}\n"),
        };
        let prefix = match prefixes {
            true => "[workload.prefix.groups]\ncount = 4\nprefix_len = 256\n",
            false => "",
        };
        let workload = format!(
            "[workload]\nnum_prompts = 60\n{arrivals}[workload.lengths.random]\ninput_len = {input}\noutput_len = {output}\n\
             range_ratio = 0.5\n{prefix}"
        );
        let (anatomies, records) = seen(&resolved(name, &cluster, &workload));
        prop_assert_eq!(anatomies.requests().len(), records.len());
        prop_assert!(!records.is_empty());
        for (request, record) in anatomies.requests().iter().zip(&records) {
            check(request, record);
        }
        let groups = anatomies.by_ttft();
        let mean: f64 = records.iter().map(|record| {
            let story = &record.completion;
            (story.first_token.unwrap() - story.arrival).seconds()
        }).sum::<f64>() / records.len() as f64;
        prop_assert!((groups[0].ttft_s() - mean).abs() <= 1e-9 * mean, "the mean of all is that of the run");
    }
}

/// Whoever is alone waits for nobody, and takes what its prompt takes.
#[test]
fn alone_nobody_waits_and_nobody_interferes() {
    let workload = "[workload]\nnum_prompts = 12\n[workload.arrivals.constant]\nrequest_rate = 0.02\n\
                    [workload.lengths.random]\ninput_len = 1300\noutput_len = 40\nrange_ratio = 0.4\n";
    for server in SERVERS {
        let (anatomies, records) = seen(&resolved(server, "", workload));
        assert_eq!(anatomies.requests().len(), records.len());
        for (request, record) in anatomies.requests().iter().zip(&records) {
            check(request, record);
            for part in TtftPart::QUEUE {
                let waited = request.ttft[part as usize];
                // A static batch waits for others to fill it.
                let may = part == TtftPart::OtherWait || server.contains("cluster.prefill");
                assert!(waited == 0 || may, "{server} {part:?}: {request:?}");
            }
            let beside = request.ttft[TtftPart::Interference as usize];
            if !server.contains("static") {
                assert_eq!(beside, 0, "{server}: {request:?}");
            }
            assert_eq!(
                request.ttft[TtftPart::StepAhead as usize],
                0,
                "{server}: {request:?}"
            );
            if let Some(tokens) = request.tokens {
                assert_eq!(tokens[TpotPart::Prompts as usize], 0, "{server}: {request:?}");
            }
        }
    }
}

/// What binds is named: eight seats, a small pool, a small budget.
#[test]
fn the_queue_is_for_what_its_head_lacks() {
    let lacks = |engine: &str, input: u32, output: u32, rate: f64| -> TtftPart {
        let workload = format!(
            "[workload]\nnum_prompts = 400\n[workload.arrivals.poisson]\nrequest_rate = {rate}\n\
             [workload.lengths.random]\ninput_len = {input}\noutput_len = {output}\nrange_ratio = 0.2\n"
        );
        let server = format!("[engine]\nprofile = \"vllm@0.33\"\nmax_model_len = 2500\n{engine}\n");
        let (anatomies, _) = seen(&resolved(&server, "", &workload));
        let groups = anatomies.by_ttft();
        let all = &groups[0];
        let causes = TtftPart::QUEUE.into_iter();
        causes
            .max_by(|one, other| all.part_s(*one).total_cmp(&all.part_s(*other)))
            .unwrap()
    };
    assert_eq!(lacks("max_num_seqs = 8", 256, 200, 30.0), TtftPart::Seats);
    assert_eq!(
        lacks("num_gpu_blocks_override = 200", 512, 200, 30.0),
        TtftPart::KvPool
    );
    assert_eq!(
        lacks("max_num_batched_tokens = 256", 2000, 4, 40.0),
        TtftPart::TokenBudget
    );
}
