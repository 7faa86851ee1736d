//! What the server answers to a request by itself.

use lifeboat_cluster::testing::{Asked, failure};
use serde_json::{Value, json};

use super::objects::Objects;

/// The answer, and the path of an object that was created or changed.
pub(super) fn answer(objects: &mut Objects, asked: &Asked) -> ((u16, Value), Option<String>) {
    // A watch ends at once: what is tested finds changes by looking.
    if asked.query.contains("watch=") {
        return (failure(500, "NoWatch"), None);
    }
    match asked.method.as_str() {
        "GET" => (read(objects, asked), None),
        "POST" => create(objects, asked),
        "PATCH" => change(objects, asked),
        "DELETE" => (delete(objects, asked), None),
        _ => (failure(405, "MethodNotAllowed"), None),
    }
}

fn read(objects: &Objects, asked: &Asked) -> (u16, Value) {
    if let Some(object) = objects.get(&asked.path) {
        return (200, object.clone());
    }
    match asked.path.as_str() {
        "/api" | "/apis" => return (200, json!({"items": []})),
        "/version" => return (200, version()),
        path if is_object(path) => return failure(404, "NotFound"),
        _ => {}
    }
    let parameters = Parameters::of(&asked.query);
    let fits = |object: &&Value| parameters.selects(object);
    let items: Vec<Value> = objects.below(&asked.path).filter(fits).cloned().collect();
    let first = parameters.first.min(items.len());
    let end = parameters.limit.map_or(items.len(), |limit| (first + limit).min(items.len()));
    let mut metadata = json!({"resourceVersion": objects.version().to_string()});
    if end < items.len() {
        metadata["continue"] = json!(end.to_string());
    }
    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[first..end]}))
}

/// Whether a path leads to one object: its parts behind group and version come in pairs.
fn is_object(path: &str) -> bool {
    let skipped = if path.starts_with("/apis/") { 4 } else { 3 };
    path.split('/').count().saturating_sub(skipped).is_multiple_of(2)
}

fn create(objects: &mut Objects, asked: &Asked) -> ((u16, Value), Option<String>) {
    let mut object = asked.body.clone();
    if object["metadata"]["name"].is_null() {
        let begin = object["metadata"]["generateName"].as_str().unwrap_or_default();
        object["metadata"]["name"] = format!("{begin}{}", objects.paths().count()).into();
    }
    let path = format!("{}/{}", asked.path, object["metadata"]["name"].as_str().unwrap_or_default());
    if objects.get(&path).is_some() {
        return (failure(409, "AlreadyExists"), None);
    }
    objects.put(&path, object);
    ((201, objects.get(&path).cloned().unwrap_or_default()), Some(path))
}

fn change(objects: &mut Objects, asked: &Asked) -> ((u16, Value), Option<String>) {
    // A status subresource changes the status only.
    let (path, mut wanted) = match asked.path.strip_suffix("/status") {
        Some(path) => (path, json!({"metadata": asked.body["metadata"], "status": asked.body["status"]})),
        None => (asked.path.as_str(), asked.body.clone()),
    };
    let Some(object) = objects.get(path) else { return (failure(404, "NotFound"), None) };
    for field in ["resourceVersion", "uid"] {
        let given = &wanted["metadata"][field];
        if !given.is_null() && *given != object["metadata"][field] {
            return (failure(409, "Conflict"), None);
        }
    }
    if wanted["metadata"].is_null() {
        wanted.as_object_mut().unwrap().remove("metadata");
    }
    let changed = objects.merge(path, &wanted).unwrap_or_default();
    ((200, changed), Some(path.to_owned()))
}

fn delete(objects: &mut Objects, asked: &Asked) -> (u16, Value) {
    let Some(object) = objects.get(&asked.path) else { return failure(404, "NotFound") };
    let expected = &asked.body["preconditions"]["uid"];
    if !expected.is_null() && *expected != object["metadata"]["uid"] {
        return failure(409, "Conflict");
    }
    (200, objects.remove(&asked.path).unwrap_or_default())
}

/// What a list is asked for.
#[derive(Default)]
struct Parameters {
    /// Labels with the value that they must have, where one is given.
    labels: Vec<(String, Option<String>)>,
    limit: Option<usize>,
    first: usize,
}

impl Parameters {
    fn of(query: &str) -> Self {
        let mut parameters = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decoded(value);
            match key {
                "labelSelector" => parameters.labels = value.split(',').map(label).collect(),
                "limit" => parameters.limit = value.parse().ok(),
                "continue" => parameters.first = value.parse().unwrap_or_default(),
                _ => {}
            }
        }
        parameters
    }

    fn selects(&self, object: &Value) -> bool {
        self.labels.iter().all(|(key, value)| {
            let label = object["metadata"]["labels"][key].as_str();
            value.as_deref().map_or(label.is_some(), |value| label == Some(value))
        })
    }
}

fn label(text: &str) -> (String, Option<String>) {
    match text.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.trim_start_matches('=').to_owned())),
        None => (text.to_owned(), None),
    }
}

/// Percent signs resolved.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%');
        let (byte, length) = match code {
            Some(byte) => (byte, 2),
            None => (if *first == b'+' { b' ' } else { *first }, 0),
        };
        bytes.push(byte);
        rest = &tail[length..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn version() -> Value {
    json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
}
