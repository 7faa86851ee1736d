//! Looks at a repository that the server cannot open.

use super::world::World;
use crate::report::{LogLine, Looked, Outcome, SnapshotLine};
use crate::task::{LookWork, StoredState, TaskWork, UID_TAG};

async fn look(world: &World, newest: u64) -> (Looked, Vec<SnapshotLine>) {
    let end = world.run(&world.task("look", TaskWork::Look(LookWork::new(newest)))).await;
    let listed = end.lines.iter().filter_map(|line| match line {
        LogLine::Snapshots { snapshots } => Some(snapshots.clone()),
        _ => None,
    });
    let listed = listed.flatten().collect();
    match end.done() {
        Outcome::Looked(looked) => (looked, listed),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_snapshots_are_listed_and_all_are_counted() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for uid in ["uid-1", "uid-2", "uid-3"] {
        world.write("a", uid);
        ids.push(world.run(&world.backup(uid)).await.backed_up().snapshot);
    }
    let (looked, listed) = look(&world, 2).await;
    assert_eq!((looked.snapshots, looked.listed, looked.damaged), (3, 2, 0));
    assert!(looked.bytes > 0 && looked.repository.len() == 64, "{looked:?}");
    let newest: Vec<_> = listed.iter().map(|snapshot| snapshot.id.clone()).collect();
    assert_eq!(newest, [ids[2].clone(), ids[1].clone()]);
    let first = &listed[0];
    assert_eq!((&*first.host, &*first.paths, first.files), ("shop/data", &["/".to_owned()][..], Some(1)));
    assert!(first.tags.contains(&format!("{UID_TAG}uid-3")), "{:?}", first.tags);
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_cannot_be_read_is_counted_and_hides_no_other() {
    let world = World::new().await;
    world.write("a", "content");
    let good = world.run(&world.backup("uid-1")).await.backed_up().snapshot;
    let damaged = world.path("bucket/cluster/restic/shop/snapshots").join("0".repeat(64));
    std::fs::write(damaged, "garbage").unwrap();
    let (looked, listed) = look(&world, 10).await;
    assert_eq!((looked.snapshots, looked.listed, looked.damaged), (2, 1, 1));
    assert_eq!(listed[0].id, good);
}

#[tokio::test(flavor = "multi_thread")]
async fn states_are_sealed_beside_the_data_and_a_name_leads_nowhere_else() {
    let world = World::new().await;
    world.write("a", "content");
    world.run(&world.backup("uid-1")).await.backed_up();
    let look = |name: &str| {
        let states = vec![StoredState { name: name.to_owned(), content: "CANARY".to_owned() }];
        world.task("look", TaskWork::Look(LookWork { states, ..LookWork::new(5) }))
    };
    let Outcome::Looked(looked) = world.run(&look(&"a".repeat(32))).await.done() else { panic!() };
    assert_eq!((looked.snapshots, looked.states_failed), (1, None));
    let directory = world.path("bucket/cluster/restic/shop/lifeboat/state");
    let sealed = std::fs::read(directory.join("a".repeat(32))).unwrap();
    assert!(!String::from_utf8_lossy(&sealed).contains("CANARY"));
    for name in ["../../config", "", "A"] {
        let failure = world.run(&look(name)).await.failed();
        assert!(failure.message.contains("states"), "{failure:?}");
    }
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 1);
}
