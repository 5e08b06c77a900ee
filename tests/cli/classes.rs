//! Classes that are clients of their own, from the file to the figures.

use serde_json::Value;

use super::{Desk, fixture, text, unfolded};

const HEAD: &str = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n\
    [engine]\nmax_model_len = 8192\n";

fn with_file(text: &str) -> Desk {
    let desk = Desk::new();
    std::fs::write(desk.path().join("case.toml"), format!("{HEAD}{text}")).unwrap();
    desk
}

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

#[test]
fn a_trace_for_each_class_and_a_loop_beside_them() {
    let (chat, code) = (fixture("classes/chat.jsonl"), fixture("classes/code.jsonl"));
    let desk = with_file(&format!(
        "[[workload.classes]]\nname = \"chat\"\narrivals.trace = {{ path = {chat:?} }}\n\
         [[workload.classes]]\nname = \"code\"\narrivals.trace = {{ path = {code:?}, time_scale = 0.5 }}\n\
         [[workload.classes]]\nname = \"batch\"\narrivals.closed.max_concurrency = 4\n\
         lengths.fixed = {{ input_len = 512, output_len = 64 }}\n"
    ));
    let printed = desk.expect(0, "run case.toml --format json");
    assert_eq!(
        printed,
        desk.expect(0, "run case.toml --format json"),
        "the same bytes again"
    );
    let run = json(&printed);
    let classes = run["plimsoll"]["classes"].as_array().unwrap();
    let count = |class: usize, key: &str| classes[class][key].as_u64().unwrap();
    assert_eq!((count(0, "sent"), count(1, "sent")), (60, 90));
    for class in 0..3 {
        assert_eq!(count(class, "sent"), count(class, "completed"));
    }
    // Never more than four, and hardly less: the loop goes on to the last of the traces.
    let inside = classes[2]["in_system"].as_f64().unwrap();
    assert!((3.8..=4.0).contains(&inside), "{inside}");
    assert_eq!(classes[2]["request_rate"], Value::Null);
    assert!(classes[2]["sent_per_s"].as_f64().unwrap() > 1.0);

    // What is spelt out is the same run.
    let spelt = desk.expect(0, "run case.toml --dry-run");
    std::fs::write(desk.path().join("spelt.toml"), spelt).unwrap();
    let again = json(&desk.expect(0, "run spelt.toml --format json"));
    assert_eq!(run["plimsoll"]["classes"], again["plimsoll"]["classes"]);

    // Told to mean the same texts, the traces find more of them in the cache.
    let case = std::fs::read_to_string(desk.path().join("case.toml")).unwrap();
    let joined = case.replace(
        "arrivals.trace = { ",
        "arrivals.trace = { hash_space = \"site\", ",
    );
    std::fs::write(desk.path().join("joined.toml"), joined).unwrap();
    let joined = json(&desk.expect(0, "run joined.toml --format json"));
    let hits = |run: &Value| run["plimsoll"]["whole"]["cache_hit_tokens"].as_u64();
    assert!(
        hits(&joined) > hits(&run),
        "{:?} and {:?}",
        hits(&joined),
        hits(&run)
    );
}

const MIX: &str = "[workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n\
    [[workload.classes]]\nname = \"chat\"\ngoodput.ttft = \"5 s\"\narrivals.poisson.request_rate = 6.0\n\
    [[workload.classes]]\nname = \"code\"\ngoodput.ttft = \"60 ms\"\n\
    arrivals.gamma = { request_rate = 2.0, burstiness = 0.5 }\n\
    [[workload.classes]]\nname = \"batch\"\narrivals.closed.max_concurrency = 2\n";

#[test]
fn rates_that_are_not_sent_all_the_time_do_not_add_up() {
    let desk = with_file(
        "[workload]\nduration = \"60 s\"\n[workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n\
         [[workload.classes]]\nname = \"chat\"\narrivals.poisson.request_rate = 6.0\n\
         [[workload.classes]]\nname = \"late\"\nstart = \"20 s\"\nduration = \"10 s\"\narrivals.poisson.request_rate = 3.0\n\
         [[workload.classes]]\nname = \"batch\"\nnum_prompts = 10\n[workload.classes.arrivals.all_at_once]\n",
    );
    let printed = desk.expect(
        0,
        "run case.toml --save-result --save-detailed --result-filename mix.json",
    );
    let result = json(&std::fs::read_to_string(desk.path().join("mix.json")).unwrap());
    let rate = result["request_rate"].as_f64().unwrap();
    let sent = result["num_prompts"].as_f64().unwrap();
    assert!(
        rate < 7.5 && (rate * 60.0 / sent - 1.0).abs() < 0.05,
        "{rate} {sent}"
    );
    assert!(unfolded(&printed).contains("req/s on average)"), "{printed}");
    assert_eq!(result["plimsoll"]["scenario"]["clients"], 3);
    let audited = desk.expect(0, "audit mix.json");
    assert!(audited.contains("nothing speaks against"), "{audited}");
}

