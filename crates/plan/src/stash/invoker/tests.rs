mod observed;
mod restic;
mod snapshotter;

use lifeboat_api::stash::{BackupBatchSpec, BackupConfigurationSpec, RestoreBatchSpec, RestoreSessionSpec};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::stash::hosts::collisions;
use crate::stash::reservation::RepositoryName;
use crate::stash::retention::{KeepPolicy, Retention};
use crate::stash::session::Order;

fn target() -> Value {
    json!({
        "alias": "app", "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "volumeMounts": [{"name": "data", "mountPath": "/source/data"}], "paths": ["/source/data"],
    })
}

fn database() -> Value {
    let reference = json!({"apiVersion": "apps/v1", "kind": "AppBinding", "name": "sample-mysql"});
    json!({"target": {"alias": "db", "ref": reference}, "task": {"name": "mysql-backup-8.0.14"}})
}

/// A BackupConfiguration, with other values at some JSON pointers.
fn configuration(changes: &[(&str, Value)]) -> BackupConfigurationSpec {
    let spec = json!({
        "repository": {"name": "gcs-repo"}, "schedule": "*/5 * * * *", "target": target(),
        "retentionPolicy": {"name": "keep-last-5", "keepLast": 5, "prune": true},
    });
    serde_json::from_value(changed(spec, changes)).unwrap()
}

fn batch(changes: &[(&str, Value)]) -> BackupBatchSpec {
    let spec = json!({
        "repository": {"name": "gcs-repo"}, "schedule": "*/5 * * * *", "members": [database(), {"target": target()}],
        "retentionPolicy": {"name": "keep-last-10", "keepLast": 10, "prune": true},
    });
    serde_json::from_value(changed(spec, changes)).unwrap()
}

/// Sets or, with null, removes a field: `/target/ref/kind`.
fn changed(mut spec: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = spec.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
        match (parent, value) {
            (Value::Object(fields), Value::Null) => {
                fields.remove(name);
            }
            (Value::Object(fields), value) => {
                fields.insert(name.to_owned(), value.clone());
            }
            (Value::Array(list), value) => list[name.parse::<usize>().unwrap()] = value.clone(),
            _ => panic!("{pointer}"),
        }
    }
    spec
}

#[test]
fn the_samples_of_the_batch_document_are_valid() {
    let valid = backup_configuration("demo", &configuration(&[])).unwrap();
    let repository = RepositoryName { namespace: "demo".into(), name: "gcs-repo".into() };
    assert_eq!(valid.driver, ValidDriver::Restic(repository));
    assert_eq!(valid.retention, Retention::Keep(KeepPolicy { last: 5, ..KeepPolicy::default() }));
    assert_eq!((valid.history_limit, valid.order, valid.members.len()), (1, Order::Parallel, 1));
    let target = valid.members[0].target.as_ref().unwrap();
    assert_eq!(target.key.to_string(), "Deployment demo/web");
    assert_eq!(target.mounts.as_ref().unwrap().paths.len(), 1);

    let spec = batch(&[("/maintainOrder", json!(true)), ("/repository/namespace", json!("backup"))]);
    let hosts = backup_hosts(&spec.members, |_| Vec::new());
    let valid = backup_batch("demo", &spec, &collisions(&hosts)).unwrap();
    assert_eq!((valid.order, valid.members.len()), (Order::Sequential, 2));
    assert_eq!(valid.members[0].place, "spec.members[0]");
    assert_eq!(valid.members[0].target.as_ref().unwrap().mounts, None, "a task reads the database");
}

