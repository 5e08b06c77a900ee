//! Purchases of invented settings, by arithmetic that can be done by hand.

use super::*;
use crate::analysis::Estimate;
use crate::analysis::costs::Rent;
use crate::analysis::knee::{Demand, Fleet, NeededBy};
use crate::report::knees::Priced;
use crate::report::{KneeView, Sizing, fixtures};

/// A setting of one GPU a replica that takes so much within the SLO, at a price an hour; replicas by its knee for 100 req/s.
fn row(knee: f64, usd: f64, spares: u64) -> KneeRow {
    let estimate = Estimate {
        value: knee,
        low: knee / 1.01,
        high: knee * 1.01,
    };
    let demand = Demand {
        rate: 100.0,
        gpus_per_replica: 1,
        usd_per_gpu_hour: Some(usd),
    };
    let fleet = Fleet::by_knee(estimate, &demand, Some((1000.0, 100.0)), Some((0.9, 1.1)));
    let view = KneeView {
        knee: Some(estimate),
        sizing: Some(Sizing {
            demand,
            fleet: Some(fleet.with_spares(spares)),
            spares,
            ..fixtures::sizing()
        }),
        ..fixtures::knee_view()
    };
    KneeRow {
        labels: Vec::new(),
        found: Found::Knee(Box::new(Priced {
            view,
            is_cut: false,
            gpus: 1,
            rent: Ok(Rent {
                pools: vec![(String::new(), 1.0, usd)],
                is_mean: false,
                source: "as given".to_owned(),
            }),
            parameters: Vec::new(),
        })),
    }
}

fn config(gpu: &str, size: u32) -> Config {
    Config {
        gpu: gpu.to_owned(),
        named: gpu.to_owned(),
        tensor_parallel: size.to_string(),
        pipeline_parallel: 1,
        data_parallel: 1,
        rest: Vec::new(),
    }
}

fn shop(rows: Vec<(Config, KneeRow)>, spares: u64) -> Purchases {
    let (configs, rows) = rows.into_iter().unzip();
    let knees = Knees {
        subject: "Llama-3.1-8B-Instruct".to_owned(),
        rows,
        price_source: "2.00 $ per GPU-hour, as given".to_owned(),
    };
    let demand = DemandView {
        rate: Some(100.0),
        of_loop: None,
        in_flight_max: None,
        headroom: 1.0,
        source: "as --for-rate says".to_owned(),
    };
    Purchases {
        demand,
        ..Purchases::new(knees, configs, spares)
    }
}

/// 100 requests a second are 3.57 replicas of 28 and 2.08 of 48: four of one cost 8 $, three of the other 9 $, and with one more 10 $ and 12 $.
#[test]
fn what_is_bought_is_the_cheapest_and_a_failure_is_told() {
    let two = |spares| {
        let rows = vec![
            (config("H100", 1), row(48.0, 3.0, spares)),
            (config("L40S", 1), row(28.0, 2.0, spares)),
        ];
        shop(rows, spares)
    };
    let bare = two(0);
    assert_eq!(
        answer(&bare),
        "buy 4 × L40S (TP 1): 8.00 $/h for 100 req/s within the SLO, by the knee of one and NOT SIMULATED; with one down it is missed (one \
         more survives that: 10.00 $/h)"
    );
    let offers = bare.offers();
    assert_eq!(
        (offers[0].row, offers[0].rank, offers[1].row),
        (Some(1), 1, Some(0))
    );
    assert_eq!(answer::survival(&offers[0]), "NO (3 left: 119 %)");
    assert_eq!(offers[1].load, Some(100.0 / 48.0 / 3.0));
    let printed = text(&bare, None);
    assert!(printed.contains("\nN+1       the cheapest that meets the SLO with any one replica down: 5 × L40S (TP 1), 10.00 $/h"), "{printed}");
    assert!(
        printed.contains("by the knee of one, not simulated, and so is what survives (several data-parallel"),
        "{printed}"
    );
    // What tells a load is said where it is not the fleet itself.
    assert!(printed.contains("  89.3 %*  "), "{printed}");
    assert!(
        printed.contains("\nload      * by the knees of so many replicas, each alone\n"),
        "{printed}"
    );
    let mut mixed = bare.offers();
    mixed[1].load_by = Some(NeededBy::Fleet);
    let told = answer::loads(&mixed).unwrap();
    assert!(told.contains("; the others by the runs"), "{told}");
    mixed[0].load_by = Some(NeededBy::AtMost);
    assert_eq!(answer::loads(&mixed), None);
    let safe = two(1);
    assert!(
        answer(&safe).starts_with("buy 5 × L40S (TP 1): 10.00 $/h")
            && answer(&safe).ends_with("with one down still within it")
    );
    assert_eq!(answer::survival(&safe.offers()[0]), "yes (89.3 %)");
    assert!(!text(&safe, None).contains("N+1"));
}

/// A spare makes few large replicas dearer than many small ones.
#[test]
fn what_survives_a_failure_may_be_another_card() {
    let rows = vec![
        (config("big", 1), row(100.0, 8.0, 0)),
        (config("small", 1), row(10.0, 0.9, 0)),
    ];
    let both = shop(rows, 0);
    assert!(
        answer(&both).starts_with("buy 1 × big (TP 1): 8.00 $/h"),
        "{}",
        answer(&both)
    );
    assert!(answer(&both).ends_with("; with it down nothing is served (one more survives that: 16.00 $/h)"));
    let told = answer::surviving(&both).unwrap();
    assert!(told.contains("11 × small (TP 1), 9.90 $/h"), "{told}");
}

#[test]
fn what_is_no_purchase_is_named_in_a_line_each() {
    let found = |found| KneeRow {
        labels: Vec::new(),
        found,
    };
    let misfit = |why: &str| {
        found(Found::DoesNotFit(format!(
            "{why}; smallest change that fits: -tp 8"
        )))
    };
    let rows = vec![
        (config("T4", 1), misfit("needs 15 GiB")),
        (config("T4", 2), misfit("needs 7 GiB")),
        (config("L4", 1), misfit("no room")),
        (
            config("L40S", 8),
            found(Found::Pruned("at least 30 $/h".to_owned())),
        ),
        (config("H100", 1), row(48.0, 3.0, 0)),
    ];
    let all = shop(rows, 0);
    let printed = text(&all, Some(200));
    assert!(
        printed.contains("\nno fit    T4 up to TP2 (needs 7 GiB); L4 TP1 (no room)\n"),
        "{printed}"
    );
    assert!(
        printed.contains("\npruned    L40S TP8: even replicas that are always full"),
        "{printed}"
    );
    assert!(!printed.contains("smallest change"), "{printed}");
    // Cards that lack the same stand together, with what they have of it.
    let short = |gpu: &str, has: u32| {
        let why = format!("needs 15 GiB a GPU, {gpu} offers {has} GiB");
        (config(gpu, 1), misfit(&why))
    };
    let several = shop(vec![short("T4", 14), short("P4", 7), short("K4", 14)], 0);
    assert_eq!(
        others::unfit(&several).unwrap(),
        "T4, P4, K4 TP1 (needs 15 GiB a GPU, they offer 14 GiB, 7 GiB)"
    );
    let none = shop(vec![(config("T4", 1), misfit("needs 15 GiB"))], 0);
    assert_eq!(
        answer(&none),
        "NOTHING FITS: no card that was tried holds the model"
    );
    assert!(md(&all).starts_with("buy 3 × H100 (TP 1)"));
    assert_eq!(csv(&all).lines().count(), 6);
}
