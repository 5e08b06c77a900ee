//! Links of the pages lead to files that are there, and to headings that these have.

use super::root;

/// A heading's anchor, as hosts of repositories make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c => c.is_alphanumeric().then_some(c),
    });
    kept.flat_map(char::to_lowercase).collect()
}

fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

/// Targets of the links of a page, with their lines.
fn targets(page: &str) -> impl Iterator<Item = (usize, &str)> {
    page.lines().enumerate().flat_map(|(at, line)| {
        line.split("](")
            .skip(1)
            .filter_map(move |rest| rest.split_once(')').map(|(target, _)| (at + 1, target)))
    })
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut pages = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    pages.extend(
        docs.map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "md")),
    );
    let (mut links, mut broken) = (0, Vec::new());
    for path in pages {
        let page = std::fs::read_to_string(&path).unwrap();
        for (line, target) in targets(&page).filter(|(_, target)| !target.contains("://")) {
            links += 1;
            let (file, heading) = target
                .split_once('#')
                .map_or((target, None), |(file, heading)| (file, Some(heading)));
            let file = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let has_heading = |heading: &str| {
                anchors(&std::fs::read_to_string(&file).unwrap())
                    .iter()
                    .any(|known| known == heading)
            };
            if !file.exists() || !heading.is_none_or(has_heading) {
                broken.push(format!("{}:{line}: {target}", path.display()));
            }
        }
    }
    assert!(links > 40, "{links}");
    assert!(
        broken.is_empty(),
        "these links lead nowhere:\n{}",
        broken.join("\n")
    );
}
