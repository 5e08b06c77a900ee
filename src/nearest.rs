//! The known names nearest to a misspelt one, for every "did you mean".
//!
//! Distance is Damerau's restricted edit distance (insert, delete, replace, swap neighbours) on lower-case letters
//! and digits only, so that `rtx4090_24g` is one step from `RTX-4090-24GB`. Left out: meaning; ties keep the order given.

/// Up to `limit` of the names that are near enough to `word` to be worth proposing, nearest first.
///
/// Near enough is a third of the word's length in edits, or containing the word, or being contained in it.
///
/// ```
/// use plimsoll::nearest::nearest;
/// let known = ["L4-24GB", "L40S-48GB", "T4-16GB"];
/// assert_eq!(nearest("l40s-48g", known, 2), ["L40S-48GB"]);
/// ```
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<&'a str> {
    let word = squash(word);
    if word.len() > LONGEST {
        return Vec::new();
    }
    let allowed = (word.len() / 3).max(1);
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let known = squash(name);
            let distance = edit_distance(&word, &known);
            let contains = word.len() >= 3 && (known.contains(&word) || word.contains(&known));
            (distance <= allowed || contains).then_some((distance, name))
        })
        .collect();
    near.sort_by_key(|&(distance, _)| distance);
    near.into_iter().take(limit).map(|(_, name)| name).collect()
}

/// Letters of a word beyond which it is near no name, however long that would take to see.
const LONGEST: usize = 256;

/// Edits from `word` to the nearest of `names`, all of them squashed; `None` where that is more than a third of the word,
/// or more than one in a short word.
pub(crate) fn slips<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    let fewest = names.into_iter().map(|name| edit_distance(word, name)).min()?;
    (fewest <= (word.len() / 3).max(1)).then_some(fewest)
}

/// Lower-case letters and digits of a name; case, `-`, `_`, `.` and spaces do not matter.
#[must_use]
pub fn squash(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Restricted Damerau-Levenshtein distance in characters; time and memory grow with the product of the lengths.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_one_step() {
        for slip in ["h100sx", "h100sxmm", "h100sxn", "h100smx"] {
            assert_eq!(edit_distance("h100sxm", slip), 1, "{slip}");
        }
    }

    #[test]
    fn the_nearest_comes_first_and_the_far_not_at_all() {
        let known = ["RTX-4090-24GB", "RTX-5090-32GB", "MI300X-192GB"];
        assert_eq!(
            nearest("RTX4090-32G", known, 3),
            ["RTX-5090-32GB", "RTX-4090-24GB"]
        );
        assert!(nearest("abacus", known, 3).is_empty());
    }
}
