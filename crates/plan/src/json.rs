//! Access to objects as JSON values.

use serde_json::Value;

/// The text at a JSON pointer such as `/metadata/name`; empty if it is missing or not text.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
