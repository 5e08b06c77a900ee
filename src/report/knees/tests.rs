//! Rankings of invented searches, by arithmetic that can be done by hand.

#[cfg(test)]
mod ranks;

use super::super::fixtures;
use super::*;
use crate::analysis::Estimate;
use crate::analysis::knee::WhenFull;
use crate::calibrate::interval::FigureInterval;
use crate::report::{Sizing, Sought};

/// A setting that takes so much within the SLO, known within a tenth by chance; its model's doubt is a factor either way.
fn row(gpu: &str, knee: f64, doubt: f64, usd_per_hour: Option<f64>) -> KneeRow {
    let reach = f64::ln(doubt);
    let model = FigureInterval {
        name: "knee",
        sigma_ln: reach / 1.645,
        reach_ln: (reach, reach),
        parts: vec![(Component::Host, reach / 1.645)],
    };
    let view = KneeView {
        knee: Some(Estimate {
            value: knee,
            low: knee / 1.1,
            high: knee * 1.1,
        }),
        model: Some(model),
        output_tokens_per_s: Some(100.0 * knee),
        ..fixtures::knee_view()
    };
    KneeRow {
        labels: vec![("gpu".to_owned(), gpu.to_owned())],
        found: Found::Knee(Box::new(Priced {
            view,
            is_cut: false,
            gpus: 2,
            rent: match usd_per_hour {
                Some(usd) => Ok(Rent {
                    pools: vec![(String::new(), 2.0, usd)],
                    is_mean: false,
                    source: "assumed list price of 2025-10-01".to_owned(),
                }),
                None => Err(format!("the profile of {gpu} has no [price]")),
            },
            parameters: vec![(Component::Host, gpu.to_owned())],
        })),
    }
}

fn knees(rows: Vec<KneeRow>) -> Knees {
    Knees {
        subject: "Llama-3.1-8B-Instruct".to_owned(),
        rows,
        price_source: "assumed list prices, $ per GPU-hour: a 1.80 (2025-10-01)".to_owned(),
    }
}

/// 3.6 dollars buy an hour of 1,000 output tokens a second, 3.6 million.
#[test]
fn a_million_tokens_cost_what_an_hour_at_the_knee_does() {
    let all = row("a", 10.0, 1.0, Some(3.6));
    let priced = all.priced().unwrap();
    assert!((priced.usd_per_million_output_tokens().unwrap() - 1.0).abs() < 1e-12);
    // A factor of 1.1 with 95 % confidence is one of 1.1^(1.645 / 1.96) = 1.0833 with 90 %.
    let (low, high) = priced.cost().unwrap().interval_90().unwrap();
    assert!((high - 1.0833).abs() < 1e-4 && (low * high - 1.0).abs() < 1e-12);
    let mut unknown = priced.clone();
    unknown.view.model = None;
    assert_eq!(unknown.cost().unwrap().interval_90(), None);
}

#[test]
fn the_cheapest_is_named_with_those_that_may_be_as_cheap() {
    let told = |rows| text(&knees(rows), None).lines().next().unwrap().to_owned();
    let three = |doubt| {
        vec![
            row("a", 10.0, doubt, Some(3.6)),
            row("b", 40.0, doubt, Some(7.2)),
            row("c", 5.0, doubt, Some(7.2)),
        ]
    };
    assert_eq!(
        told(three(1.0)),
        "cheapest within the SLO: gpu = b, 0.50 $/M output tokens (40.0 req/s on 2 GPUs, 7.20 $/h)"
    );
    // The ratio of 2 is known within exp(√2·√(0.08² + ln(1.6)²)) = 1.96, and within 2.15 where the doubt is a factor of 1.7.
    assert_eq!(told(three(1.6)), told(three(1.0)));
    assert_eq!(
        told(three(1.7)),
        "cheapest within the SLO: gpu = b, 0.50 $/M output tokens (40.0 req/s on 2 GPUs, 7.20 $/h); \
         1 other may be as cheap"
    );
    let line = |rows, at: usize| text(&knees(rows), None).lines().nth(at).unwrap().to_owned();
    assert_eq!(
        line(three(1.7), 1),
        "alike     by the model's doubt, chance alone would tell them apart: gpu = a"
    );
    let dear = vec![row("a", 10.0, 1.0, Some(1.0)), row("b", 40.0, 1.0, Some(99.0))];
    assert_eq!(
        told(dear.clone()),
        "cheapest within the SLO: gpu = a, 0.28 $/M output tokens (10.0 req/s on 2 GPUs, 1.00 $/h)"
    );
    assert_eq!(line(dear, 1), "most      40.0 req/s: gpu = b");
    let unpriced = vec![row("a", 10.0, 1.0, None), row("b", 40.0, 1.0, None)];
    assert_eq!(told(unpriced), "most req/s within the SLO: gpu = b, 40.0");
    let cut = vec![
        row("a", 10.0, 1.0, None),
        KneeRow {
            found: Found::NotRun,
            ..row("b", 1.0, 1.0, None)
        },
    ];
    assert_eq!(
        told(cut),
        "INTERRUPTED: 1 of 2 settings was searched; req/s of it within the SLO: gpu = a, 10.0"
    );
}

