//! Whole movers, over TLS, on a real repository.

use std::path::Path;

use lifeboat_mover::report::{Cause, Outcome, TaskResult};
use lifeboat_mover::run::{MoverSettings as RunSettings, run};
use lifeboat_mover::task::{
    self, BackupWork, ForgetWork, LockTerms, MaintainWork, Proof, RestoreWork, Source as Data, Target, Task,
    TaskWork, Transport,
};
use lifeboat_repository::files::FileKind;
use secrecy::ExposeSecret;
use tempfile::TempDir;

use super::*;

/// Runs the mover of a task with these rights, as in its pod.
async fn carry_out(world: &World, uid: &str, rights: Rights, work: TaskWork) -> Outcome {
    let key = world.key_of(uid, rights).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in &key.files {
        std::fs::write(directory.path().join(name), content.expose_secret()).unwrap();
    }
    let lock = LockTerms { cluster: "cluster".into(), ..LockTerms::default() };
    let mut task = Task::single(uid, work, key.repository.unwrap(), lock);
    task.limits.scratch = Some(directory.path().join("scratch"));
    std::fs::create_dir(directory.path().join("scratch")).unwrap();
    std::fs::write(directory.path().join(task::FILE), serde_json::to_vec(&task).unwrap()).unwrap();
    let result_file = directory.path().join("result");
    let settings = RunSettings {
        directory: directory.path().to_owned(),
        result_file: result_file.clone(),
        pod_uid: "pod".into(),
        environment: Vec::new(),
        program: directory.path().join("program"),
        output: Box::new(std::io::sink()),
    };
    run(settings, CancellationToken::new()).await;
    serde_json::from_slice::<TaskResult>(&std::fs::read(result_file).unwrap()).unwrap().outcome
}

fn volume(files: &[(&str, usize)]) -> TempDir {
    let volume = tempfile::tempdir().unwrap();
    for (name, size) in files {
        let content: Vec<u8> = (0..*size).map(|at| u8::try_from((at * at) % 251).unwrap()).collect();
        std::fs::write(volume.path().join(name), content).unwrap();
    }
    volume
}

fn backup(volume: &Path) -> TaskWork {
    let source = Data::Path { path: volume.to_owned(), proof: Some(Proof::Directory) };
    TaskWork::Backup(BackupWork::new(source, "app"))
}

async fn backed_up(world: &World, volume: &Path) -> String {
    match carry_out(world, "u.0.ab-1", Rights::Backup, backup(volume)).await {
        Outcome::BackedUp(stored) => stored.snapshot,
        other => panic!("{other:?}"),
    }
}

async fn count(world: &World, kind: FileKind) -> usize {
    world.repository().await.list(kind).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mover_backs_up_and_restores_without_the_keys_of_the_storage() {
    let world = World::new().await;
    let volume = volume(&[("large", 3_000_000), ("small", 10)]);
    let snapshot = backed_up(&world, volume.path()).await;
    assert_eq!((count(&world, FileKind::Snapshot).await, count(&world, FileKind::Lock).await), (1, 0));
    let target = tempfile::tempdir().unwrap();
    let to = Target::Path { path: target.path().to_owned(), proof: Some(Proof::Directory) };
    let work = TaskWork::Restore(RestoreWork::new(snapshot, to));
    match carry_out(&world, "u.0.ab-2", Rights::Restore, work).await {
        Outcome::Restored(restored) => assert!(restored.verified),
        other => panic!("{other:?}"),
    }
    for name in ["large", "small"] {
        let read = |directory: &TempDir| std::fs::read(directory.path().join(name)).unwrap();
        assert!(read(&volume) == read(&target), "{name}");
    }
    assert_eq!(count(&world, FileKind::Lock).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_mover_gets_contains_the_keys_of_the_storage() {
    let world = World::new().await;
    let key = world.key_of("u.0.ab-1", Rights::Backup).await.unwrap();
    let names: Vec<&str> = key.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["gateway-ca.pem", "password-0", "token"]);
    for name in names {
        assert!(!text(&key, name).contains(PLANTED), "{name}");
    }
    let access = key.repository.clone().unwrap();
    let Transport::Gateway { url, .. } = &access.transport else { panic!("{access:?}") };
    assert!(url.ends_with("/stash/shop/backups/"), "{url}");
    assert!(!serde_json::to_string(&access).unwrap().contains("bkt"), "not even where the storage is");
    assert_eq!(text(&key, "password-0"), password().expose_secret());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_restore_stores_nothing() {
    let world = World::new().await;
    let volume = volume(&[("file", 1000)]);
    let outcome = carry_out(&world, "u.0.ab-1", Rights::Restore, backup(volume.path())).await;
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.message.contains("adds nothing but locks"), "{}", failure.message);
    for kind in [FileKind::Pack, FileKind::Index, FileKind::Snapshot, FileKind::Lock] {
        assert_eq!(count(&world, kind).await, 0, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_backup_neither_forgets_nor_prunes() {
    let world = World::new().await;
    let snapshot = backed_up(&world, volume(&[("file", 1000)]).path()).await;
    let forget = TaskWork::Forget(ForgetWork { snapshots: vec![snapshot] });
    let prune = TaskWork::Maintain(MaintainWork { prune: true, check: false, empty_is_meant: true });
    for work in [forget, prune] {
        let outcome = carry_out(&world, "u.0.ab-2", Rights::Backup, work).await;
        let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
        assert!(failure.message.contains("server"), "{}", failure.message);
    }
    assert_eq!((count(&world, FileKind::Snapshot).await, count(&world, FileKind::Lock).await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_task_that_has_ended_opens_nothing() {
    let world = World::new().await;
    world.records.end_all();
    let outcome = carry_out(&world, "u.0.ab-1", Rights::Backup, backup(volume(&[]).path())).await;
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.cause, Cause::Credentials, "{}", failure.message);
    assert!(failure.message.contains("has ended"), "{}", failure.message);
}

/// A shared lock of the server, or of another task, does not block other shared locks, and stays.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_another_holder_stays() {
    use lifeboat_repository::lock::{Lock, LockKind, LockOptions};
    let world = World::new().await;
    let held =
        Lock::acquire(&world.repository().await, LockKind::Shared, &LockOptions::default()).await.unwrap();
    backed_up(&world, volume(&[("file", 1000)]).path()).await;
    held.verify().await.unwrap();
    assert_eq!(count(&world, FileKind::Lock).await, 1);
    held.release().await;
}
