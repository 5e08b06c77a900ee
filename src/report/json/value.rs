//! A JSON value that keeps the order of its keys, written the way Python's `json.dump` does.
//!
//! Numbers that JSON cannot carry become `null`; callers decide before that what infinity means to them.

use std::io;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::ser::Formatter;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Object(Object),
}

/// Keys and values in the order of writing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Object(Vec<(String, Value)>);

impl Object {
    /// Appends a key.
    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.push((key.to_string(), value.into()));
    }

    /// Appends the keys of another.
    pub(super) fn extend(&mut self, other: Object) {
        self.0.extend(other.0);
    }

    /// One line of JSON, without a newline at its end.
    pub(super) fn line(&self) -> String {
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, PythonSpacing);
        self.serialize(&mut serializer)
            .expect("values without foreign types serialise into memory");
        String::from_utf8(bytes).expect("the serialiser writes UTF-8")
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Integer(value) => serializer.serialize_u64(*value),
            Value::Signed(value) => serializer.serialize_i64(*value),
            Value::Float(value) => serializer.serialize_f64(*value),
            Value::Text(value) => serializer.serialize_str(value),
            Value::List(values) => values.serialize(serializer),
            Value::Object(object) => object.serialize(serializer),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}
impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Integer(value)
    }
}
impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Integer(value.into())
    }
}
impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Float(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.into())
    }
}
impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}
impl From<Object> for Value {
    fn from(value: Object) -> Value {
        Value::Object(value)
    }
}
impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Value {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// `", "` and `": "`, as people search for in saved results.
struct PythonSpacing;

impl Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_nothing_breaks_the_format() {
        let mut object = Object::default();
        object.put("b", vec![1.0, 2.5]);
        object.put("a", "quote \" and λ");
        object.put("n", f64::NAN);
        object.put("z", None::<u64>);
        assert_eq!(
            object.line(),
            r#"{"b": [1.0, 2.5], "a": "quote \" and λ", "n": null, "z": null}"#
        );
    }
}
