//! What README and the pages say of errors and intervals is what the tables of docs/errors.md hold.

use super::root;

const NUMBERS: [&str; 31] = [
    "none",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
    "twenty-one",
    "twenty-two",
    "twenty-three",
    "twenty-four",
    "twenty-five",
    "twenty-six",
    "twenty-seven",
    "twenty-eight",
    "twenty-nine",
    "thirty",
];

/// A page as one line.
fn page(path: &str) -> String {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Families of the first table and how many of their values lie inside, in per cent; `overall` is the last.
fn inside() -> Vec<(String, f64)> {
    let text = std::fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("## Runs of families marked `validate`"))
        .skip_while(|line| !line.starts_with("| :--"))
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let share = cells[cells.len() - 1].trim_end_matches(" %").parse().unwrap();
        (cells[0].to_owned(), share)
    })
    .collect()
}

#[test]
fn pages_say_how_many_values_lie_inside_as_the_tables_do() {
    let mut families = inside();
    let (last, overall) = families.pop().unwrap();
    assert_eq!(last, "overall");
    let mean = |of: &dyn Fn(f64) -> bool| {
        let kept: Vec<f64> = families
            .iter()
            .map(|family| family.1)
            .filter(|share| of(*share))
            .collect();
        (
            NUMBERS[kept.len()],
            (kept.iter().sum::<f64>() / kept.len() as f64).round(),
        )
    };
    assert!((mean(&|_| true).1 - overall.round()).abs() <= 1.0);
    let ((full, _), (most, by_most), (few, by_few)) = (
        mean(&|share| share >= 90.0),
        mean(&|share| share >= 50.0),
        mean(&|share| share < 50.0),
    );
    let all = NUMBERS[families.len()];
    for (path, told) in [
        ("README.md", format!("{overall} % lie inside")),
        (
            "docs/trust.md",
            format!("{overall} % lie inside the 90 % interval"),
        ),
        (
            "docs/trust.md",
            format!(
                "90 % or more in {full} of the {all} families, {by_most} % in {most} taken together; {few} families"
            ),
        ),
        (
            "docs/errors.md",
            format!("It holds {overall} % of the values instead of 90 %"),
        ),
        (
            "docs/errors.md",
            format!(
                "In {full} of the {all} families it holds 90 % or more, and in {most} taken together {by_most} %"
            ),
        ),
        ("docs/errors.md", format!("are told of below, hold {by_few} %")),
    ] {
        assert!(page(path).contains(&told), "{path}: {told}");
    }
}

/// The first line of `docs/errors.md` over all runs that nothing was fitted to.
#[test]
fn readme_has_the_errors_of_the_tables() {
    let errors = page("docs/errors.md");
    let (_, line) = errors.split_once("median error over ").unwrap();
    let (runs, _) = line.split_once(" of ").unwrap();
    let of = |name: &str| {
        let (_, rest) = line.split_once(&format!("{name} ")).unwrap();
        rest.split_once(" %").unwrap().0.to_owned()
    };
    let told = format!(
        "Median errors over {runs} published runs that nothing was fitted to, families weighing alike: TTFT {} %, TPOT {} %, E2E latency {} %, throughput {} %",
        of("ttft"),
        of("tpot"),
        of("e2el"),
        of("throughput"),
    );
    let readme = page("README.md");
    assert!(readme.contains(&told), "{told}");
    let (_, rows) = line.split_once("every row alike: ").unwrap();
    let of = |name: &str| {
        let (_, rest) = rows.split_once(&format!("{name} ")).unwrap();
        rest.split_once(" %").unwrap().0.to_owned()
    };
    let told = format!(
        "Every row alike they are {}, {}, {} and {} %",
        of("ttft"),
        of("tpot"),
        of("e2el"),
        of("throughput")
    );
    assert!(readme.contains(&told), "{told}");
}

#[test]
fn the_words_of_known_errors_are_those_that_are_written_by_hand() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert!(read("docs/errors.md").starts_with(&read("docs/errors-words.md")));
}
