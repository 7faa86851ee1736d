//! Carries out requests on the store and builds the API server's responses.

use lifeboat_cluster::testing::{Reply, failure};
use serde_json::{Value, json};

use super::discovery::{self, StatusKept};
use super::request::{ObjectPath, Request};
use super::watches::{end_of_initial_events, event};
use super::{State, Verb, Write, WriteKind, patches};

/// A request that is refused: the code, and the reason as in the API server's `Status`.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) u16, pub(super) &'static str);

const NOT_FOUND: Refusal = Refusal(404, "NotFound");
const CONFLICT: Refusal = Refusal(409, "Conflict");
const BAD_REQUEST: Refusal = Refusal(400, "BadRequest");

/// Fields of the metadata that clients cannot change.
const FIXED: [&str; 7] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// A request that was carried out.
struct Done {
    code: u16,
    body: Value,
    write: Option<Write>,
}

impl Done {
    fn read(body: Value) -> Self {
        Self { code: 200, body, write: None }
    }

    fn written(kind: WriteKind, place: &ObjectPath, body: Value) -> Self {
        let code = if kind == WriteKind::Created { 201 } else { 200 };
        let write = Write { kind, path: place.object(), subresource: place.subresource.clone() };
        Self { code, body, write: Some(write) }
    }
}

/// The answer, and what was written.
pub(super) fn answer(state: &mut State, request: &Request<'_>) -> (Reply, Option<Write>) {
    let verb = Verb::of(request.asked);
    let answered = match &request.place {
        None => document(state, &request.path),
        Some(place) if state.types.is_absent(&place.group) => Err(NOT_FOUND),
        Some(place) => match verb {
            Some(Verb::Watch) => return (watch(state, request, place), None),
            Some(Verb::Get) => read(state, place),
            Some(Verb::List) => Ok(list(state, request, place)),
            Some(Verb::Create) => create(state, request, place),
            Some(Verb::Replace | Verb::Patch) => change(state, request, place),
            Some(Verb::Delete) => delete(state, request, place),
            None => Err(Refusal(405, "MethodNotAllowed")),
        },
    };
    match answered {
        Ok(done) if request.wants_metadata() => {
            (Reply::Whole(done.code, metadata_of(&done.body)), done.write)
        }
        Ok(done) => (Reply::Whole(done.code, done.body), done.write),
        Err(Refusal(code, reason)) => {
            let (code, body) = failure(code, reason);
            (Reply::Whole(code, body), None)
        }
    }
}

/// A response that is not an object: discovery, the version, or a document that a test stored at the path.
fn document(state: &State, path: &str) -> Result<Done, Refusal> {
    let found = state.store.get(path).cloned().or_else(|| match path {
        "/api" => Some(state.types.discovered(true)),
        "/apis" => Some(state.types.discovered(false)),
        "/version" => Some(discovery::version()),
        path => state.types.group(path.strip_prefix("/apis/")?),
    });
    found.map(Done::read).ok_or(NOT_FOUND)
}

fn read(state: &State, place: &ObjectPath) -> Result<Done, Refusal> {
    let path = place.object();
    let object = state.store.get(&path).ok_or(NOT_FOUND)?;
    match place.subresource.as_deref() {
        None => Ok(Done::read(object.clone())),
        Some("status") if state.types.status_of(place) != StatusKept::Within => {
            Ok(Done::read(object.clone()))
        }
        Some("log") => Ok(Done::read(json!(state.logs.get(&path).map_or("", String::as_str)))),
        Some(_) => Err(NOT_FOUND),
    }
}

