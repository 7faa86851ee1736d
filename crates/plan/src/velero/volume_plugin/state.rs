//! The state of an operation, from its object: open, completed, failed, or hung. Takes objects of the server and of
//! plugins; called by module `volume_plugin` of crate `velero` and by the command line.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::time::seconds;
use lifeboat_api::velero::volume_plugin::phase;
use serde_json::{Value, json};

use super::{PROGRESS_CHANGED, is_ours, progress};
use crate::items::waits::{Wait, Waits};
use crate::json::text;

/// An operation whose progress has not changed for this long is shown as possibly hung.
pub const HUNG_AFTER: Duration = Duration::from_mins(10);

/// How much of a plugin's own phase is repeated in a message.
const LONGEST_PHASE: usize = 60;

/// The state of an object of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationState {
    Open,
    Completed,
    /// With the plugin's message.
    Failed(String),
}

/// Reads the state. An operation has ended if it has a completion time, or phase Completed or Failed in any spelling.
/// With a completion time, other phases that mean failure count as well.
pub fn operation_state(object: &Value) -> OperationState {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let said = text("/status/phase");
    let at_its_end = !text("/status/completionTimestamp").is_empty();
    if said.eq_ignore_ascii_case(phase::FAILED) || (at_its_end && is_bad(said)) {
        let message = Some(text("/status/message")).filter(|message| !message.is_empty());
        return OperationState::Failed(message.unwrap_or("the plugin gives no reason").to_owned());
    }
    if said.eq_ignore_ascii_case(phase::COMPLETED) || at_its_end {
        return OperationState::Completed;
    }
    OperationState::Open
}

/// What a plugin has to write before its own object counts as ended, if the object looks as if it had: a phase that is not
/// known, no completion time, and no bytes that are still to be copied.
pub fn does_not_end(object: &Value) -> Option<String> {
    if operation_state(object) != OperationState::Open || is_ours(object) {
        return None;
    }
    let said = text(object, "/status/phase");
    let is_known = ["", phase::NEW, phase::IN_PROGRESS].iter().any(|known| said.eq_ignore_ascii_case(known));
    if is_known || progress(object).is_some_and(|(done, total)| done < total) {
        return None;
    }
    let said: String = said.chars().take(LONGEST_PHASE).collect();
    Some(format!(
        "status.phase {} or {}, or status.completionTimestamp: the plugin wrote phase {said:?}, which does not say that it has ended",
        phase::COMPLETED,
        phase::FAILED
    ))
}

/// What a Backup waits for whose snapshots have not all ended. `since`: when the Backup started, for objects without a
/// start of their own.
pub fn waits(objects: &[Value], since: Timestamp) -> Waits {
    let of = |object: &Value| {
        if operation_state(object) != OperationState::Open {
            return None;
        }
        let reason = does_not_end(object).unwrap_or_else(|| "the plugin to finish it".to_owned());
        let start = text(object, "/status/startTimestamp").parse().unwrap_or(since);
        let item = format!("volumepluginbackups/{}", text(object, "/metadata/name"));
        let things = format!("the snapshot of {}: {reason}", text(object, "/spec/volume"));
        Some(Wait::new(&item, &[things], text(object, "/spec/plugin"), start))
    };
    Waits::new(objects.iter().filter_map(of).collect())
}

/// Whether a plugin's own phase means failure: a completion time is recorded then, too.
pub fn is_bad(phase: &str) -> bool {
    let phase = phase.to_lowercase();
    ["fail", "error", "cancel", "abort"].iter().any(|word| phase.contains(word))
}

/// When the progress last changed: from the server's annotation; for a plugin's own object, the last write.
pub fn last_change(object: &Value) -> Option<Timestamp> {
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let noted = time(&object["metadata"]["annotations"][PROGRESS_CHANGED]);
    let writes = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    noted.or_else(|| {
        let last = writes.filter_map(|write| time(&write["time"])).max();
        last.or_else(|| time(&object["status"]["startTimestamp"]))
            .or_else(|| time(&object["metadata"]["creationTimestamp"]))
    })
}

/// Since when a running operation has shown no progress, if that exceeds [`HUNG_AFTER`].
pub fn hung(object: &Value, now: Timestamp) -> Option<Timestamp> {
    let changed = last_change(object)?;
    let quiet = Duration::try_from(now.duration_since(changed)).unwrap_or_default();
    (operation_state(object) == OperationState::Open && quiet >= HUNG_AFTER).then_some(changed)
}

/// The patch for an object, of the server or of a plugin, whose time limit is exceeded or whose plugin is gone.
pub fn given_up(message: &str, now: Timestamp) -> Value {
    json!({"status": {"phase": phase::FAILED, "message": message, "completionTimestamp": seconds(now)}})
}
