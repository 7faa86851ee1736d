//! Allows backups after a failed restore: when a user sets an annotation on the restore, the records on the claims
//! are removed.

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_cluster::ApiError;
use lifeboat_control::Core;
use lifeboat_plan::stash::session::is_resumed;
use lifeboat_plan::stash::state::MemberState;
use lifeboat_plan::stash::state::conditions::ConditionType;

use crate::sessions::record::SessionRecord;
use crate::sessions::unfinished;

/// Removes the records of a restore that has ended, if its annotation requests that.
pub(super) async fn allow_backups(
    core: &Core,
    restore: &DynamicObject,
    record: &SessionRecord,
) -> Result<(), ApiError> {
    // This also applies to a restore that wrote nothing, because an earlier one left its target half restored.
    let is_done = |member: &MemberState| ConditionType::BackupsBlocked.is_false(&member.conditions);
    let all_done = record.read(|state| state.members.iter().all(is_done)).await;
    if all_done || !is_resumed(restore.annotations(), &record.uid) {
        return Ok(());
    }
    unfinished::resume(core, &record.namespace, &record.state().await).await?;
    let (now, allowed) = (record.now(), ConditionType::BackupsBlocked.no("a person allowed backups"));
    let changed = record.change(|state| {
        for member in state.members.iter_mut().filter(|member| !is_done(member)) {
            member.observe(&allowed, now);
        }
    });
    changed.await.map(drop)
}