/// A column where any setting has it, and always one in CSV.
#[test]
fn what_a_full_server_serves_stands_beside_what_saturates_it() {
    let mut rows = vec![row("a", 10.0, 1.0, Some(3.6)), row("b", 40.0, 1.0, Some(7.2))];
    assert!(!text(&knees(rows.clone()), None).contains("once full"));
    let Found::Knee(priced) = &mut rows[1].found else {
        unreachable!("it is a search");
    };
    priced.view.when_full = Some(WhenFull {
        served: Estimate {
            value: 36.0,
            low: 35.0,
            high: 37.0,
        },
        rate: 60.0,
        preemptions: 0.2,
    });
    let all = knees(rows);
    let told = text(&all, None);
    let line = |has: &str| told.lines().find(|line| line.contains(has)).unwrap();
    // Columns of figures end where their heads do.
    let head = line("saturates");
    let end = head[..head.find("once full").unwrap()].chars().count() + "once full".len();
    let cell = |gpu: &str| -> String {
        let cells: String = line(&format!("  {gpu} ")).chars().take(end).collect();
        cells.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!([cell("a"), cell("b")], ["–", "36.0"], "{told}");
    assert!(
        told.contains("once full gpu = b: less than the knee is served"),
        "{told}"
    );
    let rows = csv_rows(&csv(&all));
    let place = rows[0].iter().position(|name| name == "when_full").unwrap();
    assert_eq!(rows[2][place..place + 3], ["36", "35", "37"]);
    assert_eq!(rows[1][place..place + 3], ["", "", ""]);
}

/// The first line says how many are as cheap, a line below it which, and files each.
#[test]
fn all_that_cannot_be_told_from_the_best_are_named() {
    let named = |number: usize| {
        let rows = (0..number).map(|at| row(&format!("g{at:02}"), 40.0 - 0.01 * at as f64, 1.0, Some(3.6)));
        knees(rows.chain([row("z", 5.0, 1.0, Some(3.6))]).collect())
    };
    let told = |number: usize| text(&named(number), Some(80));
    let unfolded = |told: String| told.split_whitespace().collect::<Vec<_>>().join(" ");
    let four = unfolded(told(4));
    assert!(
        four.contains("rank them otherwise: gpu = g01; gpu = g02 and gpu = g03 simulated"),
        "{four}"
    );
    let six = told(6);
    let first: Vec<&str> = six.lines().take(6).collect();
    insta::assert_snapshot!(first.join("\n"), @r"
    cheapest within the SLO: gpu = g00, 0.25 $/M output tokens (40.0 req/s on 2
      GPUs, 3.60 $/h); 5 others may be as cheap
    alike     by chance, another run may rank them otherwise: gpu = g01; gpu = g02;
              gpu = g03; gpu = g04 and gpu = g05
    simulated Llama-3.1-8B-Instruct
    SLO       99.0 % of requests with TTFT ≤ 500 ms and TPOT ≤ 50.0 ms
    ");
    let many = told(40);
    assert!(many.lines().all(|line| line.chars().count() <= 80), "{many}");
    let unfolded = unfolded(many.clone());
    assert!(
        unfolded.contains("39 others may be as cheap")
            && unfolded.contains("gpu = g16 and 23 more (`standing` of CSV and JSON has them all)"),
        "{many}"
    );
    let rows = csv_rows(&csv(&named(6)));
    let column = rows[0].iter().position(|name| name == "standing").unwrap();
    let words: Vec<&str> = rows[1..].iter().map(|row| row[column].as_str()).collect();
    assert_eq!(
        words,
        ["best", "alike", "alike", "alike", "alike", "alike", "worse"]
    );
    let column = rows[0].iter().position(|name| name == "alike_by").unwrap();
    let words: Vec<&str> = rows[1..].iter().map(|row| row[column].as_str()).collect();
    assert_eq!(words, ["", "chance", "chance", "chance", "chance", "chance", ""]);
    // Of equal ones the first, in words as in files.
    let equal = knees(vec![row("a", 40.0, 1.0, None), row("b", 40.0, 1.0, None)]);
    assert!(
        text(&equal, None)
            .starts_with("most req/s within the SLO: gpu = a, 40.0; 1 other may serve as much\n")
    );
    assert_eq!(equal.standing_words(), [Some("best"), Some("alike")]);
    // By what they serve, where no price is known.
    let unpriced = vec![row("a", 40.0, 1.0, None), row("b", 38.0, 1.0, None)];
    assert!(
        text(&knees(unpriced), None)
            .starts_with("most req/s within the SLO: gpu = a, 40.0; 1 other may serve as much\n")
    );
}

/// A replica of two cards takes 24.2 of 40 req/s.
#[test]
fn fleets_are_ranked_by_the_hour() {
    let sized = |gpu: &str, usd: f64| {
        let mut row = row(gpu, 24.2, 1.0, Some(2.0 * usd));
        let Found::Knee(priced) = &mut row.found else {
            unreachable!("it was searched")
        };
        let mut asked: Sizing = fixtures::sizing();
        let fleet = asked.fleet.as_mut().unwrap();
        fleet.usd_per_hour = Some(usd * fleet.gpus as f64);
        priced.view.sizing = Some(asked);
        row
    };
    let loaded = |gpu: &str, load: f64| {
        let mut row = sized(gpu, 2.0);
        if let Found::Knee(priced) = &mut row.found {
            let fleet = priced.view.sizing.as_mut().and_then(|asked| asked.fleet.as_mut());
            fleet.unwrap().load = Some(load);
        }
        row
    };
    // Of two that cost the same the one whose replicas are loaded less.
    let equal = knees(vec![loaded("a", 0.9), loaded("b", 0.7)]);
    assert!(text(&equal, None).starts_with("cheapest for 40.0 req/s: gpu = b, "));
    assert_eq!(equal.standing_words(), [Some("alike"), Some("best")]);
    let told = text(&knees(vec![sized("a", 3.0), sized("b", 2.0)]), None);
    let first = told.lines().next().unwrap();
    assert!(
        first.starts_with("cheapest for 40.0 req/s: gpu = b, 8.00 $/h (2 replicas, 4 GPUs, "),
        "{first}"
    );
}

/// What is wrong with the step time moves both settings of a card: two that differ by a fifth are told apart though each may be
/// off by a half.
#[test]
fn doubts_that_two_settings_share_do_not_hide_which_is_cheaper() {
    let on = |card: &str, name: &str, knee: f64| {
        let mut row = row(name, knee, 1.5, Some(3.6));
        let Found::Knee(priced) = &mut row.found else {
            unreachable!("it was searched")
        };
        priced.parameters = vec![(Component::Host, card.to_owned())];
        row
    };
    let told = |rows| text(&knees(rows), None).lines().next().unwrap().to_owned();
    let apart = "cheapest within the SLO: gpu = b, 0.83 $/M output tokens (12.0 req/s on 2 GPUs, 3.60 $/h)";
    assert_eq!(told(vec![on("h100", "a", 10.0), on("h100", "b", 12.0)]), apart);
    assert_eq!(
        told(vec![on("h100", "a", 10.0), on("l40s", "b", 12.0)]),
        format!("{apart}; 1 other may be as cheap")
    );
}

#[test]
fn a_cut_says_what_is_known_and_no_more() {
    let cut = |is_kept: bool| {
        let mut row = row("a", 10.0, 1.0, Some(3.6));
        let Found::Knee(priced) = &mut row.found else {
            unreachable!("it was searched")
        };
        priced.is_cut = true;
        priced.view.knee = priced.view.knee.filter(|_| is_kept);
        row
    };
    let told = |rows| text(&knees(rows), None).lines().next().unwrap().to_owned();
    let nothing = "nothing is known yet of what meets the SLO";
    let not_run = || KneeRow {
        found: Found::NotRun,
        ..row("b", 1.0, 1.0, None)
    };
    assert_eq!(
        told(vec![not_run(), not_run()]),
        format!("INTERRUPTED: 0 of 2 settings were searched; {nothing}")
    );
    assert_eq!(
        told(vec![cut(false), not_run()]),
        format!("INTERRUPTED: 0 of 2 settings were searched; {nothing}")
    );
    let table = text(&knees(vec![cut(false), not_run()]), None);
    let cut_row = table.lines().find(|line| line.ends_with("interrupted")).unwrap();
    let cells: Vec<&str> = cut_row.split_whitespace().collect();
    assert_eq!(cells[..5], ["a", "–", "–", "–", "–"], "{table}");
    // What a search found until it was cut short is no knee, however cheap it looks.
    let whole = |gpu: &str, knee: f64| row(gpu, knee, 1.0, Some(7.2));
    assert_eq!(
        told(vec![cut(true), not_run()]),
        "INTERRUPTED: 0 of 2 settings were searched; at least 10.0 req/s within the SLO until then: gpu = a"
    );
    let missed = || {
        let mut row = cut(false);
        if let Found::Knee(priced) = &mut row.found {
            priced.is_cut = false;
        }
        row
    };
    assert_eq!(
        told(vec![missed(), not_run()]),
        "INTERRUPTED: 1 of 2 settings was searched; it does not meet the SLO"
    );
    let three = || vec![cut(true), whole("c", 5.0), whole("d", 9.0)];
    assert_eq!(
        told(three()),
        "INTERRUPTED: 2 of 3 settings were searched; cheapest of these within the SLO: gpu = d, 2.22 $/M output tokens \
         (9.00 req/s on 2 GPUs, 7.20 $/h)"
    );
    let knees = knees(three());
    let standings = [None, Some("worse"), Some("best")];
    assert_eq!(knees.standing_words(), standings);
    let mut objects: Vec<serde_json::Value> = (crate::report::json::knee_settings(&knees).iter())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let placed = objects.clone();
    for (object, standing) in objects.iter_mut().zip(standings) {
        assert_eq!(
            (object["standing"].as_str(), &object["interrupted_after_settings"]),
            (standing, &2.into())
        );
        object["standing"] = "of another file".into();
    }
    place(&mut objects);
    assert_eq!(objects, placed);
    assert_eq!(cut(true).state(), "interrupted");
}

/// The cheapest stands first, what is not known of some stands with their names, and every row has all columns.
#[test]
fn a_table_for_people_is_ranked_and_says_what_it_rests_on() {
    let failed = KneeRow {
        found: Found::Failed("no knee can be found".to_owned()),
        ..row("f", 1.0, 1.0, None)
    };
    let mut noted = row("c", 5.0, 1.1, None);
    let Found::Knee(priced) = &mut noted.found else {
        unreachable!("it was searched")
    };
    priced.view.notes = vec!["its interval is wide".to_owned()];
    let all = knees(vec![
        failed,
        noted,
        row("a", 10.0, 1.1, Some(3.6)),
        row("b", 40.0, 1.1, Some(7.2)),
    ]);
    insta::assert_snapshot!(text(&all, Some(140)), @r"
    cheapest within the SLO: gpu = b, 0.50 $/M output tokens (40.0 req/s on 2 GPUs, 7.20 $/h)
    simulated Llama-3.1-8B-Instruct
    SLO       99.0 % of requests with TTFT ≤ 500 ms and TPOT ≤ 50.0 ms
    prices    assumed list prices, $ per GPU-hour: a 1.80 (2025-10-01)
    but       gpu = f: was not searched: no knee can be found
    but       gpu = c: no price is told: the profile of c has no [price]
    note      gpu = c: its interval is wide

      gpu  req/s          95 %    model 90 %  saturates  GPUs   $/h  $/M out          90 %  $/M in+out  kernels        limited by
      b     40.0  [36.3, 44.0]  [36.3, 44.0]       27.6     2  7.20     0.50  [0.44, 0.57]      0.0695  roofline only  p99 TTFT
      a     10.0  [9.09, 11.0]  [9.09, 11.0]       27.6     2  3.60     1.00  [0.88, 1.13]      0.0388  roofline only  p99 TTFT
      c     5.00  [4.54, 5.50]  [4.54, 5.50]       27.6     2     –        –             –           –  roofline only  p99 TTFT
      f        –             –             –          –     –     –        –             –           –                 failed

    assumed   gpu_memory_utilization 0.92 (default of vllm@0.33)
    ");
    insta::assert_snapshot!(md(&all), @r"
    cheapest within the SLO: gpu = b, 0.50 $/M output tokens (40.0 req/s on 2 GPUs, 7.20 $/h)

    | gpu | req/s | 95 % | model 90 % | saturates | GPUs | $/h | $/M out | 90 % | $/M in+out | kernels | limited by |
    | :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: | :-- | :-- |
    | b | 40.0 | [36.3, 44.0] | [36.3, 44.0] | 27.6 | 2 | 7.20 | 0.50 | [0.44, 0.57] | 0.0695 | roofline only | p99 TTFT |
    | a | 10.0 | [9.09, 11.0] | [9.09, 11.0] | 27.6 | 2 | 3.60 | 1.00 | [0.88, 1.13] | 0.0388 | roofline only | p99 TTFT |
    | c | 5.00 | [4.54, 5.50] | [4.54, 5.50] | 27.6 | 2 | – | – | – | – | roofline only | p99 TTFT |
    | f | – | – | – | – | – | – | – | – | – |  | failed |

    * simulated: Llama-3.1-8B-Instruct
    * SLO: 99.0 % of requests with TTFT ≤ 500 ms and TPOT ≤ 50.0 ms
    * prices: assumed list prices, $ per GPU-hour: a 1.80 (2025-10-01)
    * but: gpu = f: was not searched: no knee can be found
    * but: gpu = c: no price is told: the profile of c has no [price]
    * note: gpu = c: its interval is wide
    * assumed: gpu_memory_utilization 0.92 (default of vllm@0.33)
    ");
}

#[test]
fn what_does_not_fit_is_a_row_with_its_reason() {
    let misfit = KneeRow {
        found: Found::DoesNotFit("needs 131.4 GiB".to_owned()),
        ..row("t4", 1.0, 1.0, None)
    };
    let mixed = knees(vec![row("a", 10.0, 1.0, Some(3.6)), misfit.clone()]);
    let table = text(&mixed, None);
    assert!(
        table.contains("gpu = t4: does not fit: needs 131.4 GiB"),
        "{table}"
    );
    let rows: Vec<Vec<String>> = csv_rows(&csv(&mixed));
    assert_eq!(rows[1].len(), rows[2].len());
    assert_eq!(rows[2][rows[2].len() - 2..], ["does_not_fit", "needs 131.4 GiB"]);
    let none = knees(vec![misfit]);
    assert!(text(&none, None).starts_with("NO SETTING fits\n"));
    assert!(!none.is_any_kept());
}

fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let mut reader = ::csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_bytes());
    let rows = reader
        .records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect());
    rows.collect()
}
