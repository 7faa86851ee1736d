//! From the progress that a plugin reports to the status of its object.

use jiff::Timestamp;
use lifeboat_archive::RunLog;
use lifeboat_plan::velero::volume_plugin::{Kind, ObjectState, OperationState, PROVIDER_VOLUME};
use lifeboat_plugin::volume::{ProgressEnd, ProgressOf, VolumeProgress};
use serde_json::Value;

use super::Operation;

/// The progress of one call.
#[derive(Default)]
pub(super) struct Mirror {
    last: Option<VolumeProgress>,
    complained: bool,
}

impl Mirror {
    /// The status while the call runs. Whatever the plugin reports, only the call decides the end.
    pub(super) fn during(
        &mut self,
        progress: VolumeProgress,
        before: &ObjectState,
        log: &RunLog,
    ) -> ObjectState {
        let (progress, complaint) = progress.after(self.last.as_ref());
        if let Some(message) = complaint {
            self.complain(log, &message);
        }
        let mut shown = taken(&progress, before);
        if progress.ended().is_some() {
            shown.phase.clone_from(&before.phase);
        }
        shown.completed = None;
        self.last = Some(progress);
        shown
    }

    /// Logs a message once for each operation.
    pub(super) fn complain(&mut self, log: &RunLog, message: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            log.info(message, &[]);
        }
    }
}

/// The status after the call, with the end if the plugin reports it.
pub(super) fn later(progress: VolumeProgress, before: &ObjectState, now: Timestamp) -> ObjectState {
    let (done, total) = before.progress.unwrap_or_default();
    let last = VolumeProgress { bytes_done: done, total_bytes: total, ..VolumeProgress::default() };
    let (progress, _) = progress.after(Some(&last));
    let shown = taken(&progress, before);
    match progress.ended() {
        None => ObjectState { completed: None, ..shown },
        Some(ProgressEnd::Well) => shown.ended(None, now),
        Some(ProgressEnd::Badly) => {
            let message = Some(progress.message.as_str()).filter(|message| !message.is_empty());
            shown.ended(Some(message.unwrap_or("the plugin gives no reason")), now)
        }
    }
}

/// The state of an operation whose call succeeded.
pub(super) async fn after_call(
    operation: &Operation<'_>,
    shown: ObjectState,
    made: &str,
) -> (ObjectState, OperationState) {
    let completed =
        |shown: ObjectState| (shown.ended(None, operation.client.now()), OperationState::Completed);
    if !matches!(operation.snapshotter.reports_progress().await, Ok(true)) {
        return completed(shown);
    }
    match operation
        .snapshotter
        .progress(&of(operation.subject.kind, &operation.subject.snapshot_id, made))
        .await
    {
        // The plugin does not know its own snapshot or volume: the success of the call counts.
        Ok(None) => completed(shown),
        Ok(Some(progress)) => {
            let ended = progress.ended();
            let shown = later(progress, &shown, operation.client.now());
            let standing = match ended {
                None => OperationState::Open,
                Some(ProgressEnd::Well) => OperationState::Completed,
                Some(ProgressEnd::Badly) => OperationState::Failed(shown.message.clone()),
            };
            (shown, standing)
        }
        // The plugin may answer later.
        Err(_) => (shown, OperationState::Open),
    }
}

/// How the progress of an object's operation is polled after its call.
pub(super) fn of_object(kind: Kind, object: &Value) -> ProgressOf {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match kind {
        Kind::Backup => of(kind, "", text("/status/snapshotID")),
        Kind::Restore => {
            let volume = object["metadata"]["annotations"][PROVIDER_VOLUME].as_str().unwrap_or_default();
            of(kind, text("/spec/snapshotID"), volume)
        }
    }
}

fn of(kind: Kind, snapshot_id: &str, made: &str) -> ProgressOf {
    match kind {
        Kind::Backup => ProgressOf::Snapshot { snapshot_id: made.to_owned() },
        Kind::Restore => {
            ProgressOf::Restore { snapshot_id: snapshot_id.to_owned(), volume_id: Some(made.to_owned()) }
        }
    }
}

fn taken(progress: &VolumeProgress, before: &ObjectState) -> ObjectState {
    let said = |word: &String| (!word.is_empty()).then(|| word.clone());
    let counted = progress.bytes_done > 0 || progress.total_bytes > 0;
    ObjectState {
        phase: said(&progress.phase).unwrap_or_else(|| before.phase.clone()),
        message: progress.message.clone(),
        started: progress.started.or(before.started),
        completed: progress.completed,
        progress: counted.then_some((progress.bytes_done, progress.total_bytes)).or(before.progress),
        plugin_specific: progress.plugin_specific.clone(),
        made: before.made.clone(),
    }
}
