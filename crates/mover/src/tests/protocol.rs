//! Both sides understand each other, and refuse what they do not know.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::report::{
    BackedUp, Cause, Failure, Level, Listed, LogLine, Maintained, Outcome, Reading, Restored, SnapshotLine,
    TaskResult,
};
use crate::task::*;

/// Tasks that version 1 can express, in the order of the fixture.
fn tasks_of_version_1() -> Vec<Task> {
    let of = |work, transport| {
        let repository = RepositoryAccess { transport, passwords: vec!["password-0".into()], guarded: false };
        let lock = LockTerms { cluster: "c".into(), dead_owners: vec!["c/p".into()], wait_seconds: 7 };
        Task {
            limits: Limits {
                threads: Some(2),
                upload: Some(1),
                download: Some(2),
                scratch: Some("/s".into()),
                nice: None,
            },
            deadline: Some("2026-01-02T03:04:05Z".parse().unwrap()),
            ..Task::single("uid-1", work, repository, lock)
        }
    };
    let (works, transports) = (works_of_version_1(), transports());
    let pairs =
        works.iter().flat_map(|work| transports.iter().map(|transport| (work.clone(), transport.clone())));
    pairs.map(|(work, transport)| of(work, transport)).collect()
}

fn works_of_version_1() -> [TaskWork; 10] {
    let proof = Proof::Csi { file: "/d/vol_data.json".into(), driver: "csi".into(), handle: "v".into() };
    let backup = |source| {
        TaskWork::Backup(BackupWork {
            tags: vec!["a=b".into()],
            excludes: vec!["/tmp".into()],
            report: Some("reports/x".into()),
            ..BackupWork::new(source, "shop/data")
        })
    };
    let restore = |target| {
        TaskWork::Restore(RestoreWork {
            sparse: true,
            paths: vec!["/a".into()],
            into: Some("back".into()),
            done_file: Some(".velero/uid".into()),
            ..RestoreWork::new("0".repeat(64), target)
        })
    };
    [
        backup(Source::Path { path: "/d".into(), proof: Some(proof) }),
        backup(Source::Path { path: "/d".into(), proof: Some(Proof::MountPoint) }),
        backup(Source::Path { path: "/d".into(), proof: None }),
        backup(Source::Snapshot { path: "/d".into() }),
        backup(Source::BlockDevice { path: "/dev".into(), name: "device".into() }),
        backup(Source::Command { argv: vec!["pg_dump".into()], name: "dump.sql".into() }),
        restore(Target::Path { path: "/d".into(), proof: Some(Proof::Directory) }),
        restore(Target::BlockDevice { path: "/dev".into() }),
        restore(Target::Command { argv: vec!["psql".into()] }),
        TaskWork::Maintain(MaintainWork { prune: true, check: false, empty_is_meant: true }),
    ]
}

fn agent() -> AgentRun {
    let line = |line: &str| AgentLine {
        name: "mysqldump".into(),
        line: line.into(),
        arguments: vec!["--all-databases".into()],
    };
    let sides = vec![line("mysqldump \"$@\""), line("restic -r lifeboat:task backup")];
    AgentRun { command: AgentCommand::Pipeline { sides }, secrets: vec!["DB_PASSWORD".into()] }
}

fn transports() -> [Transport; 2] {
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
    [direct, gateway]
}

