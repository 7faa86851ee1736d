//! What the system says at the end, when files are closed and the file system is flushed.

use std::time::SystemTime;

use rustix::io::Errno;

use super::*;

async fn two_files() -> TestSnapshot {
    make(vec![file("a", &[b"one", b"two"]), directory("d", vec![file("b", &[b"three"])])]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_that_fails_fails_the_restore() {
    let target = tempfile::tempdir().unwrap();
    let system = System { flush: |_| Err(Errno::NOSPC), ..System::default() };
    let outcome = run_with(system, &two_files().await, options(target.path())).await;
    let Err(Error::File { path, source, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((path.as_path(), source.raw_os_error()), (target.path(), Some(Errno::NOSPC.raw_os_error())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_flushes_nothing_and_a_restore_onto_a_real_file_system_does() {
    let target = tempfile::tempdir().unwrap();
    let system = System { flush: |_| Err(Errno::IO), ..System::default() };
    let dry = RestoreOptions { dry_run: true, ..options(target.path()) };
    run_with(system, &two_files().await, dry).await.unwrap();
    let outcome = run_with(System::default(), &two_files().await, options(target.path())).await.unwrap();
    assert_eq!((outcome.problems.len(), outcome.files_restored), (0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_closed_is_incomplete_and_does_not_look_unchanged() {
    let target = tempfile::tempdir().unwrap();
    let began = SystemTime::now();
    let close = |handle| {
        drop(handle);
        Err(Errno::DQUOT)
    };
    let system = System { close, ..System::default() };
    let outcome = run_with(system, &two_files().await, options(target.path())).await.unwrap();
    let problems: Vec<_> = outcome.problems.iter().map(|problem| problem.path.as_str()).collect();
    assert!(outcome.is_incomplete() && problems.len() == 2, "{problems:?}");
    for name in ["a", "d/b"] {
        assert!(problems.contains(&format!("/{name}").as_str()), "{problems:?}");
        let modified = target.path().join(name).metadata().unwrap().modified().unwrap();
        assert!(modified + std::time::Duration::from_secs(10) > began, "{name} keeps its old time");
    }
    let stopping = RestoreOptions { stop_when_full: true, ..options(&target.path().join("other")) };
    let stopped = run_with(system, &two_files().await, stopping).await;
    assert!(matches!(stopped, Err(Error::File { .. })), "{stopped:?}");
}
