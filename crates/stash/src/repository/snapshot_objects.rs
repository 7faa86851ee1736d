//! Snapshot objects: the newest snapshots of each Repository, written after each inspection. Deleting one deletes no
//! data.

use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use lifeboat_api::repositories::Snapshot;
use lifeboat_api::stash::Repository;
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_control::Core;
use lifeboat_plan::stash::repository::{SnapshotFacts, mirror};

use super::object;

/// Updates the objects to the content of the repository. Does nothing in a cluster without the kind.
pub(super) async fn show(
    core: &Core,
    repository: &Repository,
    snapshots: &[SnapshotFacts],
) -> Result<(), ApiError> {
    let (namespace, name) = object::parts(repository);
    let api: Api<Snapshot> = Api::namespaced(core.client.clone(), namespace);
    let existing = match api.list(&ListParams::default().labels(&mirror::selector(name))).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        listed => listed.attempt(format!("list Snapshots of Repository {namespace}/{name}"))?.items,
    };
    let mirror::Changes { create, replace, delete } = mirror::changes(repository, snapshots, &existing);
    for gone in delete {
        match api.delete(&gone, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => deleted.attempt(format!("delete Snapshot {namespace}/{gone}")).map(drop)?,
        }
    }
    for snapshot in create {
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match api.create(&params, &snapshot).await {
            // An object of that name which does not belong to this Repository is not changed.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => created.attempt(format!("create a Snapshot in {namespace}")).map(drop)?,
        }
    }
    for snapshot in replace {
        let name = snapshot.metadata.name.clone().unwrap_or_default();
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patched = api.patch(&name, &params, &Patch::Merge(&snapshot)).await;
        patched.attempt(format!("change Snapshot {namespace}/{name}"))?;
    }
    Ok(())
}
