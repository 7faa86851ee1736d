use std::collections::BTreeMap;

use jiff::Timestamp;
use lifeboat_api::stash::{ResticSpec, TargetRef};

use super::*;
use crate::stash::hosts::{HostOf, TargetKind};
use crate::stash::restic::{InstantRun, members, prunes, selected};
use crate::stash::retention::{DirectoryPolicy, Policies};

/// The volume sample of the design discussion, with other values at some JSON pointers.
fn spec(changes: &[(&str, Value)]) -> ResticSpec {
    let volume = |name: &str| {
        let directory = json!({"path": "/source/data", "retentionPolicyName": "keep-last-5"});
        json!({"name": name, "mountPath": "/source/data", "directories": [directory]})
    };
    let spec = json!({
        "targetType": "Volume", "backupType": "Scheduled", "schedule": "@every 1m", "backupMode": "Online", "backupAgent": "stash",
        "repository": {"name": "stash-backup", "namespace": "demo"},
        "volumeSelector": {
            "selector": {"matchLabels": {"app": "stash-demo"}},
            "targetVolumes": [volume("vol-1"), volume("vol-2")],
        },
        "retentionPolicies": [{"name": "keep-last-5", "keepLast": 5, "prune": true}],
    });
    serde_json::from_value(changed(spec, changes)).unwrap()
}

fn deployment(name: &str) -> TargetRef {
    TargetRef {
        api_version: Some("apps/v1".into()),
        kind: "Deployment".into(),
        name: name.into(),
        namespace: None,
    }
}

#[test]
fn the_sample_becomes_a_member_for_each_workload_with_two_volumes_at_one_path() {
    let spec = spec(&[]);
    let valid = restic("default", &spec, &members(&spec, &[deployment("stash-demo")])).unwrap();
    let repository = RepositoryName { namespace: "demo".into(), name: "stash-backup".into() };
    assert_eq!(valid.driver, ValidDriver::Restic(repository));
    let target = valid.members[0].target.clone().unwrap();
    assert_eq!(
        (target.key.to_string().as_str(), target.alias.as_deref()),
        ("Deployment default/stash-demo", Some("stash-demo"))
    );
    let paths: Vec<_> = target
        .mounts
        .unwrap()
        .paths
        .iter()
        .map(|path| (path.volume.clone(), path.path.to_string()))
        .collect();
    let stored = |volume: &str| (volume.to_owned(), "/source/data".to_owned());
    assert_eq!(paths, [stored("vol-1"), stored("vol-2")]);
    let directories = valid.directories.unwrap();
    let keep = KeepPolicy { last: 5, ..KeepPolicy::default() };
    let policy = |volume: &str| DirectoryPolicy {
        volume: volume.into(),
        path: "/source/data".into(),
        keep: keep.clone(),
    };
    assert_eq!(directories.policies, Policies::ByDirectory(vec![policy("vol-1"), policy("vol-2")]));
    assert_eq!(directories.dry, Policies::ByDirectory(Vec::new()));
    let [plain, _] =
        directories.prefix.candidates("default", TargetKind::Deployment, "stash-demo", &HostOf::Whole);
    assert_eq!(plain.unwrap().as_str(), "/volumes/deployment/stash-demo");
    assert!(prunes(&spec));
}

#[test]
fn a_policy_with_dry_run_removes_nothing_and_a_directory_without_policy_is_kept() {
    let spec = spec(&[
        ("/retentionPolicies/0/dryRun", json!(true)),
        (
            "/volumeSelector/targetVolumes/1/directories",
            json!([{"path": "/source/data/a"}, {"path": "/source/data/b"}]),
        ),
    ]);
    let directories = restic("default", &spec, &[]).unwrap().directories.unwrap();
    assert_eq!(directories.policies, Policies::ByDirectory(Vec::new()));
    let Policies::ByDirectory(dry) = directories.dry else { panic!() };
    assert_eq!(dry.iter().map(|policy| policy.volume.as_str()).collect::<Vec<_>>(), ["vol-1"]);
    assert!(!prunes(&spec));
}

