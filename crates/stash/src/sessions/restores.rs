//! Restores of a namespace as backups see them: a target that is being restored is not backed up, nor one whose last restore failed.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifeboat_api::common::GoDuration;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::session::{
    OtherRestore, RestoreProgress, SessionKey, TargetKey, TargetVolumes, is_resumed,
};
use lifeboat_plan::stash::state::conditions::ConditionType::{
    self, BackendSecretFound, RepositoryFound, RestoreTargetFound,
};
use lifeboat_plan::stash::state::{MemberState, RestoredData, SessionPhase, SessionState, WorkPhase};

use super::kind::SessionKind;
use crate::abandoned::Abandoned;

/// All restores of a namespace, also those that have ended. Kinds that the cluster does not serve have none.
pub(crate) async fn restores(
    core: &Core,
    abandoned: &Abandoned,
    namespace: &str,
) -> Result<Vec<OtherRestore>, ApiError> {
    let mut found = Vec::new();
    for kind in [SessionKind::Restore, SessionKind::RestoreBatch] {
        let api = objects::namespaced(&core.client, namespace, &kind.resource());
        let listed = match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            listed => listed.attempt(format!("list objects {} of namespace {namespace}", kind.as_str()))?,
        };
        // One that is abandoned left its record on the data that it wrote.
        let there = listed.items.iter().filter(|object| !abandoned.has(object.metadata.uid.as_deref()));
        for object in there {
            found.extend(of_object(kind, namespace, object));
        }
    }
    Ok(found)
}

/// The restores of one object: one for each member.
fn of_object(kind: SessionKind, namespace: &str, object: &DynamicObject) -> Vec<OtherRestore> {
    let Ok(state) = kind.read(object) else { return Vec::new() };
    let created = object.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let ended = created.checked_add(state.duration.map(GoDuration::to_signed).unwrap_or_default());
    let ended = ended.unwrap_or(created);
    let resumed = is_resumed(object.annotations(), object.metadata.uid.as_deref().unwrap_or_default());
    let restore = |member: &MemberState| {
        let target = member.reference.as_ref().map(|reference| TargetKey::of(reference, namespace));
        Some(OtherRestore {
            session: SessionKey { created, namespace: namespace.to_owned(), name: object.name_any() },
            kind: kind.as_str(),
            on: TargetVolumes::new(namespace, target, member.claims.clone()),
            progress: progress(&state, member, ended, resumed)?,
        })
    };
    state.members.iter().filter_map(restore).collect()
}

/// How far a restore of a target has come; None for a restore that has not started and never will.
fn progress(
    state: &SessionState,
    member: &MemberState,
    ended: Timestamp,
    resumed: bool,
) -> Option<RestoreProgress> {
    let phase = member.current_phase();
    match phase {
        _ if state.phase == SessionPhase::Invalid => None,
        WorkPhase::Succeeded | WorkPhase::Unknown => Some(RestoreProgress::Succeeded { ended }),
        // If it wrote data, the record is on the claims and stays there until the data is complete again.
        _ if ConditionType::BackupsBlocked.status_in(&member.conditions).is_some()
            && has_ended(state, phase) =>
        {
            None
        }
        // A restore that failed before it wrote did not change the data.
        WorkPhase::Failed => (member.restored_data() == RestoredData::Open)
            .then_some(RestoreProgress::Failed { ended, resumed }),
        // A session that ended while a host was being restored left that host half restored.
        WorkPhase::Running if state.has_ended() => Some(RestoreProgress::Failed { ended, resumed }),
        WorkPhase::Running => Some(RestoreProgress::Running),
        WorkPhase::Pending if state.has_ended() => None,
        WorkPhase::Pending if has_all(state, member) => Some(RestoreProgress::Queued),
        WorkPhase::Pending => Some(RestoreProgress::Waiting),
    }
}

fn has_ended(state: &SessionState, phase: WorkPhase) -> bool {
    phase.has_ended() || state.has_ended()
}

/// Whether nothing is missing for the restore, so that it only waits for its turn.
fn has_all(state: &SessionState, member: &MemberState) -> bool {
    RestoreTargetFound.is_true(&member.conditions)
        && [RepositoryFound, BackendSecretFound].iter().all(|kind| !kind.is_false(&state.conditions))
}

#[cfg(test)]
mod tests {
    use lifeboat_control::testing::ApiServer;
    use lifeboat_plan::stash::session::RESUMED;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const PATH: &str = "/apis/stash.appscode.com/v1beta1/namespaces/shop/restoresessions/back";

