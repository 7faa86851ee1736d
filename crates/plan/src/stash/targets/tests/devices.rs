//! Block volumes: how they are stored, and what may be written into them.

use lifeboat_api::stash::{RestoreRule, RestoreTarget};
use rstest::rstest;

use super::*;
use crate::stash::rules::{
    DEVICE_TAG, RestoreInto, RestoreRequest, SESSION_TAG, Selection, SnapshotFact, select,
};

fn block(name: &str) -> (String, ClaimOf) {
    let (name, mut of) = claim(name, "ReadWriteOnce");
    of.claim["spec"]["volumeMode"] = json!("Block");
    (name, of)
}

/// A pod whose container has the device at `/dev/xvda`.
fn pod_with_device() -> Value {
    let mut pod = pod("web-1", "n1", 0, data());
    pod["spec"]["containers"] =
        json!([{"name": "app", "volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}]}]);
    pod
}

#[rstest]
#[case::of_a_workload(TargetKind::Deployment, "data", &[("data", "/dev/xvda")], "/dev/xvda")]
#[case::a_claim_itself(TargetKind::Claim, "web", &[], "/stash-data")]
fn a_device_is_one_part_at_its_path(
    #[case] kind: TargetKind,
    #[case] claim_name: &str,
    #[case] mounts: &[(&str, &str)],
    #[case] path: &str,
) {
    let (name, of) = block(claim_name);
    let object = if kind == TargetKind::Claim { of.claim.clone() } else { workload(1, data()) };
    let facts = facts(kind, object, vec![pod_with_device()], &[(name, of)]);
    let plan = backup_plan(&facts, &backup_target(kind, mounts, &[])).unwrap();
    let source = plan.hosts[0].source.as_ref().unwrap();
    assert!(source.volumes[0].access.is_block(), "{source:?}");
    let part = HostPart {
        path: CleanPath::stored(path).unwrap(),
        volume: source.volumes[0].name.clone(),
        sub_path: None,
    };
    assert_eq!(source.parts, [part]);
}

#[test]
fn a_device_needs_a_name_in_the_snapshot() {
    let facts = facts(TargetKind::Deployment, workload(1, data()), vec![pod_with_device()], &[block("data")]);
    let target = backup_target(TargetKind::Deployment, &[("data", "/")], &[]);
    let error = backup_plan(&facts, &target).unwrap().hosts[0].source.as_ref().unwrap_err().to_string();
    assert!(error.contains("write it like /dev/data"), "{error}");
}

/// What a restore of this snapshot into volume `data` at `/data` takes, and where it goes.
fn restored(stored: &str, tags: &[&str], is_block: bool, rule: RestoreRule) -> (RestorePlan, Selection) {
    let of = if is_block { block("data") } else { claim("data", "ReadWriteOnce") };
    let target = facts(TargetKind::Deployment, workload(0, data()), Vec::new(), &[of]);
    let facts = RestoreFacts { target, replicas: None, into_running: false };
    let target = RestoreTarget {
        alias: Some("app".into()),
        volume_mounts: vec![mount("data", "/data")],
        ..RestoreTarget::default()
    };
    let plan = restore_plan(&facts, &target, std::slice::from_ref(&rule)).unwrap();
    let snapshot = SnapshotFact {
        id: "a".repeat(64),
        host: "app".into(),
        paths: vec![stored.to_owned()],
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        time: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let selection = select(&RestoreRequest {
        rules: vec![rule],
        hosts: plan.hosts.iter().map(|host| host.name.clone()).collect(),
        into: RestoreInto::Mounts(plan.mounts.clone()),
        snapshots: vec![snapshot],
    });
    assert_eq!(selection.problem(), None);
    (plan, selection)
}

const OURS: &str = "lifeboat-session=u";

#[rstest]
#[case::a_device_into_a_device("/data", &[OURS, DEVICE_TAG], true, None)]
#[case::of_another_program("/data", &[], true, None)]
#[case::files_into_files("/data", &[OURS], false, None)]
#[case::a_device_into_files("/data", &[OURS, DEVICE_TAG], false, Some("volume \"data\" has a file system"))]
#[case::files_into_a_device("/data", &[OURS], true, Some("restore it into a claim with a file system"))]
#[case::below_a_device("/data/db", &[], true, Some("is restored as a whole; name the path of its mount"))]
fn a_device_gets_the_whole_content_of_a_device(
    #[case] stored: &str,
    #[case] tags: &[&str],
    #[case] is_block: bool,
    #[case] says: Option<&str>,
) {
    assert!(OURS.starts_with(SESSION_TAG));
    let (plan, selection) = restored(stored, tags, is_block, RestoreRule::default());
    let messages: Vec<String> = device_errors(&plan, &selection).iter().map(DeviceError::to_string).collect();
    match says {
        None => assert_eq!(messages, Vec::<String>::new()),
        Some(says) => {
            assert_eq!(messages.len(), 1, "{messages:?}");
            assert!(messages[0].starts_with("host app: ") && messages[0].contains(says), "{messages:?}");
        }
    }
}

#[test]
fn patterns_choose_no_part_of_a_device() {
    let rule = RestoreRule { exclude: Some(vec!["*.tmp".into()]), ..RestoreRule::default() };
    let (plan, selection) = restored("/data", &[DEVICE_TAG], true, rule);
    let message = device_errors(&plan, &selection)[0].to_string();
    assert!(message.contains("include and exclude choose files"), "{message}");
}

/// The mount of a block volume may be below the path at which another device was stored: the snapshot has one file, and no path in it.
#[rstest]
#[case::the_device_itself("/data", &[OURS, DEVICE_TAG], None)]
#[case::below_it("/data/db", &[OURS, DEVICE_TAG], Some("path /data/db is inside of /data"))]
#[case::below_a_directory("/data/db", &[OURS], None)]
#[case::below_what_another_program_stored("/data/db", &[], None)]
fn a_path_below_the_content_of_a_device_is_refused_by_the_rule(
    #[case] path: &str,
    #[case] tags: &[&str],
    #[case] says: Option<&str>,
) {
    let mount_path = CleanPath::stored(path).unwrap();
    let selection = select(&RestoreRequest {
        rules: vec![RestoreRule { paths: Some(vec![path.to_owned()]), ..RestoreRule::default() }],
        hosts: vec!["app".into()],
        into: RestoreInto::Mounts(vec![Mount { volume: "data".into(), mount_path, sub_path: None }]),
        snapshots: vec![SnapshotFact {
            id: "a".repeat(64),
            host: "app".into(),
            paths: vec!["/data".to_owned()],
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            time: "2026-01-01T00:00:00Z".parse().unwrap(),
        }],
    });
    match (selection.problem(), says) {
        (None, None) => {}
        (Some(problem), Some(says)) => assert!(problem.contains(says), "{problem}"),
        (problem, says) => panic!("{problem:?} is not {says:?}"),
    }
}
