//! Arithmetic over figures: `{rate} * {loaded:/mean_e2el_ms} / 1000`.
//!
//! The grammar is that of paper: `^` before a sign before `*` and `/` before `+` and `-`; `2^3^2` is 2^(3^2) and `-2^2` is −4.

use super::{Reference, Text};

/// What arithmetic may hold; said where it cannot be read.
pub(super) const SIGNS: &str = "arithmetic holds + - * / ^, parentheses, min(a, b), max(a, b), sqrt, exp, ln, floor, ceil, abs, numbers in plain digits and figures in braces";

/// Most parentheses, signs and powers within each other.
const DEEPEST: usize = 64;
/// Most figures, numbers and functions.
const LONGEST: usize = 500;

/// An expression over figures.
#[derive(Clone, Debug)]
pub struct Arithmetic {
    /// As it is written.
    written: Text,
    parsed: Term,
    references: Vec<Reference>,
}

#[derive(Clone, Debug)]
enum Term {
    Number(f64),
    /// The place of a reference.
    Figure(usize),
    Negated(Box<Term>),
    Two(fn(f64, f64) -> f64, Box<(Term, Term)>),
    Function(fn(f64) -> f64, Box<Term>),
}

impl Term {
    fn value(&self, figures: &[f64]) -> f64 {
        match self {
            Term::Number(number) => *number,
            Term::Figure(place) => figures[*place],
            Term::Negated(term) => -term.value(figures),
            Term::Two(of, both) => of(both.0.value(figures), both.1.value(figures)),
            Term::Function(of, term) => of(term.value(figures)),
        }
    }
}

impl Arithmetic {
    /// Reads an expression.
    ///
    /// # Errors
    /// What cannot be read in it.
    pub fn parse(text: &str) -> Result<Arithmetic, String> {
        let mut reader = Reader {
            rest: text.trim(),
            references: Vec::new(),
            depth: 0,
            operands: 0,
        };
        let parsed = reader
            .sum()
            .and_then(|parsed| match reader.rest {
                "" => Ok(parsed),
                rest => Err(format!("{} stands where a sign should", first_word(rest))),
            })
            .map_err(|problem| format!("`{}` cannot be read: {problem}", text.trim()))?;
        Ok(Arithmetic {
            written: Text::parse(text.trim())?,
            parsed,
            references: reader.references,
        })
    }

    /// The figures that it needs.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The name that it is, where it is nothing else.
    #[must_use]
    pub(super) fn sole_name(&self) -> Option<&str> {
        match (&self.parsed, self.references.as_slice()) {
            (Term::Figure(_), [Reference::Name(name)]) => Some(name),
            _ => None,
        }
    }

    /// Its value, with `figure` for every reference. It need not be finite.
    ///
    /// # Errors
    /// That of the first figure that is not to be had.
    pub fn value<E>(&self, figure: impl FnMut(&Reference) -> Result<f64, E>) -> Result<f64, E> {
        let figures: Vec<f64> = self.references.iter().map(figure).collect::<Result<_, E>>()?;
        Ok(self.parsed.value(&figures))
    }

    /// As one writes it on paper, with `figure` for every reference: `8 × 1.13`.
    ///
    /// # Errors
    /// That of the first figure that is not to be had.
    pub fn on_paper<E>(&self, figure: impl FnMut(&Reference) -> Result<String, E>) -> Result<String, E> {
        let filled = self.written.filled(figure)?;
        Ok(filled.replace('*', "×").replace('-', "−"))
    }
}

/// Reads from left to right.
struct Reader<'a> {
    rest: &'a str,
    references: Vec<Reference>,
    depth: usize,
    operands: usize,
}

