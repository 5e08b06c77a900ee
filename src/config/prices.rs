//! `--prices FILE.toml` and `--price GPU=USD`: what a GPU-hour of each card costs whoever buys it, in place of the list prices of the
//! cards' profiles.
//!
//! Law: a card has one price. A flag's wins over the file's, and two of one source for one card are an error, however they are spelt.

use toml::Value;

use super::diagnostic::{Diagnostic, Diagnostics, Place};
use super::document::Document;
use super::files::{Files, text_of};
use super::price::USD_MAX;
use crate::hardware::{self, Device};

/// The flag of a file of prices.
const FILE: &str = "--prices";
/// The flag of one card's.
const FLAG: &str = "--price";
/// How a file of prices is written.
const LIKE: &str = "a line a card, US dollars per GPU-hour: H100-SXM-80GB = 2.49";

/// US dollars per GPU-hour of cards by their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    each: Vec<(String, f64)>,
    /// How names were read that fit several cards.
    pub notes: Vec<String>,
}

impl Prices {
    /// Reads a file and flags, each `GPU=USD`; `own` are cards that are known beside those that ship.
    ///
    /// # Errors
    /// All that is wrong with them: unknown cards, what is no price, and a card that has two.
    pub fn read(
        file: Option<&str>,
        flags: &[String],
        own: &[Device],
        files: &dyn Files,
    ) -> Result<Prices, Diagnostics> {
        let (mut prices, mut problems) = (Prices::default(), Vec::new());
        let said = flags.iter().map(|flag| of_flag(flag));
        let (given, wrong): (Vec<_>, Vec<_>) = said.partition(Result::is_ok);
        problems.extend(wrong.into_iter().filter_map(Result::err));
        prices.take(given.into_iter().flatten().collect(), own, &mut problems);
        match file.map(|path| of_file(path, files)).transpose() {
            Ok(of_file) => prices.take(of_file.unwrap_or_default(), own, &mut problems),
            Err(wrong) => problems.push(wrong),
        }
        match problems.is_empty() {
            true => Ok(prices),
            false => Err(Diagnostics(problems)),
        }
    }

    /// That of a card, by its id.
    #[must_use]
    pub fn of(&self, id: &str) -> Option<f64> {
        let mut each = self.each.iter();
        each.find(|(known, _)| known == id).map(|(_, usd)| *usd)
    }

    /// Whether none was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Takes the prices of one source, where an earlier one has none of the card.
    fn take(&mut self, said: Vec<Said>, own: &[Device], problems: &mut Vec<Diagnostic>) {
        let mut taken: Vec<(String, String)> = Vec::new();
        for Said { gpu, usd, place } in said {
            let id = match card(&gpu, own) {
                Ok((id, note)) => {
                    self.notes.extend(note);
                    Some(id)
                }
                Err(mut unknown) => {
                    unknown.place = place.clone();
                    problems.push(unknown);
                    None
                }
            };
            let is_price = |usd: &f64| (0.0..USD_MAX).contains(usd);
            let Some(usd) = usd.filter(is_price) else {
                let wrong = Diagnostic::new(format!("the price of {gpu} must be US dollars per GPU-hour"));
                problems.push(wrong.at(place).help(LIKE));
                continue;
            };
            let Some(id) = id else { continue };
            if let Some((_, first)) = taken.iter().find(|(known, _)| *known == id) {
                let twice = Diagnostic::new(format!("{gpu} is {id}, which {first} gives a price, too"));
                problems.push(twice.at(place).help("leave one of the two out"));
                continue;
            }
            if self.of(&id).is_none() {
                self.each.push((id.clone(), usd));
            }
            taken.push((id, gpu));
        }
    }
}

/// A price as it was written; none where that is no number.
struct Said {
    gpu: String,
    usd: Option<f64>,
    place: Place,
}