#[rstest]
#[case::cluster(&[("/targetType", json!("Cluster"))], "spec.targetType \"Cluster\" is not served")]
#[case::offline(&[("/backupMode", json!("Offline"))], "spec.backupMode \"Offline\" is not served")]
#[case::agent(&[("/backupAgent", json!("mysqldump"))], "spec.backupAgent \"mysqldump\" is not served")]
#[case::every_zero(&[("/schedule", json!("@every 0s"))], "spec.schedule: ")]
#[case::prefix(&[("/prefix", json!("snapshots"))], "spec.prefix \"snapshots\" begins with \"snapshots\", which restic itself uses")]
#[case::outside(
    &[("/volumeSelector/targetVolumes/0/directories/0/path", json!("/other"))],
    "directory /other of volume \"vol-1\" is not below its mountPath /source/data"
)]
#[case::relative(&[("/volumeSelector/targetVolumes/0/mountPath", json!("data"))], "mountPath \"data\" is not an absolute path")]
#[case::volume_twice(&[("/volumeSelector/targetVolumes/1/name", json!("vol-1"))], "has volume \"vol-1\" twice")]
#[case::directory_twice(
    &[("/volumeSelector/targetVolumes/0/directories", json!([{"path": "/source/data"}, {"path": "/source//data/"}]))],
    "volume \"vol-1\" has directory /source/data twice"
)]
#[case::policy(&[("/retentionPolicies/0/name", json!("other"))], "retentionPolicyName \"keep-last-5\" is none of spec.retentionPolicies")]
#[case::args(&[("/args", json!(["--password-file=/etc/passwd"]))], "spec.args: ")]
#[case::earlier(&[("/fileGroups", json!([{"path": "/source/data"}]))], "spec has the earlier form")]
fn what_cannot_run_is_named_with_its_field(#[case] changes: &[(&str, Value)], #[case] expected: &str) {
    let problems = restic("default", &spec(changes), &[]).unwrap_err().to_string();
    assert!(problems.contains(expected), "{problems}");
}

#[test]
fn workloads_of_all_kinds_are_selected_without_those_of_a_controller() {
    let object = |name: &str, app: &str, owner: Option<bool>| {
        let owners: Vec<Value> =
            owner.map(|controller| json!({"controller": controller, "name": "x"})).into_iter().collect();
        json!({"metadata": {"name": name, "labels": {"app": app}, "ownerReferences": owners}})
    };
    let all = BTreeMap::from([
        (TargetKind::Deployment, vec![object("web", "demo", None), object("other", "x", None)]),
        (TargetKind::ReplicaSet, vec![object("web-1", "demo", Some(true)), object("alone", "demo", None)]),
        (TargetKind::StatefulSet, vec![object("db", "demo", Some(false))]),
    ]);
    let selector = serde_json::from_value(json!({"matchLabels": {"app": "demo"}})).unwrap();
    let found = selected(&selector, &all).unwrap();
    let shown: Vec<_> = found.iter().map(|found| format!("{}/{}", found.kind, found.name)).collect();
    assert_eq!(shown, ["ReplicaSet/alone", "StatefulSet/db", "Deployment/web"]);
}

#[test]
fn a_restic_that_backs_up_once_does_so_for_each_spec() {
    let once = [("/backupType", json!("Instant")), ("/schedule", Value::Null)];
    let first = spec(&once);
    let created = Timestamp::from_second(100).unwrap();
    let run = InstantRun::of(&first, &BTreeMap::new(), created, 1);
    assert_eq!((run.due, run.is_done), (created, false));
    let note = run.note()["metadata"]["annotations"].clone();
    let noted: BTreeMap<String, String> = serde_json::from_value(note).unwrap();
    assert!(InstantRun::of(&first, &noted, created, 1).is_done);
    let later = Timestamp::from_second(900).unwrap();
    assert!(InstantRun::of(&first, &noted, later, 1).is_done, "it was restored from a backup of the cluster");
    let second = spec(&[&once[..], &[("/paused", json!(true))]].concat());
    let next = InstantRun::of(&second, &noted, created, 2);
    assert_eq!((next.due, next.is_done), (Timestamp::from_second(101).unwrap(), false));
    assert_eq!(restic("default", &first, &[]).unwrap().cron, None);
}
