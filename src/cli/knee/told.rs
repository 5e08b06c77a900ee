//! A search for whoever shows it elsewhere than on a terminal: done once, told in every form.

use super::super::exit::Exit;
use super::one::{Asked, search_one};
use super::{Bracket, in_flight, refuse_no_knee, rent};
use crate::config::{Document, Resolved};
use crate::report::{self, Style, json};

/// What there is to say of a search.
pub(in crate::cli) struct Told {
    /// As text.
    pub(in crate::cli) said: String,
    /// As one JSON object: of a closed loop with numbers in flight in place of rates.
    pub(in crate::cli) json: String,
    /// What the command would end with.
    pub(in crate::cli) exit: Exit,
}

/// Searches and tells; `None` once `goes_on` says no, which is asked after each load that was tried.
///
/// # Errors
/// The scenario promises nothing, or has no knee.
pub(in crate::cli) fn told(
    resolved: &Resolved,
    document: &Document,
    goes_on: &dyn Fn() -> bool,
) -> anyhow::Result<Option<Told>> {
    refuse_no_knee(resolved)?;
    let asked = Asked {
        resolved,
        document,
        bracket: Bracket::default(),
        sizing: None,
        rent: rent::beside_knee(resolved),
        ignored: Vec::new(),
        is_bare: false,
    };
    let mut searching = |_| goes_on();
    let (view, said, is_found) = if in_flight::is_loop(resolved) {
        let view = in_flight::search_one(&asked, &mut searching);
        let said = report::in_flight::text(&view, Style::default());
        let is_found = view.best().is_some();
        (view.knee, said, is_found)
    } else {
        let view = search_one(&asked, &mut searching, &mut |_| goes_on())?.view;
        let said = report::knee_text(&view, Style::default());
        let is_kept = view.is_kept();
        (view, said, is_kept)
    };
    Ok(goes_on().then(|| Told {
        said,
        json: json::knee(&view),
        exit: if is_found { Exit::Ok } else { Exit::NotMet },
    }))
}
