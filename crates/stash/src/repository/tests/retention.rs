//! Retention removes only what the policy does not keep, of the repository that the session has reserved.

use std::collections::BTreeSet;

use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::retention::{KeepPolicy, Policies};

use super::*;

fn request<'a>(
    policies: &'a Policies,
    hosts: &'a BTreeSet<HostName>,
    id: &'a str,
    stored: &'a [String],
) -> PolicyRequest<'a> {
    PolicyRequest { policies, hosts, id, stored, dry_run: false }
}

async fn left(world: &World, key: &RepositoryKey) -> usize {
    snapshots(&world.context, key).await.unwrap().len()
}

#[tokio::test]
async fn nothing_is_removed_unless_the_repository_is_the_reserved_one_and_lists_what_was_stored() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let id = ready(&world.context, &key).await.unwrap().id;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(World::snapshot_in(world.store("r"), "app", &[]).await);
    }
    let keep = Policies::One(KeepPolicy { last: 1, ..KeepPolicy::default() });
    let hosts = BTreeSet::from(["app".into()]);
    let other = "0".repeat(64);
    let wrong = apply_policy(&world.context, &key, &request(&keep, &hosts, &other, &[])).await;
    assert!(wrong.unwrap_err().chain().contains("nothing was removed"));
    let gone = ["f".repeat(64)];
    let stale = apply_policy(&world.context, &key, &request(&keep, &hosts, &id, &gone)).await;
    assert!(stale.unwrap_err().chain().contains(&gone[0]));
    assert_eq!(left(&world, &key).await, 3);
    let dry = PolicyRequest { dry_run: true, ..request(&keep, &hosts, &id, &ids) };
    let would = apply_policy(&world.context, &key, &dry).await.unwrap();
    assert_eq!((would.removed.len(), left(&world, &key).await), (2, 3));
    let applied = apply_policy(&world.context, &key, &request(&keep, &hosts, &id, &ids)).await.unwrap();
    assert_eq!((applied.removed.len(), left(&world, &key).await), (2, 1));
}

#[tokio::test]
async fn a_policy_that_keeps_nothing_of_a_group_removes_nothing_of_it() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let id = ready(&world.context, &key).await.unwrap().id;
    for tags in [&[][..], &["keep"]] {
        World::snapshot_in(world.store("r"), "app", tags).await;
        World::snapshot_in(world.store("r"), "db", &[]).await;
    }
    let keep = Policies::One(KeepPolicy { tags: vec!["keep".into()], ..KeepPolicy::default() });
    let hosts = BTreeSet::from(["app".into(), "db".into()]);
    let applied = apply_policy(&world.context, &key, &request(&keep, &hosts, &id, &[])).await.unwrap();
    assert_eq!(applied.kept_whole, ["host db path /data"]);
    assert_eq!((applied.removed.len(), left(&world, &key).await), (1, 3));
}