/// Tasks that need version 2: several parts, a part with a UID of its own, and each of the newer fields.
fn tasks_of_version_2() -> Vec<Task> {
    let one = tasks_of_version_1().swap_remove(0);
    let path = || Source::Path { path: "/d".into(), proof: Some(Proof::MountPoint) };
    let target = || Target::Path { path: "/d".into(), proof: None };
    let backup = |change: fn(&mut BackupWork)| {
        let mut work = BackupWork::new(path(), "h");
        change(&mut work);
        TaskWork::Backup(work)
    };
    let restore = |change: fn(&mut RestoreWork)| {
        let mut work = RestoreWork::new("0", target());
        change(&mut work);
        TaskWork::Restore(work)
    };
    let works = [
        backup(|work| work.sub_path = Some("a/b".into())),
        backup(|work| work.at = Some("/source/data".into())),
        restore(|work| work.include = vec!["*.sql".into()]),
        restore(|work| work.exclude = vec!["*.log".into()]),
        restore(|work| work.folder = Some("/source/data".into())),
        restore(|work| work.sub_path = Some("a".into())),
        restore(|work| work.exact = true),
        backup(|work| work.incomplete_tag = true),
        backup(|work| work.source = Source::Agent { run: agent(), name: "dump.sql".into() }),
        restore(|work| work.target = Target::Agent { run: agent() }),
        TaskWork::Init,
        TaskWork::Look(LookWork::new(50)),
        TaskWork::Look(LookWork { states: vec![state()], ..LookWork::new(50) }),
        TaskWork::Forget(ForgetWork { snapshots: vec!["0".repeat(64)] }),
        TaskWork::Call(call(http())),
        TaskWork::Call(call(Call::Tcp { host: "db".into(), port: 5432 })),
    ];
    let transports = [
        Transport::Rest {
            url: "https://r/shop".into(),
            credentials: Some("credentials".into()),
            ca: Some("ca".into()),
        },
        Transport::Directory { path: "/mover/repository/shop".into() },
    ];
    let by_transport = transports.into_iter().map(|transport| {
        let passwords = vec!["password-0".into()];
        Task { repository: Some(RepositoryAccess { transport, passwords, guarded: false }), ..one.clone() }
    });
    let guarded = one.repository.clone().map(|repository| RepositoryAccess { guarded: true, ..repository });
    let guarded = Task { repository: guarded, ..one.clone() };
    let nice = Task { limits: Limits { nice: Some(5), ..one.limits.clone() }, ..one.clone() };
    let part =
        |(number, work): (usize, &TaskWork)| Part { uid: format!("part-{number}"), work: work.clone() };
    let several = Task { parts: works.iter().enumerate().map(part).collect(), ..one.clone() };
    let own_uid = Task { parts: vec![Part { uid: "part".into(), ..one.parts[0].clone() }], ..one.clone() };
    let single = works
        .iter()
        .map(|work| Task { parts: vec![Part { uid: one.uid.clone(), work: work.clone() }], ..one.clone() });
    let call = Task::call("uid-1", call(http()));
    single.chain(by_transport).chain([several, own_uid, nice, guarded, call]).collect()
}

fn state() -> StoredState {
    StoredState { name: "0".repeat(32), content: "{}".into() }
}

fn call(call: Call) -> CallWork {
    CallWork { call, timeout_seconds: 30 }
}

fn http() -> Call {
    Call::Http {
        method: Method::Post,
        url: "https://shop:8443/quiesce".into(),
        headers: vec![Header { name: "X-Token".into(), value: "secret".into() }],
        body: Some("{}".into()),
        form: vec![FormField { name: "a".into(), values: vec!["1".into(), "2".into()] }],
        ca: Some("-----BEGIN CERTIFICATE-----".to_owned()),
        skip_verify: true,
    }
}

fn tasks() -> Vec<Task> {
    tasks_of_version_1().into_iter().chain(tasks_of_version_2()).collect()
}

/// Written by a server before version 2 existed.
const VERSION_1: &str = include_str!("version-1.jsonl");

#[test]
fn a_file_of_version_1_is_the_task_that_it_was_and_is_written_as_it_was() {
    let lines: Vec<_> = VERSION_1.lines().collect();
    let tasks = tasks_of_version_1();
    assert_eq!(lines.len(), tasks.len());
    for (line, task) in lines.into_iter().zip(tasks) {
        assert_eq!(serde_json::from_str::<Task>(line).unwrap(), task);
        assert_eq!(serde_json::to_string(&task).unwrap(), line, "an older mover has to understand it");
    }
}