#[rstest]
#[case::schedule(&[("/schedule", json!("5 minutes"))], "spec.schedule: \"5 minutes\" has 2 fields")]
#[case::driver(&[("/driver", json!("Kopia"))], "spec.driver \"Kopia\"")]
#[case::repository(&[("/repository", Value::Null)], "spec.repository is missing")]
#[case::no_target(&[("/target", Value::Null)], "spec.target is missing; only a member with task.name")]
#[case::task_without_name(&[("/target", Value::Null), ("/task", json!({"params": []}))], "spec.target is missing")]
#[case::kind(&[("/target/ref/kind", json!("CronJob"))], "spec.target.ref.kind \"CronJob\"")]
#[case::namespace(&[("/target/ref/namespace", json!("other"))], "only an AppBinding may be elsewhere, and this is a Deployment")]
#[case::no_mounts(&[("/target/volumeMounts", json!([]))], "target.volumeMounts has no entry")]
#[case::path(&[("/target/paths", json!(["/var/lib"]))], "path /var/lib is below no mount")]
#[case::args(&[("/target/args", json!(["--ignore-inode"]))], "spec.target.args: \"--ignore-inode\"")]
#[case::time_out(&[("/timeOut", json!("-1h"))], "spec.timeOut -1h0m0s is negative")]
#[case::retries(&[("/retryConfig", json!({"maxRetry": -1}))], "spec.retryConfig.maxRetry -1 is negative")]
#[case::history(&[("/backupHistoryLimit", json!(-1))], "spec.backupHistoryLimit -1 is negative")]
#[case::hook(
    &[("/hooks", json!({"preBackup": {"httpPost": {"port": 80, "body": "{{ now }}"}}}))],
    "spec.hooks.preBackup: httpPost.body: \"now\" is not supported"
)]
#[case::policy(
    &[("/hooks", json!({"postBackup": {"tcpSocket": {"port": 80}, "executionPolicy": "Sometimes"}}))],
    "spec.hooks.postBackup.executionPolicy \"Sometimes\""
)]
#[case::exec_without_target(
    &[("/target", Value::Null), ("/task", json!({"name": "dump"})), ("/hooks", json!({"preBackup": {"exec": {"command": ["sync"]}}}))],
    "spec.hooks.preBackup: exec: a hook of a whole batch, or of a member without target"
)]
#[case::snapshots_of_nothing(
    &[("/target", Value::Null), ("/task", json!({"name": "dump"})), ("/driver", json!("VolumeSnapshotter"))],
    "driver VolumeSnapshotter needs one"
)]
fn an_invalid_backup_configuration_names_the_field(#[case] changes: &[(&str, Value)], #[case] says: &str) {
    let message = backup_configuration("demo", &configuration(changes)).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[rstest]
#[case::a_task_alone(&[("/target", Value::Null), ("/task", json!({"name": "kubedump-backup"}))], "no target, but a task")]
#[case::app_binding_elsewhere(
    &[("/target", json!({"ref": {"kind": "AppBinding", "name": "db", "namespace": "other"}}))],
    "an AppBinding may be elsewhere"
)]
#[case::claim(&[("/target", json!({"ref": {"kind": "PersistentVolumeClaim", "name": "data"}}))], "mounted as upstream does")]
#[case::snapshotter(
    &[("/driver", json!("VolumeSnapshotter")), ("/repository", Value::Null), ("/target/volumeMounts", json!([])), ("/target/paths", json!([]))],
    "snapshots need neither repository nor mounts"
)]
#[case::own_namespace(&[("/target/ref/namespace", json!("demo"))], "its own namespace")]
#[case::exec(&[("/hooks", json!({"preBackup": {"exec": {"command": ["sync"]}}}))], "a pod is read")]
#[case::unset_time_out(&[("/timeOut", json!("0s"))], "0s is unset")]
fn what_upstream_takes_is_valid(#[case] changes: &[(&str, Value)], #[case] reason: &str) {
    let valid = backup_configuration("demo", &configuration(changes));
    assert!(valid.is_ok(), "{reason}: {valid:?}");
}