fn list(state: &State, request: &Request<'_>, place: &ObjectPath) -> Done {
    let query = &request.query;
    let is_next = |path: &str| query.after.as_deref().is_none_or(|after| path > after);
    let selected = state.store.below(place).filter(|(_, object)| query.selectors.select(object));
    let mut items: Vec<(&str, &Value)> = selected.filter(|(path, _)| is_next(path)).collect();
    let mut metadata = json!({"resourceVersion": state.store.version().to_string()});
    let limit = query.limit.filter(|limit| *limit > 0 && *limit < items.len());
    if let Some(limit) = limit {
        metadata["remainingItemCount"] = json!(items.len() - limit);
        items.truncate(limit);
        metadata["continue"] = json!(items.last().map(|(path, _)| path));
    }
    let items: Vec<&Value> = items.into_iter().map(|(_, object)| object).collect();
    Done::read(json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
}

fn watch(state: &mut State, request: &Request<'_>, place: &ObjectPath) -> Reply {
    let (query, now) = (&request.query, state.store.version());
    // Without a resource version, a watch starts with the existing objects.
    let from = query.version.filter(|version| *version > 0 && !query.initial_events);
    let mut first = Vec::new();
    if from.is_none() {
        let there = state.store.below(place).filter(|(_, object)| query.selectors.select(object));
        first.extend(there.map(|(_, object)| event("ADDED", object)));
    }
    if query.initial_events {
        first.push(end_of_initial_events(place, now));
    }
    Reply::Lines(state.store.watches.open(place, &query.selectors, first, from.unwrap_or(now)))
}

fn create(state: &mut State, request: &Request<'_>, place: &ObjectPath) -> Result<Done, Refusal> {
    // Subresources such as evictions and tokens are not supported.
    if place.name.is_some() {
        return Err(NOT_FOUND);
    }
    let mut object = request.asked.body.clone();
    let metadata = &object["metadata"];
    let name = match (metadata["name"].as_str(), metadata["generateName"].as_str()) {
        (Some(name), _) => name.to_owned(),
        (None, Some(begin)) => format!("{begin}{}", state.store.version() + 1),
        (None, None) => return Err(Refusal(422, "Invalid")),
    };
    let is_elsewhere =
        metadata["namespace"].as_str().is_some_and(|own| place.namespace.as_deref() != Some(own));
    if is_elsewhere || !metadata["resourceVersion"].is_null() {
        return Err(BAD_REQUEST);
    }
    let place = ObjectPath { name: Some(name), ..place.clone() };
    if state.store.get(&place.object()).is_some() {
        return Err(Refusal(409, "AlreadyExists"));
    }
    if state.types.status_of(&place) == StatusKept::Apart {
        object.as_object_mut().unwrap().remove("status");
    }
    if request.query.dry_run {
        object["metadata"]["creationTimestamp"] = state.store.now();
        return Ok(Done { code: 201, body: object, write: None });
    }
    let made = state.store.create(&place, object);
    Ok(Done::written(WriteKind::Created, &place, made))
}

fn change(state: &mut State, request: &Request<'_>, place: &ObjectPath) -> Result<Done, Refusal> {
    let (asked, path) = (request.asked, place.object());
    let Some(old) = state.store.get(&path).cloned() else {
        if !patches::is_apply(asked) || place.subresource.is_some() {
            return Err(NOT_FOUND);
        }
        let made = state.store.create(place, asked.body.clone());
        return Ok(Done::written(WriteKind::Created, place, made));
    };
    let wanted = match asked.method.as_str() {
        "PUT" if asked.body["metadata"]["resourceVersion"].is_null() => return Err(Refusal(422, "Invalid")),
        "PUT" => asked.body.clone(),
        _ => patches::patched(&old, asked)?,
    };
    let kept = state.types.status_of(place);
    let new = accepted(&old, wanted, kept, place.subresource.as_deref())?;
    if new == old {
        return Ok(Done::read(old));
    }
    if !old["metadata"]["deletionTimestamp"].is_null() && has_finalizers(&old) && !has_finalizers(&new) {
        state.store.remove(&path);
        return Ok(Done::written(WriteKind::Deleted, place, new));
    }
    let new = state.store.update(&path, new, kept == StatusKept::Within);
    Ok(Done::written(WriteKind::Changed, place, new))
}

/// The object to store for a write: fields that the client cannot change keep their old values.
fn accepted(
    old: &Value,
    mut wanted: Value,
    kept: StatusKept,
    subresource: Option<&str>,
) -> Result<Value, Refusal> {
    for field in ["resourceVersion", "uid"] {
        let given = &wanted["metadata"][field];
        if !given.is_null() && *given != old["metadata"][field] {
            return Err(CONFLICT);
        }
    }
    match (subresource, kept) {
        (Some("status"), StatusKept::Apart | StatusKept::Unknown) => {
            let status = wanted["status"].take();
            wanted = old.clone();
            set(&mut wanted, "status", &status);
        }
        (None, StatusKept::Apart) => set(&mut wanted, "status", &old["status"]),
        (None, _) => {}
        (Some(_), _) => return Err(NOT_FOUND),
    }
    for field in FIXED.into_iter().chain(["resourceVersion"]) {
        set(&mut wanted["metadata"], field, &old["metadata"][field]);
    }
    Ok(wanted)
}

/// Sets a field, or removes it if the value is null.
fn set(object: &mut Value, field: &str, value: &Value) {
    if value.is_null() {
        if let Some(fields) = object.as_object_mut() {
            fields.remove(field);
        }
    } else {
        object[field] = value.clone();
    }
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn delete(state: &mut State, request: &Request<'_>, place: &ObjectPath) -> Result<Done, Refusal> {
    if place.name.is_none() || place.subresource.is_some() {
        return Err(Refusal(405, "MethodNotAllowed"));
    }
    let path = place.object();
    let mut object = state.store.get(&path).cloned().ok_or(NOT_FOUND)?;
    for field in ["resourceVersion", "uid"] {
        let expected = &request.asked.body["preconditions"][field];
        if !expected.is_null() && *expected != object["metadata"][field] {
            return Err(CONFLICT);
        }
    }
    if !has_finalizers(&object) {
        let gone = state.store.remove(&path).unwrap_or_default();
        return Ok(Done::written(WriteKind::Deleted, place, gone));
    }
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Ok(Done::read(object));
    }
    object["metadata"]["deletionTimestamp"] = state.store.now();
    let object = state.store.update(&path, object, false);
    Ok(Done::written(WriteKind::Changed, place, object))
}

/// The metadata of an object, or of the objects of a list.
fn metadata_of(body: &Value) -> Value {
    let kind = "PartialObjectMetadata";
    match body["items"].as_array() {
        None => json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}),
        Some(items) => {
            let items: Vec<Value> = items.iter().map(metadata_of).collect();
            json!({"kind": format!("{kind}List"), "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"],
                "items": items})
        }
    }
}
