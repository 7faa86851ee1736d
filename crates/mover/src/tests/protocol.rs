//! Both sides understand each other, and nothing that they do not know.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::report::{Level, Line, Reading};
use crate::task::*;

fn tasks() -> Vec<Task> {
    let proof = Proof::Csi { file: "/d/vol_data.json".into(), driver: "csi".into(), handle: "v".into() };
    let backup = |source| {
        Work::Backup(BackupWork {
            source,
            host: "shop/data".into(),
            tags: vec!["a=b".into()],
            excludes: vec!["/tmp".into()],
            report: Some("reports/x".into()),
        })
    };
    let restore = |target| {
        Work::Restore(RestoreWork {
            snapshot: "0".repeat(64),
            target,
            sparse: true,
            paths: vec!["/a".into()],
            into: Some("back".into()),
            done_file: Some(".velero/uid".into()),
        })
    };
    let works = [
        backup(Source::Path { path: "/d".into(), proof: Some(proof) }),
        backup(Source::Path { path: "/d".into(), proof: Some(Proof::MountPoint) }),
        backup(Source::Path { path: "/d".into(), proof: None }),
        backup(Source::Snapshot { path: "/d".into() }),
        backup(Source::BlockDevice { path: "/dev".into(), name: "device".into() }),
        backup(Source::Command { argv: vec!["pg_dump".into()], name: "dump.sql".into() }),
        restore(Target::Path { path: "/d".into(), proof: Some(Proof::Directory) }),
        restore(Target::BlockDevice { path: "/dev".into() }),
        restore(Target::Command { argv: vec!["psql".into()] }),
        Work::Maintain(MaintainWork { prune: true, check: false, empty_is_meant: true }),
    ];
    let direct = Transport::Direct(Direct {
        provider: "aws".into(),
        bucket: "b".into(),
        prefix: "p".into(),
        path: "restic/shop".into(),
        config: BTreeMap::from([("region".into(), "r".into())]),
        credentials: Some("credentials".into()),
        ca: Some("ca".into()),
        customer_key: Some("key".into()),
    });
    let gateway = Transport::Gateway { url: "https://g".into(), token: "t".into(), ca: Some("ca".into()) };
    let of = |work, transport| Task {
        version: VERSION,
        uid: "uid-1".into(),
        work,
        repository: RepositoryAccess { transport, passwords: vec!["password-0".into()] },
        lock: LockTerms { cluster: "c".into(), dead_owners: vec!["c/p".into()], wait_seconds: 7 },
        limits: Limits { threads: Some(2), upload: Some(1), download: Some(2), scratch: Some("/s".into()) },
        deadline: Some("2026-01-02T03:04:05Z".parse().unwrap()),
    };
    let transports = [direct, gateway];
    let pairs =
        works.iter().flat_map(|work| transports.iter().map(|transport| (work.clone(), transport.clone())));
    pairs.map(|(work, transport)| of(work, transport)).collect()
}

#[test]
fn every_task_comes_back_as_it_was() {
    for task in tasks() {
        let text = serde_json::to_string(&task).unwrap();
        assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), task, "{text}");
    }
}

/// Every object within a value.
fn objects(value: &mut Value, visit: &mut dyn FnMut(&mut serde_json::Map<String, Value>) -> bool) -> bool {
    match value {
        Value::Object(fields) => visit(fields) || fields.values_mut().any(|value| objects(value, visit)),
        Value::Array(items) => items.iter_mut().any(|value| objects(value, visit)),
        _ => false,
    }
}

#[test]
fn a_field_that_is_not_known_is_refused_wherever_it_is() {
    for task in tasks() {
        for place in 0.. {
            let mut value = serde_json::to_value(&task).unwrap();
            let mut seen = 0;
            let found = objects(&mut value, &mut |fields| {
                // The settings of a location are free words; a kind without fields has none that could be mistaken.
                if fields.contains_key("region") || (fields.len() == 1 && fields.contains_key("kind")) {
                    return false;
                }
                seen += 1;
                seen == place + 1 && fields.insert("novel".to_owned(), json!(1)).is_none()
            });
            if !found {
                assert!(place > 4);
                break;
            }
            assert!(serde_json::from_value::<Task>(value.clone()).is_err(), "{value}");
        }
    }
}

#[test]
fn every_line_comes_back_as_it_was() {
    let lines = [
        Line::Progress(Reading {
            step: "backing up".into(),
            files_done: 1,
            total_known: true,
            ..Reading::default()
        }),
        Line::Waiting { holder: "c/p".into(), until: Some("2026-01-02T03:04:05Z".into()) },
        Line::Message { level: Level::Warning, text: "line\nbreak".into() },
    ];
    for line in lines {
        let text = serde_json::to_string(&line).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
