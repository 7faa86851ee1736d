//! DeleteBackupRequest: deletes a backup and everything it made, in an order in which every step can be repeated:
//! delete item actions, snapshots, copies of volumes, files, restores, the object. What cannot be removed is named in
//! the request's errors, and then the object stays: with its phase while everything is left, else as Failed, or as
//! PartiallyFailed if only snapshots are gone. Only files of this backup are deleted; if another backup has its name
//! in storage, only the object is deleted.

mod copies;
mod csi;
mod files;
mod gather;
mod items;
mod mark;
mod owned;
mod snapshots;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_api::velero::{DeleteBackupRequest, names};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::Turns;
use lifeboat_plan::velero::deletion::{self, Extent, RequestPlan};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;
use crate::locations::Location;
use crate::plugins::Acting;
use gather::Gathered;
use owned::Owner;
use snapshots::SnapshotsDeleted;

/// When a request is tried again whose backup another request is deleting.
const NEXT_TRY: Duration = Duration::from_secs(5);

struct State {
    resource: ApiResource,
    /// One request at a time works on each backup.
    turns: Turns,
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<DeleteBackupRequest>();
    let watches = context.watches(&resource).until(shutdown);
    let state = Arc::new(State { resource, turns: Turns::default() });
    dynamic::drive("delete-backup-request", watches, context.clone(), state, reconcile).await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, &state.resource);
    match deletion::plan(&objects::to_json(&object), context.now()) {
        RequestPlan::KeepFor(rest) => return Ok(Action::requeue(rest)),
        RequestPlan::Remove => {
            objects::delete(&api, &object).await?;
            return Ok(Action::await_change());
        }
        RequestPlan::Work => {}
    }
    let backup = object.data.pointer("/spec/backupName").and_then(Value::as_str).unwrap_or_default();
    if backup.is_empty() {
        let message = "spec.backupName is required: name the Backup to delete".to_owned();
        return status::answer(&context, &state, &object, vec![message]).await;
    }
    let Some(_turn) = state.turns.try_take(backup.to_owned()) else {
        return Ok(Action::requeue(NEXT_TRY));
    };
    let gathered = gather::gather(&context, backup).await?;
    let asked_uid = object.labels().get(names::BACKUP_UID).map_or("", String::as_str);
    match deletion::admit(&gathered.known(asked_uid)) {
        Err(error) => status::answer(&context, &state, &object, vec![error.to_string()]).await,
        Ok(extent) => {
            let begun = status::begin(&context, &state, &object, &gathered, extent).await?;
            let acting = context.acting_quietly();
            let deleted = delete(&context, &acting, &gathered, extent).await;
            acting.close().await;
            tracing::info!(backup, problems = ?deleted.problems, "deletion ended");
            status::end(&context, &state, &begun, &gathered, deleted).await
        }
    }
}

/// The result of a deletion.
#[derive(Default)]
struct Deleted {
    /// What could not be removed, for people.
    problems: Vec<String>,
    /// What is left because nothing but the bucket says that it is the backup's, for people.
    left: Vec<String>,
    /// Whether the removal of files was started.
    begun: bool,
    /// Whether snapshots were removed.
    snapshots: bool,
}

impl Deleted {
    fn add(&mut self, gone: SnapshotsDeleted) {
        self.problems.extend(gone.problems);
        self.left.extend(gone.left);
        self.snapshots |= gone.any;
    }

    fn is_well(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Carries out the deletion.
async fn delete(context: &Context, acting: &Acting, gathered: &Gathered, extent: Extent) -> Deleted {
    let mut deleted = Deleted::default();
    if extent == Extent::Everything
        && let Some(location) = &gathered.location
    {
        delete_data(context, acting, gathered, location, &mut deleted).await;
        if deleted.is_well() {
            deleted.begun = true;
            deleted.problems.extend(files::of_backup(location, &gathered.name).await);
        }
        for restore in &gathered.restores {
            if deleted.is_well() {
                deleted.problems.extend(files::of_restore(location, &restore.name_any()).await);
            }
        }
    }
    if deleted.is_well() {
        deleted.problems.extend(gather::delete_objects(context, gathered, extent).await);
    }
    deleted
}

/// Deletes the backup's data outside of its directory. If the backup is kept anyway, its snapshots are kept too, so that
/// it can still be restored: everything is read before the first one is deleted.
async fn delete_data(
    context: &Context,
    acting: &Acting,
    gathered: &Gathered,
    location: &Location,
    deleted: &mut Deleted,
) {
    let owner = match Owner::read(context, gathered, location).await {
        Ok(owner) => owner,
        Err(problems) => return deleted.problems.extend(problems),
    };
    let copies = copies::read(location, &gathered.name, &owner.volumes).await;
    deleted.problems.extend(copies.problems.iter().cloned());
    if !deleted.is_well() {
        return;
    }
    deleted.left = owner.unproven();
    let mark = if owner.has_snapshots() || !copies.is_empty() {
        match mark::begin(location, &gathered.name).await {
            Ok(mark) => mark,
            Err(problem) => return deleted.problems.push(problem.to_string()),
        }
    } else {
        None
    };
    let ran = items::run(context, &acting.actions.delete, gathered, location, &owner).await;
    deleted.add(csi::delete(context, &acting.actions.delete, gathered, &owner, &ran).await);
    deleted.add(SnapshotsDeleted { problems: ran.problems, left: ran.left, any: ran.any });
    if deleted.is_well() {
        deleted.add(snapshots::delete(context, &owner).await);
    }
    if deleted.is_well() {
        deleted.add(copies.forget(context, location, &owner).await);
    }
    if let Some(mark) = mark.filter(|_| !deleted.snapshots && !deleted.is_well()) {
        deleted.problems.extend(mark.take_back(location).await);
    }
}
