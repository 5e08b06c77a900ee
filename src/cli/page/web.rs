//! Files of the page.

/// Name and text of each, by name.
pub(in crate::cli) const FILES: &[(&str, &str)] = &[
    ("address.js", include_str!("web/address.js")),
    ("anatomy-parts.js", include_str!("web/anatomy-parts.js")),
    ("anatomy.js", include_str!("web/anatomy.js")),
    ("app.js", include_str!("web/app.js")),
    ("bars.css", include_str!("web/bars.css")),
    ("controls.js", include_str!("web/controls.js")),
    ("curve-layout.js", include_str!("web/curve-layout.js")),
    ("curve.js", include_str!("web/curve.js")),
    ("dom.js", include_str!("web/dom.js")),
    ("fields.js", include_str!("web/fields.js")),
    ("figures.js", include_str!("web/figures.js")),
    ("film-data.js", include_str!("web/film-data.js")),
    ("film-lanes.js", include_str!("web/film-lanes.js")),
    ("film-lines.js", include_str!("web/film-lines.js")),
    ("film-rows.js", include_str!("web/film-rows.js")),
    ("film-stage.js", include_str!("web/film-stage.js")),
    ("film-steps.js", include_str!("web/film-steps.js")),
    ("film-time.js", include_str!("web/film-time.js")),
    ("film-words.js", include_str!("web/film-words.js")),
    ("film.js", include_str!("web/film.js")),
    ("format.js", include_str!("web/format.js")),
    ("index.html", include_str!("web/index.html")),
    ("kept.js", include_str!("web/kept.js")),
    ("listed.js", include_str!("web/listed.js")),
    ("notices.js", include_str!("web/notices.js")),
    ("offer.js", include_str!("web/offer.js")),
    ("parts.css", include_str!("web/parts.css")),
    ("predict.js", include_str!("web/predict.js")),
    ("print.css", include_str!("web/print.css")),
    ("questions.js", include_str!("web/questions.js")),
    ("reading.js", include_str!("web/reading.js")),
    ("report.css", include_str!("web/report.css")),
    ("report.js", include_str!("web/report.js")),
    ("save.js", include_str!("web/save.js")),
    ("scale.js", include_str!("web/scale.js")),
    ("server.js", include_str!("web/server.js")),
    ("settings.js", include_str!("web/settings.js")),
    ("stretches.js", include_str!("web/stretches.js")),
    ("style.css", include_str!("web/style.css")),
    ("tables.js", include_str!("web/tables.js")),
    ("theme.js", include_str!("web/theme.js")),
    ("verdict.js", include_str!("web/verdict.js")),
    ("what-if-rows.js", include_str!("web/what-if-rows.js")),
    ("what-ifs.js", include_str!("web/what-ifs.js")),
];

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn all_files_of_the_page_are_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/page/web");
        let there = std::fs::read_dir(folder).unwrap();
        let mut there: Vec<String> = there
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        assert_eq!(there, FILES.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    }
}