/// Written by movers before version 2 existed.
#[test]
fn a_result_of_version_1_is_still_understood() {
    let text = include_str!("version-1-results.jsonl");
    let results: Vec<TaskResult> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listed = Listed { count: 3, first: vec!["/a: permission denied".into()] };
    let backed_up = BackedUp {
        snapshot: "5".repeat(64),
        files: 1,
        bytes: 2,
        bytes_added: 3,
        bytes_stored: 4,
        milliseconds: 5,
        compared: None,
        changed: Listed::default(),
        unreadable: listed.clone(),
    };
    let restored = Restored {
        files: 1,
        bytes: 2,
        verified: true,
        milliseconds: 3,
        failed: listed,
        owners: Listed::default(),
    };
    let maintained = Maintained { bytes_freed: 1, packs_deleted: 2, problems: Listed::default() };
    let failure = Failure { cause: Cause::WrongVolume, message: "why".into() };
    let expected = [
        Outcome::BackedUp(backed_up),
        Outcome::Restored(restored),
        Outcome::Maintained(maintained),
        Outcome::Failed(failure),
    ];
    assert_eq!(results, expected.map(|outcome| TaskResult::new("uid-1", outcome)));
}

#[test]
fn version_2_is_written_only_where_version_1_has_no_room() {
    for task in tasks_of_version_2() {
        let mut value = serde_json::to_value(&task).unwrap();
        assert_eq!((&value["version"], value.get("work")), (&json!(2), None), "{value}");
        if let [part] = &*task.parts
            && part.uid == task.uid
        {
            // A newer field is not allowed in a file of version 1.
            let part = value["parts"][0].take();
            let fields = value.as_object_mut().unwrap();
            fields.remove("parts");
            fields.insert("version".into(), json!(1));
            fields.insert("work".into(), part["work"].clone());
            let error = serde_json::from_value::<Task>(value).unwrap_err();
            assert!(error.to_string().contains("expected 'version 2'"), "{error}");
        }
    }
}

#[rstest::rstest]
#[case(|value: &mut Value| value["parts"] = json!([]), "parts: expected 1 to 64, but there are 0")]
#[case(|value: &mut Value| value["parts"] = json!(vec![value["parts"][0].clone(); 65]), "there are 65")]
#[case(|value: &mut Value| value["parts"][1]["uid"] = json!("part-0"), "the UID 'part-0'")]
#[case(|value: &mut Value| value["parts"][1]["uid"] = json!(""), "parts.uid: expected 1 to 128")]
#[case(|value: &mut Value| value["parts"][1]["uid"] = json!("u".repeat(129)), "it has 129")]
#[case(|value: &mut Value| value["parts"][1]["work"]["kind"] = json!("novel"), "novel")]
#[case(
    |value: &mut Value| {
        value["parts"][2]["work"]["doneFile"] = json!(".velero/x");
        value["parts"][3]["work"]["doneFile"] = json!(".velero/x");
    },
    "'.velero/x' is the done file of two parts"
)]
#[case(|value: &mut Value| value["work"] = value["parts"][0]["work"].clone(), "the field 'work'")]
#[case(|value: &mut Value| value["version"] = json!(1), "the field 'parts'")]
fn parts_that_make_no_sense_are_refused(#[case] spoil: fn(&mut Value), #[case] problem: &str) {
    let tasks = tasks_of_version_2();
    let task = tasks.iter().find(|task| task.parts.len() > 1).unwrap();
    let mut value = serde_json::to_value(task).unwrap();
    spoil(&mut value);
    let error = serde_json::from_value::<Task>(value).unwrap_err().to_string();
    assert!(error.contains(problem), "{error}");
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
                // The settings of a location are free-form; a kind without fields has none that could be mistaken.
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
fn values_of_headers_are_not_shown() {
    assert!(!format!("{:?}", Task::call("uid-1", call(http()))).contains("secret"));
}

#[test]
fn every_line_comes_back_as_it_was() {
    let lines = [
        LogLine::Progress(Reading {
            step: "backing up".into(),
            files_done: 1,
            total_known: true,
            ..Reading::default()
        }),
        LogLine::Progress(Reading { part: Some("part-1".into()), ..Reading::default() }),
        LogLine::Waiting { holder: "c/p".into(), until: Some("2026-01-02T03:04:05Z".into()) },
        LogLine::Message { level: Level::Warning, text: "line\nbreak".into() },
        LogLine::Snapshots { snapshots: vec![SnapshotLine::default()] },
    ];
    for line in lines {
        let text = serde_json::to_string(&line).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<LogLine>(&text).unwrap(), line);
    }
}
