use std::time::Duration;

use jiff::Timestamp;
use lifeboat_repository::lock::{Lock, LockKind, LockOptions};
use tokio_util::sync::CancellationToken;

use super::world::{World, access};
use crate::report::{Cause, LogLine};
use crate::task::{Task, Transport};

fn direct(task: &mut Task) -> &mut crate::task::Direct {
    let Transport::Direct(direct) = &mut access(task).transport else { panic!() };
    direct
}

type Spoil = fn(&mut Task);

#[rstest::rstest]
#[case::wrong_password(|task: &mut Task| access(task).passwords.truncate(1), Cause::Password, "--repository-password-file")]
#[case::no_repository(|task: &mut Task| direct(task).path = "restic/none".to_owned(), Cause::NoRepository, "restic/none")]
#[case::no_bucket(|task: &mut Task| direct(task).bucket = "none".to_owned(), Cause::Storage, "none")]
#[case::unknown_setting(|task: &mut Task| _ = direct(task).config.insert("paht".to_owned(), String::new()), Cause::Storage, "paht")]
#[case::file_not_there(|task: &mut Task| direct(task).credentials = Some("none".to_owned()), Cause::Task, "/none'")]
#[case::file_elsewhere(|task: &mut Task| access(task).passwords = vec!["../x".to_owned()], Cause::Task, "plain name")]
#[case::gateway_without_its_token(
    |task: &mut Task| access(task).transport =
        Transport::Gateway { url: "https://gateway".to_owned(), token: "t".to_owned(), ca: None },
    Cause::Task,
    "/t'"
)]
#[case::gateway_without_its_authority(
    |task: &mut Task| access(task).transport =
        Transport::Gateway { url: "https://gateway".to_owned(), token: "password-1".to_owned(), ca: None },
    Cause::Storage,
    "'ca'"
)]
#[case::gateway_without_tls(
    |task: &mut Task| access(task).transport = Transport::Gateway {
        url: "http://gateway".to_owned(), token: "password-1".to_owned(), ca: Some("password-1".to_owned()) },
    Cause::Storage,
    "'https://'"
)]
#[case::rest_server_without_a_scheme(
    |task: &mut Task| access(task).transport =
        Transport::Rest { url: "backup.shop:8000".to_owned(), credentials: None, ca: None },
    Cause::Storage,
    "http://"
)]
#[case::no_user_and_password(
    |task: &mut Task| access(task).transport = Transport::Rest {
        url: "http://backup.shop:8000/".to_owned(), credentials: Some("password-1".to_owned()), ca: None },
    Cause::Task,
    "user:password"
)]
#[case::directory_elsewhere(
    |task: &mut Task| access(task).transport = Transport::Directory { path: "/mover/repository/../task".into() },
    Cause::Task,
    "without '..'"
)]
#[case::directory_not_there(
    |task: &mut Task| access(task).transport = Transport::Directory { path: "/none".into() },
    Cause::NoRepository,
    "'/none'"
)]
#[case::no_repository_at_all(|task: &mut Task| task.repository = None, Cause::Task, "part 'uid-1' works on one")]
#[case::deadline(|task: &mut Task| task.deadline = Some(Timestamp::UNIX_EPOCH), Cause::Deadline, "1970")]
#[case::no_password(|task: &mut Task| access(task).passwords.clear(), Cause::Task, "repository.passwords")]
#[case::no_uid(|task: &mut Task| task.uid.clear(), Cause::Task, "uid")]
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_has_its_cause_and_says_what_it_is_about(
    #[case] spoil: Spoil,
    #[case] cause: Cause,
    #[case] word: &str,
) {
    let world = World::new().await;
    world.write("a", "content");
    let mut task = world.backup("uid-1");
    spoil(&mut task);
    let failure = world.run(&task).await.failed();
    assert_eq!(failure.cause, cause, "{}", failure.message);
    assert!(failure.message.contains(word), "{}", failure.message);
    assert!(!failure.message.contains("correct horse"));
    world.assert_nothing_is_locked().await;
}

#[rstest::rstest]
#[case("{", "EOF")]
#[case(r#"{"version": 3, "uid": "uid-1"}"#, "version 3, this mover supports 1 to 2")]
#[case(r#"{"version": 2, "uid": "uid-1", "novel": true}"#, "novel")]
#[case(r#"{"uid": "uid-1"}"#, "no version")]
#[case(r#"{"version": 1, "uid": "uid-1", "novel": true}"#, "novel")]
#[tokio::test]
async fn a_task_that_is_not_understood_is_not_begun(#[case] text: &str, #[case] word: &str) {
    let world = World::bare();
    let left = world.run_text(text, CancellationToken::new(), |_| {}).await;
    assert_eq!(left.result.uid, if text.contains("uid-1") { "uid-1" } else { "" });
    let failure = left.failed();
    assert_eq!(failure.cause, Cause::Task);
    assert!(failure.message.contains(word), "{}", failure.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_lock_is_reported_and_a_dead_owner_is_not_waited_for() {
    let world = World::new().await;
    world.write("a", "content");
    let repository = world.repository().await;
    let lock = Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap();
    let mut task = world.backup("uid-1");
    let failure = world.run(&task).await.failed();
    assert_eq!(failure.cause, Cause::Locked);
    assert!(failure.message.contains("30 minutes"), "{}", failure.message);
    task.lock.dead_owners = vec![repository.options().identity.host.clone()];
    world.run(&task).await.backed_up();
    lock.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_mover_ends_at_once_and_leaves_no_lock() {
    let world = World::new().await;
    world.write("a", "content");
    let repository = world.repository().await;
    let lock = Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap();
    let mut task = world.backup("uid-1");
    task.lock.wait_seconds = 3600;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let on_line = move |line: &LogLine| {
        if matches!(line, LogLine::Waiting { .. }) {
            stopping.cancel();
        }
    };
    let running = tokio::time::timeout(Duration::from_secs(30), world.run_with(&task, stop, on_line));
    let failure = running.await.unwrap().failed();
    assert_eq!(failure.cause, Cause::Stopped);
    lock.release().await;
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_never_ends_ends_with_the_deadline() {
    let world = World::new().await;
    let argv = ["sh", "-c", "sleep 1000"].map(str::to_owned).to_vec();
    let source = crate::task::Source::Command { argv, name: "dump".to_owned() };
    let work = crate::task::TaskWork::Backup(super::world::backup_of(source));
    let mut task = world.task("uid-1", work);
    task.deadline = Some(Timestamp::now() + Duration::from_millis(1500));
    let failure = world.run(&task).await.failed();
    assert_eq!(failure.cause, Cause::Deadline, "{}", failure.message);
    world.assert_nothing_is_locked().await;
}
