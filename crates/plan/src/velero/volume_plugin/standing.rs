//! How an operation stands, by its object: open, completed, failed, or hung. Takes objects of the server's and of plugins;
//! called by module `volume_plugin` of crate `velero` and by the command line.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::time::seconds;
use lifeboat_api::velero::volume_plugin::phase;
use serde_json::{Value, json};

use super::PROGRESS_CHANGED;

/// An operation whose progress did not change for so long is shown as one that may hang.
pub const HUNG_AFTER: Duration = Duration::from_mins(10);

/// How an object of either kind stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Open,
    Completed,
    /// With the plugin's words.
    Failed(String),
}

/// At its end: a completion time, or phase Completed or Failed in any spelling. With a time, other words for a bad end count
/// as well.
pub fn standing(object: &Value) -> Standing {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let said = text("/status/phase");
    let at_its_end = !text("/status/completionTimestamp").is_empty();
    if said.eq_ignore_ascii_case(phase::FAILED) || (at_its_end && is_bad(said)) {
        let words = Some(text("/status/message")).filter(|words| !words.is_empty());
        return Standing::Failed(words.unwrap_or("the plugin gives no reason").to_owned());
    }
    if said.eq_ignore_ascii_case(phase::COMPLETED) || at_its_end {
        return Standing::Completed;
    }
    Standing::Open
}

/// Whether a plugin's own word for its end says that it did not end well: a completion time is recorded then too.
pub fn is_bad(phase: &str) -> bool {
    let phase = phase.to_lowercase();
    ["fail", "error", "cancel", "abort"].iter().any(|word| phase.contains(word))
}

/// When the progress last changed: our note of it; of a plugin's own object, the last write.
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

/// Since when an operation that goes on shows nothing new, where that is long ago.
pub fn hung(object: &Value, now: Timestamp) -> Option<Timestamp> {
    let changed = last_change(object)?;
    let quiet = Duration::try_from(now.duration_since(changed)).unwrap_or_default();
    (standing(object) == Standing::Open && quiet >= HUNG_AFTER).then_some(changed)
}

/// What to merge into an object, ours or a plugin's, whose time is over or whose plugin is gone.
pub fn given_up(words: &str, now: Timestamp) -> Value {
    json!({"status": {"phase": phase::FAILED, "message": words, "completionTimestamp": seconds(now)}})
}
