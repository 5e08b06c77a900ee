//! The page as one file: its answers, styles and scripts in it, so that it opens without plimsoll and without a network.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::answer::{Explained, Ran, Refused, Searched, Start};
use super::stops::Stops;
use super::web::FILES;

/// What is in the file.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Kept<'a> {
    pub(in crate::cli) version: &'static str,
    /// When it was simulated.
    pub(in crate::cli) made: String,
    /// The user's.
    pub(in crate::cli) title: Option<&'a str>,
    pub(in crate::cli) start: &'a Start,
    pub(in crate::cli) axes: &'a [Stops],
    pub(in crate::cli) runs: Vec<Point<Ran>>,
    pub(in crate::cli) knees: Vec<Point<Searched>>,
    pub(in crate::cli) explained: Option<Explained>,
}

/// An answer, and what is set for it.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Point<T> {
    pub(in crate::cli) flags: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(in crate::cli) found: Found<T>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Found<T> {
    Answer(T),
    Problem(Refused),
}

/// The page loads nothing from anywhere.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:";

/// The file.
pub(in crate::cli) fn html(kept: &Kept) -> String {
    let title = kept.title.unwrap_or(&kept.start.subject);
    let mut page = String::new();
    for line in text_of("index.html").lines() {
        let tag = line.trim_start();
        if tag.starts_with("<title>") {
            page += &format!("  <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n");
            page += &format!("  <title>{}</title>\n", escaped(title));
        } else if tag.starts_with("<link rel=\"stylesheet\"") {
            let name = between(tag, "href=\"/", "\"");
            page += &format!("  <style>\n{}  </style>\n", text_of(name));
        } else if tag.starts_with("<script type=\"module\"") {
            page += &format!("  <script type=\"importmap\">{}</script>\n", import_map());
            let name = between(tag, "src=\"/", "\"");
            page += &format!("  <script type=\"module\">import \"{MODULES}{name}\";</script>\n");
        } else if tag.starts_with("</body>") {
            page += &format!(
                "<script type=\"text/plain\" id=\"kept\">{}</script>\n</body>\n",
                packed(kept)
            );
        } else {
            page += line;
            page.push('\n');
        }
    }
    page
}

/// What modules of the page are called within the file, where they have no addresses.
const MODULES: &str = "plimsoll/";

/// Every script of the page by its name.
fn import_map() -> String {
    let scripts = FILES.iter().filter(|(name, _)| name.ends_with(".js"));
    let imports: BTreeMap<String, String> = scripts
        .map(|(name, text)| {
            let text = text.replace(" from \"./", &format!(" from \"{MODULES}"));
            let address = format!("data:text/javascript;base64,{}", BASE64_STANDARD.encode(text));
            (format!("{MODULES}{name}"), address)
        })
        .collect();
    serde_json::to_string(&BTreeMap::from([("imports", imports)])).expect("names and texts are JSON")
}

/// The answers, packed by gzip and in letters.
fn packed(kept: &Kept) -> String {
    let json = serde_json::to_vec(kept).expect("figures and names are JSON");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&json).expect("memory takes all");
    BASE64_STANDARD.encode(gzip.finish().expect("memory takes all"))
}

fn text_of(name: &str) -> &'static str {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, text)| *text)
        .expect("the page links to what it has")
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).expect("a link has an address");
    rest.split(after).next().unwrap_or(rest)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
