//! Mistakes that stand beside each other: all are told in one round, and none for another's sake.

use crate::config::tests::{BASE, resolve_text, told};

/// What is wrong with a scenario, in words.
fn wrong(text: &str) -> String {
    resolve_text(text).map(|_| ()).unwrap_err().to_string()
}

/// What is wrong with [`BASE`] and more below it.
fn beside(more: &str) -> String {
    wrong(&format!("{BASE}{more}"))
}

#[test]
fn mistakes_of_the_traffic_do_not_hide_those_of_the_machine() {
    let text = BASE
        .replace("request_rate = 4.0", "request_rate = 0")
        .replace(
            "gpu = \"H100-SXM-80GB\"",
            "gpu = \"H100-SXM-80GB\"\ntensor_parallel_size = 3",
        )
        .replace("output_len = 128", "output_len = 0");
    let told = wrong(&format!("{text}[slo.goodput]\nttft = \"500\"\n"));
    for part in [
        "`request_rate` must be above 0",
        "`output_len` must be at least 1",
        "`ttft` is not a duration",
        "cannot be divided by 3 ranks",
    ] {
        assert_eq!(told.matches(part).count(), 1, "{part}:\n{told}");
    }
    let text = BASE.replace("request_rate = 4.0", "request_rate = 0");
    let told = wrong(&format!("{text}[lmcache]\nload_bandwidth = \"-3 GB/s\"\n"));
    assert!(
        told.contains("request_rate") && told.contains("load_bandwidth"),
        "{told}"
    );
}

#[test]
fn a_wrong_rate_does_not_hide_lengths_classes_or_precision() {
    let text = BASE
        .replace(
            "[workload.arrivals.poisson]",
            "[workload]\nprecision = 2\n[workload.arrivals.poisson]",
        )
        .replace("request_rate = 4.0", "request_rate = 0")
        .replace("input_len = 1024", "input_len = 0");
    let told = wrong(&format!(
        "{text}[workload.prefix.groups]\ncount = 0\nprefix_len = 8\n[[workload.classes]]\nname = \"a\"\nshare = 0\n"
    ));
    for part in [
        "`request_rate` must be above 0",
        "`input_len` must be at least 1",
        "`precision` must lie between",
        "`count` must be at least 1",
        "`share` must be above 0",
    ] {
        assert_eq!(told.matches(part).count(), 1, "{part}:\n{told}");
    }
}

#[test]
fn a_rate_that_is_wrong_is_no_value_for_another() {
    let told = beside("[lmcache]\nload_bandwidth = \"-3 GB/s\"\n");
    assert_eq!(told.matches("error:").count(), 1, "{told}");
}

#[test]
fn an_event_with_one_mistake_is_whole() {
    let event = "[[cluster.events]]\nat = \"3 s\"\nreplica = 0\n";
    let told = beside(&format!("{event}kind = \"explode\"\n"));
    assert!(
        told.matches("error:").count() == 1 && told.contains("known are fail, up, drain"),
        "{told}"
    );
    let told = beside(event);
    assert!(told.contains("`events[0]` is not whole"), "{told}");
}

#[test]
fn classes_have_the_lengths_of_all_where_those_have_a_mistake() {
    let told = wrong(&BASE.replace(
        "[workload.lengths.fixed]\ninput_len = 1024\noutput_len = 128\n",
        "[[workload.classes]]\nname = \"a\"\nshare = 1\n[[workload.classes]]\nname = \"b\"\nshare = 1\n\
         [workload.lengths.lognormal]\ninput = { median = 100, sigma = 1, max = 1000 }\noutput = { median = 10, max = 100 }\n",
    ));
    assert!(
        told.contains("`sigma` is missing") && !told.contains("has no lengths"),
        "{told}"
    );
}

#[test]
fn a_link_is_named_by_what_it_is() {
    let told = beside("[cluster.link]\nkind = \"ib-400\"\n");
    assert!(
        told.contains("`kind` has no effect") && !told.contains('@'),
        "{told}"
    );
    let apart = "[cluster.prefill]\nreplicas = 1\n[cluster.decode]\nreplicas = 1\n[cluster.link]\nbandwidth = \"25 Gbit/s\"\n";
    let told = beside(&format!("{apart}kind = \"ib-4000\"\n"));
    assert!(
        told.contains("`kind` names no link") && told.contains("did you mean ib-400?"),
        "{told}"
    );
    assert!(resolve_text(&format!("{BASE}{apart}kind = \"ib-400\"\n")).is_ok());
}

#[test]
fn nothing_is_told_in_rusts_words_or_by_a_number_alone() {
    let class = "[[workload.classes]]\nname = \"a\"\nshare = 1\n";
    let told_of_class = beside(&format!("{class}priority = 1.5\n"));
    assert!(
        told_of_class.contains("`priority` must be a whole number\n"),
        "{told_of_class}"
    );
    let rates = told(
        "[workload.arrivals.poisson]\nrequest_rate = 4.0",
        "[workload.arrivals.profile]\npiece = \"60 s\"\nrates = [1, 2, -3]",
    );
    assert!(rates.contains("`rates[2]` must be at least 0"), "{rates}");
    let spread = told(
        "[workload.lengths.fixed]\n",
        "[workload.lengths.random]\nrange_ratio = 1.5\n",
    );
    assert!(
        spread.contains("must be at least 0 and below 1") && spread.contains("1.5 is not"),
        "{spread}"
    );
}
