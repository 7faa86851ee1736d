//! Recoveries: a command gets the snapshot, and only a whole one counts.

use rstest::rstest;

use super::{clean, dumped, pipeline, restore, world};
use crate::report::Cause;

#[rstest]
#[case::fails(&["R restore", "cat >/dev/null; echo table is full >&2; exit 1"], &["table is full"])]
#[case::fails_at_once(&["R restore", "echo Access denied >&2; exit 1"], &["Access denied"])]
#[case::reads_nothing(&["R restore", "true"], &["before it had read the whole snapshot"])]
#[case::reads_a_part(&["R restore", "head -c 10 >/dev/null"], &["before it had read the whole snapshot"])]
#[case::fails_behind_a_filter(&["R restore", "cat", "cat >/dev/null; exit 9"], &["exit status: 9"])]
#[case::no_call(&["true", "cat >/dev/null"], &["none of them called"])]
#[case::wrong_call(&["printf x", "R backup"], &["has to call `restic restore`"])]
#[case::another_snapshot(&["R restore 0123456789", "cat >/dev/null"], &["asked for snapshot '0123456789'"])]
#[case::restic_is_killed(&["sh -c 'kill -9 $$'; exit $?", "cat >/dev/null"], &["exit status: 137"])]
#[tokio::test]
async fn it_fails_unless_everything_was_loaded(#[case] sides: &[&str], #[case] expected: &[&str]) {
    for size in [20, 3_000_000] {
        let world = world().await;
        let snapshot = dumped(&world, &vec![b'x'; size]).await;
        let failure = world.run(&restore(&world, &snapshot, pipeline(sides))).await.failed();
        assert_eq!(failure.cause, Cause::Target);
        for text in expected {
            assert!(failure.message.contains(text), "{size}: {failure:?}");
        }
        clean(&world).await;
    }
}

#[tokio::test]
async fn the_snapshot_may_be_named() {
    let world = world().await;
    let snapshot = dumped(&world, b"rows").await;
    for name in ["latest", &snapshot[..8], &snapshot] {
        let sides = [&*format!("R restore {name}"), "cat >/dev/null"];
        assert_eq!(world.run(&restore(&world, &snapshot, pipeline(&sides))).await.restored().bytes, 4);
    }
}
