//! Two batches race for one repository, or for two Repositories with one bucket: whatever comes between the reads and the writes of their
//! reservations, one holds it and the other names it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifeboat_control::testing::{ApiServer, Requests, Verb, When};
use lifeboat_plan::stash::hosts::{HostName, HostSet};
use lifeboat_plan::stash::reservation::{Claim, Record, RepositoryName, Standing};

use super::*;
use crate::repository::reservations::{self, ReservedId};
use crate::repository::{key_of, ready};
use crate::testing::SHOP;

const BATCH: InvokerKind = InvokerKind::BackupBatch;
const MAPS: &str = "*/configmaps*";

/// Two batches: on one Repository, or on two with one bucket.
async fn two_batches(repositories: [&str; 2]) -> World {
    let world = world().await;
    let backend = json!({"s3": {"endpoint": "https://minio:9000", "bucket": "bkt", "prefix": "/r"}});
    world.put_backend("same", backend);
    for (name, workload, repository) in [("one", "web", repositories[0]), ("two", "db", repositories[1])] {
        put_batch(&world, name, &[target(workload, name)]);
        world.server.change(&path(&BATCH, name), &json!({"spec": {"repository": {"name": repository}}}));
    }
    world
}

/// One of both is Ready, and the other says which one.
fn assert_one_holds(world: &World, interleaving: &str) {
    let object = |name: &str| world.server.get(&path(&BATCH, name)).unwrap();
    let (one, two) = (object("one"), object("two"));
    let phases = [one["status"]["phase"].as_str(), two["status"]["phase"].as_str()];
    let (loser, winner) = match phases {
        [Some("Ready"), Some("Invalid")] => (two, "one"),
        [Some("Invalid"), Some("Ready")] => (one, "two"),
        _ => panic!("{interleaving}: {phases:?}"),
    };
    let validation = condition(&loser, "ValidationPassed");
    assert_eq!(validation.0, "False", "{interleaving}");
    assert!(validation.1.contains(&format!("BackupBatch shop/{winner}")), "{interleaving}: {validation:?}");
    assert!(loser["status"].to_string().contains("RepositoryInUse"), "{interleaving}");
    let maps = world.server.paths("/configmaps/");
    assert_eq!(maps.len(), 1, "{interleaving}: one record for one repository");
}

async fn settle(world: &World) {
    // A reconcile that met a conflict is repeated by its controller.
    for _ in 0..2 {
        for name in ["one", "two"] {
            reconciled(world, &BATCH, name).await;
        }
    }
}

#[rstest]
#[case::one_repository(["r", "r"])]
#[case::two_with_one_bucket(["r", "same"])]
#[tokio::test]
async fn of_two_batches_at_once_one_wins_although_writes_of_the_record_are_refused(
    #[case] repositories: [&str; 2],
) {
    // Of the writes of the record, those with these numbers are refused as if somebody else had written.
    for refused in
        [&[][..], &[1], &[2], &[3], &[1, 2], &[1, 3], &[2, 3], &[1, 2, 3], &[2, 4], &[1, 2, 3, 4, 5]]
    {
        for verb in [Verb::Create, Verb::Patch] {
            let world = two_batches(repositories).await;
            for number in refused {
                world.server.fail(Requests::new(verb, MAPS), When::Nth(*number), 409);
            }
            tokio::join!(reconciled(&world, &BATCH, "one"), reconciled(&world, &BATCH, "two"));
            world.server.heal();
            settle(&world).await;
            assert_one_holds(&world, &format!("{repositories:?} {verb:?} {refused:?}"));
        }
    }
}

/// The claim that a batch makes.
fn claim_of(name: &str, repository: &str) -> Claim {
    Claim {
        kind: BATCH,
        namespace: SHOP.into(),
        name: name.into(),
        uid: format!("u-{name}"),
        created: "2026-01-01T00:00:00Z".parse().unwrap(),
        repository: RepositoryName { namespace: SHOP.into(), name: repository.into() },
        hosts: vec![HostSet::One(HostName(name.into()))],
    }
}

/// Another server puts a claim on record, whatever is there.
fn write_claim(server: &ApiServer, map: &str, claim: &Claim) {
    let text = |record: &Record| json!({"data": {"reservations.json": record.with(claim).encode().unwrap()}});
    if let Some(found) = server.get(map) {
        let record = Record::decode(found["data"]["reservations.json"].as_str().unwrap()).unwrap();
        server.change(map, &text(&record));
    } else {
        let mut made = text(&Record::default());
        made["apiVersion"] = json!("v1");
        made["kind"] = json!("ConfigMap");
        server.put(map, made);
    }
}

#[rstest]
#[case::one_repository(["r", "r"])]
#[case::two_with_one_bucket(["r", "same"])]
#[tokio::test]
async fn a_claim_that_comes_between_a_read_and_its_write_is_not_lost(#[case] repositories: [&str; 2]) {
    // Before the request about the record with this number, another server writes the claim of the second batch.
    for moment in 1..=6 {
        let world = two_batches(repositories).await;
        let opened = ready(&world.context, &key_of(SHOP, "r")).await.unwrap();
        let id = ReservedId::new(&opened.access, SHOP, &opened.id);
        let map = format!("/api/v1/namespaces/lifeboat/configmaps/{}", id.config_map());
        let (seen, claim) = (AtomicUsize::new(0), claim_of("two", repositories[1]));
        world.server.answer(move |server, asked| {
            let is_about_it = asked.path.contains("/configmaps");
            if is_about_it && seen.fetch_add(1, Ordering::Relaxed) + 1 == moment {
                write_claim(server, &map, &claim);
            }
            None
        });
        reconciled(&world, &BATCH, "one").await;
        settle(&world).await;
        assert_one_holds(&world, &format!("{repositories:?} before request {moment}"));
    }
}

#[tokio::test]
async fn a_session_that_is_asked_for_while_the_record_changes_holds_the_repository_or_is_told_who_does() {
    for moment in 1..=6 {
        let world = two_batches(["r", "r"]).await;
        let opened = ready(&world.context, &key_of(SHOP, "r")).await.unwrap();
        let id = ReservedId::new(&opened.access, SHOP, &opened.id);
        let map = format!("/api/v1/namespaces/lifeboat/configmaps/{}", id.config_map());
        let seen = Arc::new(AtomicUsize::new(0));
        let (counted, rival) = (seen.clone(), claim_of("two", "r"));
        world.server.answer(move |server, asked| {
            let seen = &counted;
            if asked.path.contains("/configmaps") && seen.fetch_add(1, Ordering::Relaxed) + 1 == moment {
                // The record is given to the other one as a whole.
                let record = Record::default().with(&rival);
                let data = json!({"data": {"reservations.json": record.encode().unwrap()}});
                if server.get(&map).is_some() {
                    server.change(&map, &data);
                } else {
                    write_claim(server, &map, &rival);
                }
            }
            None
        });
        let standing = reservations::confirm(&world.context, &id, &claim_of("one", "r")).await.unwrap();
        // What the test itself reads is not disturbed.
        seen.store(usize::MAX / 2, Ordering::Relaxed);
        let record = reservations::read(&world.context, &id).await.unwrap();
        match standing {
            Standing::Holds => {
                assert_eq!(record.standing("u-one"), Standing::Holds, "before request {moment}");
            }
            Standing::Waits(conflict) => assert_eq!(conflict.name, "two", "before request {moment}"),
            Standing::Absent => panic!("before request {moment}"),
        }
    }
}
