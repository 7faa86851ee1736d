//! The cluster's VolumeSnapshotClasses, for driver VolumeSnapshotter, and whether the cluster has snapshots at all. Called by the
//! controllers of invokers and by sessions.

use kube::Api;
use kube::api::{DynamicObject, ListParams};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::invoker::ValidBackup;
use lifeboat_plan::stash::targets::check_class;
use lifeboat_plan::transfer::snapshots::{GROUP, VERSION};
use serde_json::Value;

/// Why no VolumeSnapshots can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSnapshots {
    #[error(
        "the cluster does not serve {GROUP}/{VERSION}, which driver VolumeSnapshotter needs; install the CSI snapshot CRDs and controller, or \
         use driver Restic"
    )]
    NotServed,
    #[error(
        "the server may not list volumesnapshotclasses of {GROUP}, which driver VolumeSnapshotter needs; give its service account that right"
    )]
    Forbidden,
}

/// Reads the classes.
pub(crate) async fn read(core: &Core) -> Result<Result<Vec<Value>, NoSnapshots>, ApiError> {
    let resource = objects::resource(GROUP, VERSION, "VolumeSnapshotClass", "volumesnapshotclasses");
    let api: Api<DynamicObject> = Api::all_with(core.client.clone(), &resource);
    match api.list(&ListParams::default()).await {
        Ok(listed) => Ok(Ok(listed.items.iter().map(objects::to_json).collect())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(NoSnapshots::NotServed)),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Err(NoSnapshots::Forbidden)),
        Err(error) => Err(error).attempt("list volumesnapshotclasses"),
    }
}

/// Why an invoker with driver VolumeSnapshotter cannot run in this cluster. Whether a class fits a claim is known
/// only when the claim is known.
pub(crate) async fn refusal(core: &Core, valid: &ValidBackup) -> Result<Option<String>, ApiError> {
    let classes = match read(core).await? {
        Ok(classes) => classes,
        Err(problem) => return Ok(Some(problem.to_string())),
    };
    let named = valid.members.iter().filter_map(|member| {
        let class = member.spec.target.as_ref()?.snapshot_class_name.as_deref();
        Some((&member.place, class.filter(|class| !class.is_empty())?))
    });
    let problems = named.filter_map(|(place, class)| {
        let problem = check_class(&classes, class).err()?;
        Some(format!("{place}: {problem}"))
    });
    let problems: Vec<String> = problems.collect();
    Ok((!problems.is_empty()).then(|| problems.join("; ")))
}
