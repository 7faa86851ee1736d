//! Commands that fail, are killed or are cancelled: no snapshot of half a dump.

use std::io::Read;
use std::path::PathBuf;
use std::process::Command;

use rstest::rstest;
use tokio_util::sync::CancellationToken;

use super::{backup, failed, pipeline, world};
use crate::report::Cause;
use crate::tests::world::World;

/// A pipe with a name, on which a command and the test wait for each other.
fn fifo(world: &World, name: &str) -> PathBuf {
    let path = world.path(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[rstest]
#[case::at_once(&["echo no route to host >&2; exit 2", "R backup"], &["'echo' failed (exit status: 2): no route to host"])]
#[case::after_half_of_it(&["head -c 3000000 /dev/urandom; echo Lost connection >&2; exit 2", "R backup"], &["Lost connection"])]
#[case::in_the_middle(&["head -c 300000 /dev/zero", "sh -c 'cat >/dev/null; echo boom >&2; exit 4'", "R backup"], &["'sh' failed", "boom"])]
#[case::killed(&["head -c 100000 /dev/zero; kill -9 $$", "R backup"], &["SIGKILL"])]
#[case::its_child_killed(&["sh -c 'printf x; kill -9 $$'; exit $?", "R backup"], &["exit status: 137"])]
#[case::not_in_the_image(&["mysqldump-9 --all-databases", "R backup"], &["'mysqldump-9' failed (exit status: 127)", "in the agent's image"])]
#[case::output_closed_before_it_fails(&["exec 3>&1 >/dev/null; printf x >&3; exec 3>&-; echo late >&2; exit 5", "R backup"], &["late"])]
#[case::empty(&["true", "R backup"], &["an empty dump is no backup"])]
#[case::empty_because_it_fails(&["echo Access denied >&2; exit 2", "R backup"], &["Access denied"])]
#[case::no_call(&["printf x", "cat >/dev/null"], &["none of them called `restic`"])]
#[case::wrong_call(&["printf x", "R restore"], &["has to call `restic backup`"])]
#[case::only_a_part_is_passed_on(&["yes", "head -c 10", "R backup"], &["'yes' failed"])]
#[tokio::test]
async fn there_is_no_snapshot(#[case] sides: &[&str], #[case] expected: &[&str]) {
    let world = world().await;
    let end = world.run(&backup(&world, pipeline(sides))).await;
    let failure = failed(&world, end).await;
    assert_eq!(failure.cause, Cause::Source);
    for text in expected {
        assert!(failure.message.contains(text), "{failure:?}");
    }
}

#[tokio::test]
async fn a_killed_restic_makes_no_snapshot() {
    let world = world().await;
    let (id, never) = (fifo(&world, "id"), fifo(&world, "never"));
    let dump = format!("printf half; read id < {}; kill -9 $id; cat {}", id.display(), never.display());
    let store = format!("echo $$ > {}; exec R backup", id.display());
    let end = world.run(&backup(&world, pipeline(&[&dump, &store]))).await;
    let failure = failed(&world, end).await;
    assert!(failure.message.contains("SIGKILL") || failure.message.contains("it was killed"), "{failure:?}");
}

#[tokio::test]
async fn a_secret_is_masked_in_the_result() {
    let mut world = world().await;
    world.environment.push(("DB_PASSWORD".to_owned(), "hunter2".to_owned()));
    let dump = "echo \"cannot log in with --password=$DB_PASSWORD\" >&2; exit 1";
    let end = world.run(&backup(&world, pipeline(&[dump, "R backup"]))).await;
    let failure = failed(&world, end).await;
    assert!(failure.message.contains("--password=***"), "{failure:?}");
    assert!(!failure.message.contains("hunter2"), "{failure:?}");
}

#[tokio::test]
async fn cancelled_commands_are_killed() {
    let world = world().await;
    let (id, never) = (fifo(&world, "id"), fifo(&world, "never"));
    let dump = format!("printf half; echo $$ > {}; cat {}", id.display(), never.display());
    let stop = CancellationToken::new();
    let cancelling = stop.clone();
    // Opening waits for the command, which runs under the lock by then.
    let cancelling = std::thread::spawn(move || {
        let mut text = String::new();
        std::fs::File::open(id).unwrap().read_to_string(&mut text).unwrap();
        cancelling.cancel();
        text.trim().to_owned()
    });
    let task = backup(&world, pipeline(&[&dump, "R backup"]));
    let end = world.run_with(&task, stop, |_| {}).await;
    let failure = failed(&world, end).await;
    assert_eq!(failure.cause, Cause::Stopped);
    let process = PathBuf::from("/proc").join(cancelling.join().unwrap());
    assert!(!process.exists(), "{}", process.display());
}

#[tokio::test]
async fn the_deadline_ends_the_commands() {
    let world = world().await;
    let never = fifo(&world, "never");
    let dump = format!("printf half; cat {}", never.display());
    let mut task = backup(&world, pipeline(&[&dump, "R backup"]));
    task.deadline = Some(jiff::Timestamp::now() + std::time::Duration::from_millis(500));
    let failure = failed(&world, world.run(&task).await).await;
    assert_eq!(failure.cause, Cause::Deadline);
}