    fn restore(status: &Value, annotations: &Value) -> Value {
        json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession",
            "metadata": {"annotations": annotations},
            "spec": {"repository": {"name": "r"}, "target": {"ref": {"kind": "Deployment", "name": "web"}}},
            "status": status})
    }

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    async fn found(status: &Value, annotations: &Value) -> Vec<String> {
        let server = ApiServer::default();
        server.put(PATH, restore(status, annotations));
        let found = restores(&server.core().await, &Abandoned::default(), "shop").await.unwrap();
        let shown = |restore: &OtherRestore| {
            let progress = format!("{:?}", restore.progress);
            let word = progress.split([' ', '{']).next().unwrap_or_default().to_owned();
            let resumed = if progress.contains("resumed: true") { " resumed" } else { "" };
            format!("{} {}{resumed}", restore.on.title().unwrap(), word)
        };
        found.iter().map(shown).collect()
    }

    #[rstest]
    #[case::new(json!({}), "Waiting")]
    #[case::has_its_target(json!({"phase": "Pending", "conditions": [condition("RestoreTargetFound", "True")]}), "Queued")]
    #[case::no_repository(
        json!({"phase": "Pending", "conditions": [condition("RestoreTargetFound", "True"), condition("RepositoryFound", "False")]}),
        "Waiting"
    )]
    #[case::at_work(
        json!({"phase": "Running", "totalHosts": 1, "stats": [{"hostname": "web", "phase": "Running"}]}), "Running"
    )]
    #[case::well(
        json!({"phase": "Succeeded", "totalHosts": 1, "stats": [{"hostname": "web", "phase": "Succeeded"}]}), "Succeeded"
    )]
    #[case::failed(
        json!({"phase": "Failed", "totalHosts": 1, "stats": [{"hostname": "web", "phase": "Failed", "attempt": 1}]}),
        "Failed"
    )]
    #[case::half_restored_and_down(held_down("Failed", Some(1)), "Failed")]
    #[tokio::test]
    async fn a_restore_of_a_target_is_seen(#[case] status: Value, #[case] expected: &str) {
        assert_eq!(found(&status, &json!({})).await, [format!("Deployment shop/web {expected}")]);
    }

    /// A restore whose workload was held down, with one host.
    fn held_down(host: &str, attempt: Option<u32>) -> Value {
        let restore = json!({"kind": "RestoreSession", "namespace": "shop", "name": "back", "uid": "u"});
        let standstill = json!({"kind": "Deployment", "name": "web", "uid": "w", "replicas": 1, "step": "HeldDown",
            "safetyCopy": true, "restore": restore, "failure": "it could not be started"});
        let stats = json!([{"hostname": "web", "phase": host, "attempt": attempt, "startTime": "2026-01-01T00:00:00Z"}]);
        json!({"phase": "Failed", "totalHosts": 1, "stats": stats, "standstill": standstill,
            "conditions": [condition("RestoreExecutorEnsured", "False")]})
    }

    #[rstest]
    #[case::with_the_data(held_down("Succeeded", None))]
    #[case::as_before(held_down("Failed", None))]
    #[tokio::test]
    async fn a_restore_whose_workload_was_refused_its_start_left_no_half_restored_data(
        #[case] status: Value,
    ) {
        assert_eq!(found(&status, &json!({})).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_failed_restore_may_be_resumed_and_an_invalid_one_never_was() {
        let failed = json!({"phase": "Failed", "totalHosts": 1, "stats": [{"hostname": "web", "phase": "Failed", "attempt": 1}]});
        assert_eq!(
            found(&failed, &json!({RESUMED: "uid-back"})).await,
            ["Deployment shop/web Failed resumed"]
        );
        assert_eq!(
            found(&failed, &json!({RESUMED: "uid-of-an-earlier-one"})).await,
            ["Deployment shop/web Failed"]
        );
        let untouched =
            json!({"phase": "Failed", "totalHosts": 1, "stats": [{"hostname": "web", "phase": "Failed"}]});
        assert_eq!(found(&untouched, &json!({})).await, Vec::<String>::new(), "it wrote nothing");
        let invalid = json!({"phase": "Invalid", "conditions": [condition("ValidationPassed", "False")]});
        assert_eq!(found(&invalid, &json!({})).await, Vec::<String>::new());
    }
}
