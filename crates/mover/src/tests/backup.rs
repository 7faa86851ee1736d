use std::io::Read;

use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::lock::{Lock, LockKind, LockOptions};
use tokio_util::sync::CancellationToken;

use super::world::{World, backup_of};
use crate::report::{Cause, ComparedFiles, FullReport, LogLine};
use crate::task::{BackupWork, INCOMPLETE_TAG, Source, TaskWork};

#[tokio::test(flavor = "multi_thread")]
async fn the_snapshot_has_the_volumes_root_and_carries_the_tasks_uid() {
    let world = World::new().await;
    world.write("etc/config", "one");
    world.write(".velero/old-restore", "");
    world.write("cache/large", "two");
    let mut task = world.backup("uid-1");
    let TaskWork::Backup(work) = &mut task.parts[0].work else { panic!() };
    work.excludes = vec!["/cache".to_owned()];
    work.report = Some("backups/nightly/report.json.gz".to_owned());
    let left = world.run(&task).await;
    assert_eq!(left.result.uid, "uid-1");
    assert!(left.lines.iter().any(|line| matches!(line, LogLine::Progress(_))));
    let backed_up = left.backed_up();
    let repository = world.repository().await;
    let snapshot = repository.load_snapshot(backed_up.snapshot.parse().unwrap()).await.unwrap();
    assert_eq!((snapshot.paths, snapshot.hostname), (vec!["/".to_owned()], "shop/data".to_owned()));
    assert_eq!(snapshot.tags[..2], ["lifeboat-task=uid-1", "backup=nightly"]);
    assert!(snapshot.tags[2].starts_with("lifeboat-root=755:"), "{:?}", snapshot.tags);
    let reader = BlobReader::new(&repository, repository.load_index().await.unwrap().into());
    let root = reader.load_tree(&snapshot.tree).await.unwrap();
    assert_eq!(root.iter().map(|node| node.name.as_slice()).collect::<Vec<_>>(), [b"etc"]);
    assert_eq!((backed_up.files, backed_up.bytes), (1, 3));
    let packed = world.store.get("backups/nightly/report.json.gz").await.unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    let report: FullReport = serde_json::from_str(&text).unwrap();
    assert_eq!((report.uid.as_str(), report.snapshot), ("uid-1", backed_up.snapshot));
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_backup_stores_only_what_changed_wherever_the_volume_is() {
    let world = World::new().await;
    world.write("same", vec![7; 100_000]);
    let first = world.run(&world.backup("uid-1")).await.backed_up();
    std::fs::rename(world.path("volume"), world.path("elsewhere")).unwrap();
    std::fs::write(world.path("elsewhere/new"), "new").unwrap();
    let source = Source::Snapshot { path: world.path("elsewhere") };
    let second = world.run(&world.task("uid-2", TaskWork::Backup(backup_of(source)))).await.backed_up();
    let snapshot = world.repository().await.load_snapshot(second.snapshot.parse().unwrap()).await.unwrap();
    assert_eq!(snapshot.parent.unwrap().to_string(), first.snapshot);
    assert_eq!(snapshot.summary.unwrap().counts.files_unmodified, 1);
    assert!(second.bytes_added < 5000 && second.bytes == 100_003, "{second:?}");
    assert_eq!(first.compared, Some(ComparedFiles { new: 1, modified: 0, unmodified: 0 }));
    assert_eq!(second.compared, Some(ComparedFiles { new: 1, modified: 0, unmodified: 1 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_started_again_makes_no_second_snapshot() {
    let world = World::new().await;
    world.write("a", "content");
    let first = world.run(&world.backup("uid-1")).await.backed_up();
    world.write("b", "more");
    let again = world.run(&world.backup("uid-1")).await.backed_up();
    assert_eq!((&again.snapshot, again.files), (&first.snapshot, 1));
    assert_eq!(world.repository().await.load_snapshots().await.unwrap().len(), 1);
}

/// Runs a backup that has to wait for a lock after its volume was proved; `happens` runs during the wait, then the
/// lock is released.
async fn while_it_waits(world: &World, happens: impl Fn() + Send + 'static) -> super::world::MoverEnd {
    let repository = world.repository().await;
    let lock = Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap();
    let mut task = world.backup("uid-1");
    task.lock.wait_seconds = 60;
    let (sender, mut waits) = tokio::sync::mpsc::unbounded_channel();
    let on_line = move |line: &LogLine| {
        if let LogLine::Waiting { holder, until } = line {
            assert!(holder.ends_with("(exclusive)") && until.is_some());
            happens();
            sender.send(()).unwrap();
        }
    };
    let releasing = async {
        waits.recv().await.unwrap();
        lock.release().await;
    };
    let running = world.run_with(&task, CancellationToken::new(), on_line);
    tokio::join!(running, releasing).0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_goes_while_it_is_read_becomes_no_snapshot() {
    let world = World::new().await;
    world.write("a", "content");
    let (path, aside) = (world.path("volume"), world.path("aside"));
    let happens = move || {
        std::fs::rename(&path, &aside).unwrap();
        std::fs::create_dir(&path).unwrap();
    };
    let failure = while_it_waits(&world, happens).await.failed();
    assert_eq!(failure.cause, Cause::WrongVolume);
    assert!(failure.message.contains("another directory has taken its place"), "{}", failure.message);
    assert!(world.repository().await.load_snapshots().await.unwrap().is_empty());
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_volume_is_a_backup_and_a_lock_that_goes_is_waited_for() {
    let world = World::new().await;
    let backed_up = while_it_waits(&world, || {}).await.backed_up();
    assert_eq!((backed_up.files, backed_up.unreadable.count), (0, 0));
}

/// Reading a process's memory at address 0 fails for every user, including root.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_listed_and_the_rest_is_stored() {
    let world = World::new().await;
    let source = Source::Path { path: format!("/proc/{}", std::process::id()).into(), proof: None };
    let mut work = backup_of(source);
    work.excludes = ["/*", "!/mem", "!/comm"].map(str::to_owned).to_vec();
    let task = world.task("uid-1", TaskWork::Backup(work));
    let backed_up = world.run(&task).await.backed_up();
    assert_eq!((backed_up.files, backed_up.unreadable.count), (1, 1));
    assert!(backed_up.unreadable.first[0].starts_with("/mem: "), "{:?}", backed_up.unreadable);
    let again = world.run(&task).await.backed_up();
    assert_eq!((again.snapshot, again.unreadable.count), (backed_up.snapshot, 1), "the snapshot records it");
}

#[rstest::rstest]
#[case::incomplete("!/mem", true, true)]
#[case::not_asked_for("!/mem", false, false)]
#[case::complete("!/status", true, false)]
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_without_all_files_is_tagged_where_the_task_asks_for_it(
    #[case] pattern: &str,
    #[case] incomplete_tag: bool,
    #[case] expected: bool,
) {
    let world = World::new().await;
    let source = Source::Path { path: format!("/proc/{}", std::process::id()).into(), proof: None };
    let excludes = ["/*", pattern, "!/comm"].map(str::to_owned).to_vec();
    let work = BackupWork { excludes, incomplete_tag, ..backup_of(source) };
    let id = world.run(&world.task("uid-1", TaskWork::Backup(work))).await.backed_up().snapshot;
    let snapshot = world.repository().await.load_snapshot(id.parse().unwrap()).await.unwrap();
    assert_eq!(snapshot.tags.iter().any(|tag| tag == INCOMPLETE_TAG), expected, "{:?}", snapshot.tags);
}

#[rstest::rstest]
#[case("printf hello", None)]
#[case("printf hello; exit 3", Some("exit status: 3"))]
#[case("printf hello; echo 'no such table' >&2; exit 2", Some("(exit status: 2): no such table"))]
#[case("kill -9 $$", Some("signal: 9"))]
#[case(":", Some("empty"))]
#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_writes_is_one_file_unless_it_fails(
    #[case] script: &str,
    #[case] problem: Option<&str>,
) {
    let world = World::new().await;
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let source = Source::Command { argv, name: "dump.sql".to_owned() };
    let left = world.run(&world.task("uid-1", TaskWork::Backup(backup_of(source)))).await;
    match problem {
        None => assert_eq!(left.backed_up().bytes, 5),
        Some(problem) => {
            let failure = left.failed();
            assert_eq!(failure.cause, Cause::Source);
            assert!(failure.message.contains(problem), "{}", failure.message);
            assert!(world.repository().await.load_snapshots().await.unwrap().is_empty());
        }
    }
}
