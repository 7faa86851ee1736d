//! `lifeboat stash debug backup`: an invoker, its Repository, its newest session and the movers of that.

use kube::ResourceExt;
use lifeboat_cluster::{Attempt, objects};

use super::report::Report;
use crate::commands::stash::Tenant;
use crate::commands::stash::names::ObjectName;
use crate::commands::stash::view::View;
use crate::commands::stash::watch::newest_of;
use crate::error::CliError;
use crate::nouns::BACKUP_SESSION;

pub(super) async fn report(tenant: &Tenant, invoker: &ObjectName) -> Result<String, CliError> {
    let noun = invoker.kind.noun();
    let found = tenant.find(noun, &invoker.name).await?;
    let mut report = Report::new(tenant);
    report.object(noun, &found).await;
    let json = objects::to_json(&found);
    for member in json["status"]["memberConditions"].as_array().into_iter().flatten() {
        report.conditions(&member["conditions"]);
    }
    report.repository(&json["spec"]["repository"]).await;
    let Some(session) = newest_of(tenant, invoker).await? else {
        report.heading("no BackupSession yet");
        return Ok(report.finish());
    };
    let attempt = format!("read BackupSession {}", session.name);
    if let Some(object) = tenant.api(BACKUP_SESSION).get_opt(&session.name).await.attempt(attempt)? {
        report.object(BACKUP_SESSION, &object).await;
        let json = objects::to_json(&object);
        for target in json["status"]["targets"].as_array().into_iter().flatten() {
            report.conditions(&target["conditions"]);
        }
        report.lines(&View::of(&json).table().trim_fmt());
        report.movers(&object.uid().unwrap_or_default()).await;
    }
    Ok(report.finish())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::stash::names;
    use crate::commands::stash::testing::{SHOP, World};

    #[tokio::test]
    async fn a_report_has_objects_conditions_events_and_the_log_of_the_mover() {
        let world = World::new().await;
        let failing = json!([{"type": "BackupTargetFound", "status": "False", "reason": "TargetNotAvailable", "message": "no web"}]);
        world.put(
            "backupconfigurations",
            "app",
            json!({"spec": {"repository": {"name": "repo"}}, "status": {"phase": "NotReady", "conditions": failing}}),
        );
        let status = json!({"snapshotCount": 3, "totalSize": "1 MiB"});
        world.put(
            "repositories",
            "repo",
            json!({"spec": {"backend": {"storageSecretName": "keys"}}, "status": status}),
        );
        world.put_secret("keys", &[("RESTIC_PASSWORD", "hidden")]);
        let session = json!({"spec": {"invoker": {"kind": "BackupConfiguration", "name": "app"}},
            "status": {"phase": "Failed", "targets": [{"ref": {"kind": "Deployment", "name": "web"},
                "stats": [{"hostname": "app", "phase": "Failed", "error": "killed"}]}]}});
        world.put("backupsessions", "app-1", session);
        let labels =
            json!({"app.kubernetes.io/name": "lifeboat-mover", "lifeboat.io/owner-uid": "uid-app-1"});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": labels}});
        world.server.put(&format!("/apis/batch/v1/namespaces/{SHOP}/jobs/mover-1"), job);
        let pod = format!("/api/v1/namespaces/{SHOP}/pods/mover-1-x");
        let labels = json!({"batch.kubernetes.io/job-name": "mover-1", "job-name": "mover-1"});
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Failed"}});
        world.server.put(&pod, object);
        world.server.set_log(&pod, "cannot read /data/x");
        let event = json!({"apiVersion": "v1", "kind": "Event", "reason": "OOMKilled", "message": "too much", "type": "Warning",
            "involvedObject": {"uid": "uid-mover-1-x"}, "lastTimestamp": "2026-11-18T00:00:00Z"});
        world.server.put(&format!("/api/v1/namespaces/{SHOP}/events/e"), event);
        let report = report(&world.tenant, &names::invoker("app").unwrap()).await.unwrap();
        for expected in [
            "== BackupConfiguration shop/app: NotReady",
            "False   BackupTargetFound (TargetNotAvailable): no web",
            "== Repository shop/repo: no phase yet",
            "size: 1 MiB",
            "Secret keys has the keys RESTIC_PASSWORD",
            "== BackupSession shop/app-1: Failed",
            "Deployment web   app    Failed",
            "== mover mover-1",
            "pod mover-1-x: Failed, node n1",
            "Warning OOMKilled: too much",
            "| cannot read /data/x",
        ] {
            assert!(report.contains(expected), "{expected} is not in\n{report}");
        }
        assert!(!report.contains("hidden"));
    }

    #[tokio::test]
    async fn what_is_missing_does_not_hide_the_rest() {
        let world = World::new().await;
        world.put("backupbatches", "apps", json!({"spec": {"repository": {"name": "gone"}}}));
        let report = report(&world.tenant, &names::invoker("backupbatch/apps").unwrap()).await.unwrap();
        assert!(
            report
                .contains("there is no Repository \"gone\" in namespace \"shop\" (there are no Repositories"),
            "{report}"
        );
        assert!(report.contains("== no BackupSession yet"), "{report}");
    }
}