impl Reader<'_> {
    /// Takes a sign, and the space around it.
    fn takes(&mut self, sign: char) -> bool {
        match self.rest.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<Term, String> {
        let mut sum = self.product()?;
        loop {
            let of: fn(f64, f64) -> f64 = match () {
                () if self.takes('+') => |a, b| a + b,
                () if self.takes('-') => |a, b| a - b,
                () => return Ok(sum),
            };
            sum = Term::Two(of, Box::new((sum, self.product()?)));
        }
    }

    fn product(&mut self) -> Result<Term, String> {
        let mut product = self.signed()?;
        loop {
            let of: fn(f64, f64) -> f64 = match () {
                () if self.takes('*') => |a, b| a * b,
                () if self.takes('/') => |a, b| a / b,
                () => return Ok(product),
            };
            product = Term::Two(of, Box::new((product, self.signed()?)));
        }
    }

    fn signed(&mut self) -> Result<Term, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("more than {DEEPEST} parentheses are within each other"));
        }
        let signed = match self.takes('-') {
            true => Term::Negated(Box::new(self.signed()?)),
            false => self.power()?,
        };
        self.depth -= 1;
        Ok(signed)
    }

    fn power(&mut self) -> Result<Term, String> {
        let base = self.operand()?;
        match self.takes('^') {
            true => Ok(Term::Two(f64::powf, Box::new((base, self.signed()?)))),
            false => Ok(base),
        }
    }

    fn operand(&mut self) -> Result<Term, String> {
        self.operands += 1;
        if self.operands > LONGEST {
            return Err(format!("more than {LONGEST} figures are in it"));
        }
        if self.takes('(') {
            let inner = self.sum()?;
            return match self.takes(')') {
                true => Ok(inner),
                false => Err("a parenthesis is open".to_owned()),
            };
        }
        if let Some(inside) = self.rest.strip_prefix('{') {
            let (inner, rest) = inside.split_once('}').ok_or("a brace is open")?;
            self.references.push(Reference::parse(inner)?);
            self.rest = rest.trim_start();
            return Ok(Term::Figure(self.references.len() - 1));
        }
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let digits = self.rest.len() - self.rest.trim_start_matches(is_digit).len();
        if digits > 0 {
            let (number, rest) = self.rest.split_at(digits);
            self.rest = rest.trim_start();
            let number = number.parse().map_err(|_| format!("`{number}` is no number"))?;
            return Ok(Term::Number(number));
        }
        self.function()
    }

    fn function(&mut self) -> Result<Term, String> {
        let name = self
            .rest
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next()
            .unwrap_or_default();
        let rest = &self.rest[name.len()..];
        if name.is_empty() {
            return Err(match self.rest {
                "" => "it ends where a figure should stand".to_owned(),
                rest => format!("{} stands where a figure should", first_word(rest)),
            });
        }
        let one: Option<fn(f64) -> f64> = match name {
            "sqrt" => Some(f64::sqrt),
            "exp" => Some(f64::exp),
            "ln" => Some(f64::ln),
            "floor" => Some(f64::floor),
            "ceil" => Some(f64::ceil),
            "abs" => Some(f64::abs),
            _ => None,
        };
        let two: Option<fn(f64, f64) -> f64> = match name {
            "min" => Some(f64::min),
            "max" => Some(f64::max),
            _ => None,
        };
        if one.is_none() && two.is_none() {
            return Err(format!(
                "`{name}` is no function, and names of figures stand in braces"
            ));
        }
        self.rest = rest;
        if !self.takes('(') {
            return Err(format!("`{name}` needs its parentheses"));
        }
        let first = self.sum()?;
        let term = match (one, two) {
            (Some(of), _) => Term::Function(of, Box::new(first)),
            (None, Some(of)) if self.takes(',') => Term::Two(of, Box::new((first, self.sum()?))),
            _ => return Err(format!("`{name}` is of two figures, with a comma between them")),
        };
        match self.takes(')') {
            true => Ok(term),
            false => Err(format!("the parenthesis of `{name}` is open")),
        }
    }
}

/// For messages: what stands there, up to the next space.
fn first_word(rest: &str) -> String {
    format!("`{}`", rest.split_whitespace().next().unwrap_or_default())
}

#[cfg(test)]
mod tests;