#[rstest]
#[case::order(&[("/maintainOrder", json!(true)), ("/executionOrder", json!("Parallel"))], "spec.maintainOrder true contradicts spec.executionOrder Parallel")]
#[case::unknown_order(&[("/executionOrder", json!("Random"))], "spec.executionOrder \"Random\"")]
#[case::global_exec(
    &[("/hooks", json!({"preBackup": {"exec": {"command": ["sync"]}}}))],
    "spec.hooks.preBackup: exec: a hook of a whole batch"
)]
#[case::global_without_host(&[("/hooks", json!({"postBackup": {"tcpSocket": {"port": 80}}}))], "without a pod a host is needed")]
#[case::member(&[("/members/1/target/ref/kind", json!("Job"))], "spec.members[1].target.ref.kind \"Job\"")]
#[case::equal_hosts(
    &[("/members/0/target/alias", Value::Null), ("/members/1/target/alias", Value::Null)],
    "members[0] (AppBinding sample-mysql) and members[1] (Deployment web) would both store their data as host \"host-0\""
)]
fn an_invalid_backup_batch_names_the_field(#[case] changes: &[(&str, Value)], #[case] says: &str) {
    let spec = batch(changes);
    let collisions = collisions(&backup_hosts(&spec.members, |_| Vec::new()));
    let message = backup_batch("demo", &spec, &collisions).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[test]
fn all_problems_are_named_at_once() {
    let spec = configuration(&[
        ("/schedule", json!("x")),
        ("/target/args", json!(["-x"])),
        ("/timeOut", json!("-1s")),
    ]);
    let problems = backup_configuration("demo", &spec).unwrap_err();
    assert_eq!(problems.list().len(), 3, "{problems}");
}

#[rstest]
#[case::where_it_runs(json!({"pod": {"nodeSelector": {"a": "b"}, "tolerations": []}, "container": {"resources": {}, "nice": {"adjustment": 5}}}), None)]
#[case::identity(json!({"pod": {"serviceAccountName": "admin"}}), Some("runtimeSettings.pod.serviceAccountName"))]
#[case::programs(json!({"container": {"lifecycle": {}}}), Some("runtimeSettings.container.lifecycle"))]
#[case::secrets(json!({"container": {"envFrom": []}}), Some("runtimeSettings.container.envFrom"))]
#[case::both(json!({"pod": {"podLabels": {}}, "container": {"env": []}}), Some("runtimeSettings.pod.podLabels, runtimeSettings.container.env"))]
fn a_pod_in_another_namespace_takes_no_identity_programs_or_secrets(
    #[case] runtime: Value,
    #[case] refused: Option<&str>,
) {
    let at = |namespace: &str| json!({"ref": {"kind": "AppBinding", "name": "db", "namespace": namespace}});
    let spec = configuration(&[("/target", at("bank")), ("/runtimeSettings", runtime.clone())]);
    let message = backup_configuration("demo", &spec).err().map(|problems| problems.to_string());
    let restore: RestoreSessionSpec = serde_json::from_value(json!({
        "repository": {"name": "r"}, "target": at("bank"), "runtimeSettings": runtime,
    }))
    .unwrap();
    let of_restore = restore_session("demo", &restore).err().map(|problems| problems.to_string());
    let expected = refused.map(|fields| format!("spec: {fields} would decide about a pod of namespace bank"));
    for message in [message, of_restore] {
        assert_eq!(message.is_some(), expected.is_some(), "{message:?}");
        assert!(message.unwrap_or_default().contains(expected.as_deref().unwrap_or_default()));
    }
    // In its own namespace everything is set.
    let spec = configuration(&[("/target", at("demo")), ("/runtimeSettings", runtime)]);
    assert!(backup_configuration("demo", &spec).is_ok());
}

#[test]
fn no_volume_is_made_in_another_namespace() {
    let reference = json!({"ref": {"kind": "AppBinding", "name": "db", "namespace": "bank"}});
    let volume = json!({"spec": {"dataSource": {"kind": "VolumeSnapshot", "name": "theirs"}}});
    let spec = configuration(&[("/target", reference), ("/interimVolumeTemplate", volume)]);
    let message = backup_configuration("demo", &spec).unwrap_err().to_string();
    assert!(message.contains("spec: interimVolumeTemplate would decide"), "{message}");
}

#[rstest]
#[case::most(16, true)]
#[case::too_many(17, false)]
fn app_bindings_elsewhere_are_bounded(#[case] count: usize, #[case] valid: bool) {
    let member = |number| {
        let reference = json!({"kind": "AppBinding", "name": "db", "namespace": format!("n{number}")});
        json!({"target": {"alias": format!("a{number}"), "ref": reference}})
    };
    let members: Vec<Value> = (0..count).map(member).collect();
    let checked = backup_batch("demo", &batch(&[("/members", json!(members))]), &[]);
    assert_eq!(checked.is_ok(), valid, "{checked:?}");
}

fn restore(changes: &[(&str, Value)]) -> RestoreSessionSpec {
    let spec = json!({
        "repository": {"name": "gcs-repo"},
        "target": {
            "alias": "app", "ref": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "recovered"},
            "volumeMounts": [{"name": "data", "mountPath": "/source/data"}],
            "rules": [{"targetHosts": ["app-3", "app-4"], "sourceHost": "app-1", "paths": ["/source/data"]}, {"paths": ["/source/data"]}],
        },
    });
    serde_json::from_value(changed(spec, changes)).unwrap()
}

