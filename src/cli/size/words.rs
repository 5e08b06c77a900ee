//! The words of the command line: prices of cards under the flag of one price for all, and the command without what is only size's.

/// Flags that this command has and `run`, `knee` and `compare` do not take, or whose value the answer decides, with the words that
/// follow each.
const OWN: [(&str, usize); 19] = [
    ("--for-rate", 1),
    ("--headroom", 1),
    ("--spare", 1),
    ("--gpus", 1),
    ("--disaggregated", 0),
    ("--unpruned", 0),
    ("--prices", 1),
    ("--price-of", 1),
    ("-L", 2),
    ("--list", 2),
    ("-S", 4),
    ("--steps", 4),
    ("--link", 0),
    ("--variant", 1),
    ("-o", 1),
    ("--output", 1),
    ("--format", 1),
    ("--charts", 1),
    ("--dry-run", 0),
];
/// Those of what is found, which the answer gives again.
const FOUND: [(&str, usize); 6] = [
    ("--gpu", 1),
    ("--tensor-parallel-size", 1),
    ("--tensor_parallel_size", 1),
    ("--tp-size", 1),
    ("-tp", 1),
    ("--tp", 1),
];
/// Flags of every command.
const GLOBAL: [(&str, usize); 2] = [("--color", 1), ("--quiet", 0)];

/// Makes `--price h100=2.49` the flag of one card's price; `--price 2.49` stays that of all.
pub(in crate::cli) fn own_prices(args: &mut [String]) {
    const PRICE: &str = "--price";
    for at in 0..args.len() {
        if let Some(said) = args[at].strip_prefix("--price=")
            && said.contains('=')
        {
            args[at] = format!("--price-of={said}");
        } else if args[at] == PRICE && args.get(at + 1).is_some_and(|said| said.contains('=')) {
            args[at] = "--price-of".to_owned();
        }
    }
}

/// The words behind the command's name, for a command that says what was found by its own flags.
pub(super) fn without_own(words: &[String]) -> Vec<String> {
    let flags: Vec<(&str, usize)> = OWN.iter().chain(&FOUND).chain(&GLOBAL).copied().collect();
    without(&flags, words)
}

/// The same for a command that tells no cost.
pub(super) fn without_price(words: &[String]) -> Vec<String> {
    without(&[("--price", 1)], words)
}

/// The words without these flags, each with the words that follow it.
fn without(flags: &[(&str, usize)], words: &[String]) -> Vec<String> {
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, has_value) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (word.as_str(), false),
        };
        match flags.iter().find(|(flag, _)| *flag == name) {
            Some((_, follow)) if !has_value => {
                words.by_ref().take(*follow).for_each(drop);
            }
            Some(_) => {}
            None => rest.push(word.clone()),
        }
    }
    rest
}

/// A line for a shell.
pub(super) fn line(words: &[String]) -> String {
    let quoted = words
        .iter()
        .map(|word| shlex::try_quote(word).map_or_else(|_| word.clone(), std::borrow::Cow::into_owned));
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        shlex::split(line).unwrap()
    }

    #[test]
    fn a_price_with_a_card_is_that_cards() {
        let mut args = words("size m --price h100=2 --price=l40s=1 --price 2.5 --prices p.toml");
        own_prices(&mut args);
        let told = "size m --price-of h100=2 --price-of=l40s=1 --price 2.5 --prices p.toml";
        assert_eq!(args, words(told));
    }

    #[test]
    fn what_is_only_sizes_is_left_out_with_its_values() {
        let all = "m --for-rate 100 -L max-num-seqs 8,16 --gpus=h100,l40s --goodput ttft:500 tpot:50 --spare 1 -tp 2 --quiet --charts a --router \
                   least_requests";
        assert_eq!(
            line(&without_own(&words(all))),
            "m --goodput ttft:500 tpot:50 --router least_requests"
        );
        let priced = words("m --price 2.5 --price=3 -pp 2");
        assert_eq!(line(&without_price(&priced)), "m -pp 2");
    }
}
