use tokio_util::sync::CancellationToken;

use super::world::World;
use crate::run::space_needed;

#[tokio::test(flavor = "multi_thread")]
async fn the_least_that_is_needed_counts_links_once_and_holes_only_where_they_are_filled() {
    const HOLE: u64 = 8 * 1024 * 1024;
    let world = World::new().await;
    world.write("file", vec![1; 1000]);
    std::fs::hard_link(world.path("volume/file"), world.path("volume/link")).unwrap();
    world.write("sparse", "");
    let sparse = std::fs::File::options().write(true).open(world.path("volume/sparse")).unwrap();
    sparse.set_len(HOLE).unwrap();
    let id = world.run(&world.backup("uid-1")).await.backed_up().snapshot;
    let repository = world.repository().await;
    let snapshot = repository.load_snapshot(id.parse().unwrap()).await.unwrap();
    for (sparse, expected) in [(false, 1000 + HOLE), (true, 1000)] {
        let needed = space_needed(&repository, snapshot.tree, sparse, &CancellationToken::new()).await;
        assert_eq!(needed.unwrap(), expected);
    }
}