/// `h100=2.49`.
fn of_flag(text: &str) -> Result<Said, Diagnostic> {
    let place = Place::Flag(FLAG.to_owned());
    let Some((gpu, usd)) = text.split_once('=') else {
        let wrong = Diagnostic::new(format!("`{FLAG} {text}` names no card and no price of it"));
        return Err(wrong
            .at(place)
            .help(format!("write it like {FLAG} h100=2.49,l40s=0.80")));
    };
    Ok(Said {
        gpu: gpu.trim().to_owned(),
        usd: usd.trim().parse().ok(),
        place,
    })
}

fn of_file(path: &str, files: &dyn Files) -> Result<Vec<Said>, Diagnostic> {
    let at_flag = |message: String| Diagnostic::new(message).at(Place::Flag(FILE.to_owned()));
    let text = text_of(path, files)
        .map_err(|(what, why)| at_flag(format!("`{FILE}` {what}")).label(why).help(LIKE))?;
    let document = Document::parse(path, &text)?;
    let said = document.table().iter().map(|(gpu, value)| Said {
        gpu: gpu.clone(),
        usd: match value {
            Value::Float(usd) => Some(*usd),
            Value::Integer(usd) => Some(*usd as f64),
            _ => None,
        },
        place: document.place(gpu),
    });
    let mut said: Vec<Said> = said.collect();
    // A table is in the order of its keys, and problems are told in that of the file.
    said.sort_by_key(|said| match &said.place {
        Place::File(_, span) => span.start,
        Place::Flag(_) | Place::Nowhere => 0,
    });
    match said.is_empty() {
        true => Err(at_flag(format!("`{FILE}`: {path} holds no price")).help(LIKE)),
        false => Ok(said),
    }
}

/// The id of a card, and how its name was read where it fits several.
fn card(name: &str, own: &[Device]) -> Result<(String, Option<String>), Diagnostic> {
    if own.iter().any(|device| device.id == name) {
        return Ok((name.to_owned(), None));
    }
    match hardware::find(name) {
        Ok((device, note)) => Ok((device.id, note)),
        Err(unknown) => {
            let problem = Diagnostic::new(format!("a price is given of an unknown GPU, `{name}`"));
            Err(match unknown.suggestions.is_empty() {
                true => problem.help("`plimsoll hw` lists the known ones"),
                false => problem.help(format!("did you mean {}?", unknown.suggestions.join(" or "))),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OneFile(&'static str);

    impl Files for OneFile {
        fn read(&self, _: &str) -> Result<Vec<u8>, String> {
            Ok(self.0.as_bytes().to_vec())
        }
    }

    fn read(file: &'static str, flags: &[&str]) -> Result<Prices, Diagnostics> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Prices::read(Some("prices.toml"), &flags, &[], &OneFile(file))
    }

    #[test]
    fn each_card_has_its_price_and_a_flag_wins() {
        let prices = read("H100-SXM-80GB = 2.49\nl40s = 1\n", &["l40s=0.8"]).unwrap();
        let of = |id: &str| prices.of(id);
        assert_eq!(
            (of("H100-SXM-80GB"), of("L40S-48GB"), of("B200-SXM-180GB")),
            (Some(2.49), Some(0.8), None)
        );
        assert!(!prices.is_empty());
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_and_where() {
        let file = "H100-SXM-80GB = -1\nl40z = 1.0\nb200 = nan\na100-sxm-80gb = \"2\"\nh200 = 2\nH200-SXM-141GB = 3\n";
        let wrong = read(file, &["2.5", "t4=x"]).unwrap_err();
        assert_eq!(wrong.0.len(), 7, "{}", wrong.render(false));
        let told = wrong.render(false);
        for part in [
            "the price of H100-SXM-80GB must be US dollars per GPU-hour",
            "prices.toml:1:",
            "unknown GPU, `l40z`",
            "did you mean L40",
            "the price of b200",
            "the price of a100-sxm-80gb",
            "H200-SXM-141GB is H200-SXM-141GB, which h200 gives a price, too",
            "`--price 2.5` names no card",
            "the price of t4",
        ] {
            assert!(told.contains(part), "{part}\n{told}");
        }
        let empty = read("", &[]).unwrap_err().render(false);
        assert!(empty.contains("prices.toml holds no price"), "{empty}");
    }
}
