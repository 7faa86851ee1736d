//! Removes snapshots of a repository that the server cannot open.

use super::world::World;
use crate::report::{Cause, Forgotten, Outcome};
use crate::task::{ForgetWork, TaskWork};

async fn forget(world: &World, snapshots: &[String]) -> Forgotten {
    let work = ForgetWork { snapshots: snapshots.to_vec() };
    match world.run(&world.task("forget", TaskWork::Forget(work))).await.done() {
        Outcome::Forgotten(forgotten) => forgotten,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_named_snapshots_go_and_one_that_is_gone_already_is_no_failure() {
    let world = World::new().await;
    world.write("a", "content");
    let first = world.run(&world.backup("uid-1")).await.backed_up().snapshot;
    let second = world.run(&world.backup("uid-2")).await.backed_up().snapshot;
    let gone = [first, "0".repeat(64)];
    for removed in [1, 0] {
        assert_eq!(forget(&world, &gone).await, Forgotten { removed, emptied: false });
    }
    let left = world.repository().await.load_snapshots().await.unwrap();
    assert_eq!(left.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>(), std::slice::from_ref(&second));
    assert_eq!(forget(&world, &[second]).await, Forgotten { removed: 1, emptied: true });
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_beginning_of_an_id_is_refused() {
    let world = World::new().await;
    let work = ForgetWork { snapshots: vec!["0123abcd".to_owned()] };
    let failure = world.run(&world.task("forget", TaskWork::Forget(work))).await.failed();
    assert_eq!(failure.cause, Cause::Task);
    assert!(failure.message.contains("'0123abcd'"), "{}", failure.message);
}