#[test]
fn a_restore_of_the_batch_document_is_valid() {
    let valid = restore_session("demo", &restore(&[])).unwrap();
    assert_eq!(valid.members[0].rules.rules.len(), 2);
    assert!(!valid.members[0].rules.moved);
    let templates = json!([{"metadata": {"name": "data-${POD_ORDINAL}"}, "spec": {}}]);
    let changes = [("/target/ref", Value::Null), ("/target/volumeClaimTemplates", templates)];
    let valid = restore_session("demo", &restore(&changes)).unwrap();
    assert_eq!(valid.members[0].target.as_ref().unwrap().reference, None);

    let member = json!({"task": {"name": "mysql-backup-8.0.14"}, "rules": [{"snapshots": ["latest"]}], "target": database()["target"]});
    let spec =
        json!({"repository": {"name": "gcs-repo"}, "members": [member], "executionOrder": "Sequential"});
    let spec: RestoreBatchSpec = serde_json::from_value(spec).unwrap();
    let valid = restore_batch("demo", &spec, &[]).unwrap();
    assert!(valid.members[0].rules.moved, "rules beside the target are the deprecated place");
    assert_eq!(valid.order, Order::Sequential);
}

#[rstest]
#[case::two_places(&[("/rules", json!([{"snapshots": ["latest"]}]))], "rules are set both in target.rules and")]
#[case::no_target(&[("/target", Value::Null)], "spec.target is missing")]
#[case::no_reference(&[("/target/ref", Value::Null)], "spec.target is missing")]
#[case::args(&[("/target/args", json!(["--delete"]))], "spec.target.args: \"--delete\"")]
#[case::hook(&[("/hooks", json!({"postRestore": {"exec": {"command": []}}}))], "spec.hooks.postRestore: exec.command is empty")]
#[case::namespace(&[("/target/ref/namespace", json!("other"))], "only an AppBinding may be elsewhere")]
#[case::mounts(&[("/target/volumeMounts", json!([]))], "target.volumeMounts has no entry")]
fn an_invalid_restore_names_the_field(#[case] changes: &[(&str, Value)], #[case] says: &str) {
    let message = restore_session("demo", &restore(changes)).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[test]
fn claims_of_templates_have_one_host_for_each_replica() {
    let templates = json!([{"metadata": {"name": "data-${POD_ORDINAL}"}, "spec": {}}]);
    let changes = [
        ("/target/ref", Value::Null),
        ("/target/volumeClaimTemplates", templates),
        ("/target/replicas", json!(3)),
    ];
    let hosts = restore_hosts(&[restore(&changes).member], |_| Vec::new());
    assert!(hosts[0].hosts.contains(&"app-2".into()), "{hosts:?}");
}
