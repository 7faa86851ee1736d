use super::world::{World, backup_of, restore_to};
use crate::report::Cause;
use crate::task::{Source, Target, TaskWork};

const MIB: usize = 1024 * 1024;

async fn stored(world: &World) -> (Vec<u8>, String) {
    let mut content: Vec<u8> = (0..=250).cycle().take(2 * MIB).collect();
    content.resize(20 * MIB, 0);
    std::fs::write(world.path("device"), &content).unwrap();
    let source = Source::BlockDevice { path: world.path("device"), name: "device.img".to_owned() };
    let backed_up = world.run(&world.task("uid-1", TaskWork::Backup(backup_of(source)))).await.backed_up();
    assert_eq!((backed_up.files, backed_up.bytes), (1, 20 * MIB as u64));
    assert!(backed_up.bytes_added < 4 * MIB as u64, "{backed_up:?}");
    (content, backed_up.snapshot)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_comes_back_onto_a_larger_one() {
    let world = World::new().await;
    let (content, snapshot) = stored(&world).await;
    let path = world.path("target");
    std::fs::write(&path, vec![9; 24 * MIB]).unwrap();
    let target = Target::BlockDevice { path: path.clone() };
    let restored =
        world.run(&world.task("restore", TaskWork::Restore(restore_to(&snapshot, target)))).await.restored();
    assert!(restored.verified && restored.bytes == 20 * MIB as u64);
    assert!(std::fs::read(&path).unwrap()[..20 * MIB] == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_too_small_is_refused_with_both_sizes() {
    let world = World::new().await;
    let (_, snapshot) = stored(&world).await;
    let path = world.path("target");
    std::fs::write(&path, vec![9; MIB]).unwrap();
    let target = Target::BlockDevice { path: path.clone() };
    let failure =
        world.run(&world.task("restore", TaskWork::Restore(restore_to(&snapshot, target)))).await.failed();
    assert_eq!(failure.cause, Cause::NoSpace);
    assert!(
        failure.message.contains("20971520") && failure.message.contains("1048576"),
        "{}",
        failure.message
    );
    assert!(std::fs::read(&path).unwrap() == vec![9; MIB], "nothing was written");
}

/// As a workload's device is stored: `restic dump latest /dev/xvda` gives its content.
#[rstest::rstest]
#[case::its_path("/dev/xvda", None)]
#[case::another_path(
    "/data",
    Some("its only file is '/dev/xvda'; expected the content of a device at '/data'")
)]
#[tokio::test(flavor = "multi_thread")]
async fn the_content_of_a_device_is_the_file_at_its_path(#[case] path: &str, #[case] problem: Option<&str>) {
    let world = World::new().await;
    std::fs::write(world.path("device"), vec![7; MIB]).unwrap();
    let source = Source::BlockDevice { path: world.path("device"), name: "dev/xvda".to_owned() };
    let stored = world.run(&world.task("uid-1", TaskWork::Backup(backup_of(source)))).await.backed_up();
    let repository = world.repository().await;
    assert_eq!(repository.load_snapshots().await.unwrap()[0].1.paths, ["/dev/xvda"]);

    let target = world.path("target");
    std::fs::write(&target, vec![9; MIB]).unwrap();
    let mut restore = restore_to(&stored.snapshot, Target::BlockDevice { path: target.clone() });
    restore.paths = vec![path.to_owned()];
    let end = world.run(&world.task("restore", TaskWork::Restore(restore))).await;
    let content = || std::fs::read(&target).unwrap();
    match problem {
        None => {
            assert!(end.restored().verified);
            assert!(content() == vec![7; MIB]);
        }
        Some(problem) => {
            let failure = end.failed();
            assert!(failure.cause == Cause::Target && failure.message.contains(problem), "{failure:?}");
            assert!(content() == vec![9; MIB], "nothing was written");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_device_is_not_restored() {
    let world = World::new().await;
    let (_, snapshot) = stored(&world).await;
    let target = Target::BlockDevice { path: world.path("device") };
    let mut restore = restore_to(&snapshot, target);
    restore.sub_path = Some("db".to_owned());
    let failure = world.run(&world.task("restore", TaskWork::Restore(restore))).await.failed();
    assert!(failure.cause == Cause::Task && failure.message.starts_with("subPath: "), "{failure:?}");
}