#[test]
fn a_rate_scales_the_mix_and_the_knee_names_the_class_that_breaks_first() {
    let desk = with_file(MIX);
    let run = unfolded(&desk.expect(0, "run case.toml --request-rate 2"));
    assert!(
        run.contains("stable at 2.00 req/s and 2 of batch in flight"),
        "{run}"
    );
    let swept = desk.expect(0, "sweep case.toml -L request-rate 2,4 --format jsonl");
    let rates: Vec<f64> = swept
        .lines()
        .map(|line| json(line)["result"]["request_rate"].as_f64().unwrap())
        .collect();
    assert_eq!(rates, [2.0, 4.0]);
    let output = desk.run("knee case.toml");
    let (printed, told) = (unfolded(&text(&output.stdout)), unfolded(&text(&output.stderr)));
    assert!(printed.contains("TTFT p99 of class code"), "{printed}");
    assert!(
        told.contains("a rate is that of all classes together") && told.contains("batch has no rate"),
        "{told}"
    );
}

#[test]
fn a_knee_is_that_of_all_classes_whenever_they_begin() {
    let late = "[workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n\
        [[workload.classes]]\nname = \"chat\"\narrivals.poisson.request_rate = 5.0\n\
        [[workload.classes]]\nname = \"late\"\nstart = \"1 h\"\narrivals.poisson.request_rate = 5.0\n";
    let knee = |case: &str| {
        let output = with_file(case).run("knee case.toml --goodput ttft:1000 --max-rate 12 --format json");
        (
            json(&text(&output.stdout))["points"].clone(),
            unfolded(&text(&output.stderr)),
        )
    };
    let (points, told) = knee(late);
    assert!(points.as_array().unwrap().len() > 1, "{points}");
    assert!(
        told.contains("start = 1 h has no effect on knee, where all classes send from the first instant"),
        "{told}"
    );
    assert_eq!(points, knee(&late.replace("start = \"1 h\"\n", "")).0);
}

#[test]
fn no_knee_is_made_of_rates_at_which_a_class_never_begins() {
    // Faster arrivals reach the number of requests before the second class begins.
    let desk = with_file(
        "[workload]\nnum_prompts = 400\n[workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n\
         [[workload.classes]]\nname = \"chat\"\narrivals.profile = { piece = \"10 s\", rates = [4.0, 8.0] }\n\
         [[workload.classes]]\nname = \"late\"\nstart = \"60 s\"\narrivals.poisson.request_rate = 2.0\n",
    );
    let output = desk.run("knee case.toml --goodput ttft:1000");
    let told = unfolded(&text(&output.stderr));
    assert!(
        told.contains("no knee can be found")
            && told.contains("class late never begins (it begins at 60.0 s"),
        "{told}"
    );
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_class_that_sends_nothing_is_named_and_leaves_the_others_to_be_judged() {
    let beside = |chat: &str, other: &str| {
        let desk = with_file(&format!(
            "[workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n\
             [[workload.classes]]\nname = \"chat\"\n{chat}arrivals.poisson.request_rate = 5.0\n\
             [[workload.classes]]\n{other}\narrivals.poisson.request_rate = 5.0\n"
        ));
        unfolded(&desk.expect(0, "run case.toml"))
    };
    let late = beside("num_prompts = 4000\n", "name = \"late\"\nstart = \"1000 h\"");
    assert!(
        late.contains("class late sent nothing: it begins at 3600000.0 s, and the run ends at"),
        "{late}"
    );
    let brief = beside("num_prompts = 4000\n", "name = \"blip\"\nduration = \"1 ms\"");
    assert!(
        brief.contains("class blip sent nothing: none of its requests came in"),
        "{brief}"
    );
    for told in [late, brief] {
        assert!(told.contains(" at 5.00 req/s"), "{told}");
        assert!(
            !told.contains("only that stretch") && !told.contains("there is no stretch"),
            "{told}"
        );
    }
}

#[test]
fn no_promise_is_kept_to_a_class_of_which_nothing_is_known() {
    let said = |rate: &str, num_prompts: u32| {
        let desk = with_file(&format!(
            "[slo.goodput]\nttft = \"1 s\"\n[workload]\nnum_prompts = {num_prompts}\n\
             [workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n\
             [[workload.classes]]\nname = \"chat\"\narrivals.poisson.request_rate = 10.0\n\
             [[workload.classes]]\nname = \"rare\"\narrivals.poisson.request_rate = {rate}\n"
        ));
        unfolded(&text(&desk.run("run case.toml").stdout))
    };
    let rare = said("0.00001", 3_000);
    assert!(
        rare.contains("met for chat (100 % good)") && rare.contains("not known of rare"),
        "{rare}"
    );
    assert!(!rare.contains("every class"), "{rare}");
    // Of a few hundred requests the good ones do not tell yet that 99 % of all are.
    assert!(said("2.0", 3_000).contains("NOT DECIDED of rare (100 % good)"));
    assert!(said("2.0", 30_000).contains("met for every class"));
}
