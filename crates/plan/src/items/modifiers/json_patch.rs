//! JSON Patch (RFC 6902). Values are written as in upstream's ConfigMaps: text that is parsed as JSON where it looks
//! like JSON.

use serde_json::Value;

/// One operation of a patch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPatch {
    operation: Operation,
    path: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Operation {
    Add(Value),
    Remove,
    Replace(Value),
    Test(Value),
    Move(String),
    Copy(String),
}

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchError {
    #[error("testing value {0} failed")]
    TestFailed(String),
    #[error("the object has no {0}")]
    Missing(String),
    #[error("{0} is not a path in the object; a path starts with / and an index is a number within the list")]
    Path(String),
}

/// Why an operation is invalid.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    #[error("operation cannot be empty")]
    NoOperation,
    #[error("path cannot be empty")]
    NoPath,
    #[error("unsupported operation {0}")]
    Unsupported(String),
    #[error("error in decoding json patch: value {text:?}: {error}")]
    Value { text: String, error: serde_json::Error },
}

impl JsonPatch {
    pub(super) fn new(
        operation: &str,
        from: String,
        path: String,
        value: &str,
    ) -> Result<Self, OperationError> {
        if operation.is_empty() {
            return Err(OperationError::NoOperation);
        }
        if path.is_empty() {
            return Err(OperationError::NoPath);
        }
        let operation = match operation.to_lowercase().as_str() {
            "add" => Operation::Add(read(value)?),
            "remove" => Operation::Remove,
            "replace" => Operation::Replace(read(value)?),
            "test" => Operation::Test(read(value)?),
            "move" => Operation::Move(from),
            "copy" => Operation::Copy(from),
            _ => return Err(OperationError::Unsupported(operation.to_owned())),
        };
        Ok(Self { operation, path })
    }
}

/// Parses null, booleans, numbers, lists and objects as JSON; everything else is text, quoted or not.
fn read(text: &str) -> Result<Value, OperationError> {
    let quoted = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    if quoted {
        return Ok(Value::String(text[1..text.len() - 1].to_owned()));
    }
    let lower = text.to_lowercase();
    match lower.as_str() {
        "null" if text == "null" => return Ok(Value::Null),
        "true" => return Ok(Value::Bool(true)),
        "false" => return Ok(Value::Bool(false)),
        _ => {}
    }
    if text.starts_with(['{', '[']) {
        return serde_json::from_str(text)
            .map_err(|error| OperationError::Value { text: text.to_owned(), error });
    }
    Ok(serde_json::from_str::<serde_json::Number>(text)
        .map_or_else(|_| Value::String(text.to_owned()), Value::Number))
}

/// Returns the object after all operations.
pub(super) fn apply(object: &Value, patches: &[JsonPatch]) -> Result<Value, PatchError> {
    let mut object = object.clone();
    for patch in patches {
        step(&mut object, patch)?;
    }
    Ok(object)
}

fn step(object: &mut Value, step: &JsonPatch) -> Result<(), PatchError> {
    let path = &step.path;
    let at = |object: &Value, path: &str| {
        object.pointer(path).cloned().ok_or_else(|| PatchError::Missing(path.to_owned()))
    };
    match &step.operation {
        Operation::Add(value) => add(object, path, value.clone()),
        Operation::Remove => remove(object, path).map(drop),
        Operation::Replace(value) => {
            let place = object.pointer_mut(path).ok_or_else(|| PatchError::Missing(path.clone()))?;
            *place = value.clone();
            Ok(())
        }
        Operation::Test(value) => match object.pointer(path) {
            Some(found) if equal(found, value) => Ok(()),
            None if value.is_null() => Ok(()),
            None => Err(PatchError::Missing(path.clone())),
            Some(_) => Err(PatchError::TestFailed(path.clone())),
        },
        Operation::Move(from) => {
            let value = remove(object, from)?;
            add(object, path, value)
        }
        Operation::Copy(from) => {
            let value = at(object, from)?;
            add(object, path, value)
        }
    }
}

/// Compares numbers by value, not by notation.
fn equal(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one.total_cmp(&other).is_eq())
}

/// The parent of the value at a path, and the last component of the path.
fn parent<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), PatchError> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| PatchError::Path(path.to_owned()))?;
    let place = object.pointer_mut(parent).ok_or_else(|| PatchError::Missing(parent.to_owned()))?;
    Ok((place, last.replace("~1", "/").replace("~0", "~")))
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    let (place, last) = parent(object, path)?;
    match place {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let index = last.parse::<usize>().ok().filter(|index| *index <= items.len());
            items.insert(index.ok_or_else(|| PatchError::Path(path.to_owned()))?, value);
        }
        _ => return Err(PatchError::Path(path.to_owned())),
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, PatchError> {
    let missing = || PatchError::Missing(path.to_owned());
    let (place, last) = parent(object, path)?;
    match place {
        Value::Object(fields) => fields.remove(&last).ok_or_else(missing),
        Value::Array(items) => {
            let index =
                last.parse::<usize>().ok().filter(|index| *index < items.len()).ok_or_else(missing)?;
            Ok(items.remove(index))
        }
        _ => Err(PatchError::Path(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::add_to_a_list("add", "", "/list/1", "x", json!({"a": {"b/c": 1}, "list": [1, "x", 2]}))]
    #[case::append("add", "", "/list/-", "3", json!({"a": {"b/c": 1}, "list": [1, 2, 3]}))]
    #[case::escaped("replace", "", "/a/b~1c", "{\"x\": null}", json!({"a": {"b/c": {"x": null}}, "list": [1, 2]}))]
    #[case::moved("move", "/list/0", "/a/first", "", json!({"a": {"b/c": 1, "first": 1}, "list": [2]}))]
    #[case::copied("copy", "/a", "/b", "", json!({"a": {"b/c": 1}, "b": {"b/c": 1}, "list": [1, 2]}))]
    #[case::upper_case("Remove", "", "/list", "", json!({"a": {"b/c": 1}}))]
    fn operations_change_objects(
        #[case] operation: &str,
        #[case] from: &str,
        #[case] path: &str,
        #[case] value: &str,
        #[case] expected: Value,
    ) {
        let patch = JsonPatch::new(operation, from.into(), path.into(), value).unwrap();
        assert_eq!(apply(&json!({"a": {"b/c": 1}, "list": [1, 2]}), &[patch]).unwrap(), expected);
    }

    #[rstest]
    #[case("", json!(""))]
    #[case("text", json!("text"))]
    #[case("\"5\"", json!("5"))]
    #[case("5", json!(5))]
    #[case("1.5", json!(1.5))]
    #[case("True", json!(true))]
    #[case("null", json!(null))]
    #[case("[1]", json!([1]))]
    fn values_are_read_as_upstream_reads_them(#[case] text: &str, #[case] expected: Value) {
        assert_eq!(read(text).unwrap(), expected);
    }
}
