//! What serde says of a row, in words that name no type of Rust's.

/// `string "x" where a number belongs at column 38`; what is no wrong type stays as it is.
pub(super) fn plainly(error: &str) -> String {
    let wrong = ["invalid type: ", "invalid value: "];
    let Some((found, rest)) = wrong
        .iter()
        .find_map(|kind| error.strip_prefix(kind))
        .and_then(|error| error.split_once(", expected "))
    else {
        return error.to_owned();
    };
    let end = [" at line ", " at column "]
        .iter()
        .filter_map(|at| rest.find(at))
        .min()
        .unwrap_or(rest.len());
    let (expected, at) = rest.split_at(end);
    let expected = match expected {
        "f64" | "f32" => "a number",
        "i64" | "i32" => "a whole number",
        "u64" | "u32" | "u16" | "u8" | "usize" => "a whole number of at least 0",
        "a sequence" => "a list",
        "a boolean" | "bool" => "true or false",
        other => other,
    };
    format!("{found} where {expected} belongs{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_type_is_told_without_rusts_name_of_the_right_one() {
        assert_eq!(
            plainly("invalid type: string \"x\", expected f64 at column 38"),
            "string \"x\" where a number belongs at column 38"
        );
        assert_eq!(
            plainly("invalid value: integer `-1`, expected u32 at line 3 column 5"),
            "integer `-1` where a whole number of at least 0 belongs at line 3 column 5"
        );
        assert_eq!(
            plainly("expected value at column 3"),
            "expected value at column 3"
        );
    }
}
