//! Fields of a JSON object, read as pydantic reads them in its lax mode, with all that is wrong of them at once.
//!
//! So `16.0` and `"16"` are integers, `"true"` and `1` are booleans, and null is the same as absent.

use serde_json::{Map, Value};

use super::error::ApiError;

/// An object that is being read.
pub struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// Path of a field, and what is wrong with it.
    problems: Vec<(String, String)>,
}

/// Reads a body; the error says where it is no JSON or no object.
pub fn object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(ApiError::misshapen(&[(
            "body".to_owned(),
            "input should be a JSON object".to_owned(),
        )])),
        Err(error) => Err(ApiError::misshapen(&[(
            "body".to_owned(),
            format!("JSON decode error: {error}"),
        )])),
    }
}

impl<'a> Fields<'a> {
    /// Reads fields of an object.
    pub fn new(object: &'a Map<String, Value>) -> Fields<'a> {
        Fields {
            object,
            problems: Vec::new(),
        }
    }

    /// A field that is there and not null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// Notes that a field is wrong.
    pub fn complain(&mut self, key: &str, problem: impl Into<String>) {
        self.problems.push((format!("body.{key}"), problem.into()));
    }

    /// An integer that 64 bits hold.
    pub fn integer(&mut self, key: &str) -> Option<i64> {
        let value = self.get(key)?;
        let integer = as_integer(value);
        if integer.is_none() {
            self.complain(
                key,
                format!("input should be a valid integer, got {}", short(value)),
            );
        }
        integer
    }

    /// A finite number.
    pub fn number(&mut self, key: &str) -> Option<f64> {
        let value = self.get(key)?;
        let number = match value {
            Value::String(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
            value => value.as_f64(),
        };
        if number.is_none() {
            self.complain(
                key,
                format!("input should be a valid number, got {}", short(value)),
            );
        }
        number
    }

    /// A boolean.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        let boolean = as_boolean(value);
        if boolean.is_none() {
            self.complain(
                key,
                format!("input should be a valid boolean, got {}", short(value)),
            );
        }
        boolean
    }

    /// A string.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        let value = self.get(key)?;
        let text = value.as_str();
        if text.is_none() {
            self.complain(
                key,
                format!("input should be a valid string, got {}", short(value)),
            );
        }
        text
    }

    /// An object.
    pub fn table(&mut self, key: &str) -> Option<&'a Map<String, Value>> {
        let value = self.get(key)?;
        let table = value.as_object();
        if table.is_none() {
            self.complain(key, format!("input should be an object, got {}", short(value)));
        }
        table
    }

    /// All problems so far as one error.
    pub fn finish(&mut self) -> Result<(), ApiError> {
        match self.problems.as_slice() {
            [] => Ok(()),
            problems => Err(ApiError::misshapen(problems)),
        }
    }
}

fn as_integer(value: &Value) -> Option<i64> {
    // Beyond 2^53 floats are no longer every integer.
    const EXACT: f64 = (1u64 << 53) as f64;
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn as_boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(boolean) => Some(*boolean),
        Value::Number(number) => match number.as_f64()? {
            0.0 => Some(false),
            1.0 => Some(true),
            _ => None,
        },
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// A value in few words: what is long or nested is described.
pub fn short(value: &Value) -> String {
    const MOST_CHARS: usize = 60;
    match value {
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(fields) => format!("an object of {} fields", fields.len()),
        value => {
            let text = value.to_string();
            match text.char_indices().nth(MOST_CHARS) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_pydantic_does() {
        let object =
            object(br#"{"a": 16.0, "b": "16", "c": "true", "d": null, "e": 1, "f": "0.5"}"#).unwrap();
        let mut fields = Fields::new(&object);
        assert_eq!(fields.integer("a"), Some(16));
        assert_eq!(fields.integer("b"), Some(16));
        assert_eq!(fields.boolean("c"), Some(true));
        assert_eq!(fields.integer("d"), None);
        assert_eq!(fields.boolean("e"), Some(true));
        assert_eq!(fields.number("f"), Some(0.5));
        assert_eq!(fields.integer("absent"), None);
        assert!(fields.finish().is_ok());
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let object = object(br#"{"a": 1e30, "b": 1.5, "c": [], "d": 2, "e": 7}"#).unwrap();
        let mut fields = Fields::new(&object);
        fields.integer("a");
        fields.integer("b");
        fields.number("c");
        fields.boolean("d");
        fields.text("e");
        let error = fields.finish().unwrap_err();
        assert!(
            error.message.starts_with("5 validation errors:\n  body.a: "),
            "{}",
            error.message
        );
        assert_eq!(error.param.as_deref(), Some("body.a"));
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for body in ["", "{", "[1]", "{\"a\": NaN}", "\"text\""] {
            assert_eq!(object(body.as_bytes()).unwrap_err().kind, "Bad Request", "{body}");
        }
        assert!(object("[".repeat(100_000).as_bytes()).is_err());
    }
}
