//! Objects as they are: JSON.

use serde_json::Value;

/// The text at a place, as in `/metadata/name`; empty where there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
