//! Claims are recorded one after the other, even if other callers change the record at the same time.

use lifeboat_api::stash::InvokerKind;
use lifeboat_plan::stash::hosts::{HostName, HostSet};
use lifeboat_plan::stash::reservation::{Claim, RepositoryName, Standing, config_map_name};
use serde_json::json;

use super::super::reservations::{ReservationError, ReservedId, claim, read, release};
use crate::repository::ready;
use crate::testing::{SHOP, World};

fn batch(name: &str, created: &str) -> Claim {
    Claim {
        kind: InvokerKind::BackupBatch,
        namespace: SHOP.into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        created: created.parse().unwrap(),
        repository: RepositoryName { namespace: SHOP.into(), name: "r".into() },
        hosts: vec![HostSet::One(HostName(name.into()))],
    }
}

async fn id(world: &World) -> ReservedId {
    let ready = ready(&world.context, &world.put_repository("r")).await.unwrap();
    ReservedId::new(&ready.access, SHOP, &ready.id)
}

#[tokio::test]
async fn one_batch_holds_and_the_other_is_next_when_it_goes() {
    let world = World::new().await;
    let id = id(&world).await;
    let (first, second) = (batch("first", "2026-11-18T12:00:00Z"), batch("second", "2026-11-18T11:00:00Z"));
    assert_eq!(claim(&world.context, &id, &first).await.unwrap(), Standing::Holds);
    let waits = claim(&world.context, &id, &second).await.unwrap();
    assert!(matches!(&waits, Standing::Waits(conflict) if conflict.name == "first"), "{waits:?}");
    let record = release(&world.context, &id, |claim| claim.name == "first").await.unwrap();
    assert_eq!(record.standing("uid-second"), Standing::Holds);
    release(&world.context, &id, |_| true).await.unwrap();
    assert_eq!(world.server.paths("/configmaps/"), Vec::<String>::new(), "an empty record is removed");
}

#[tokio::test]
async fn of_claims_at_once_none_is_lost_and_one_batch_holds() {
    let world = World::new().await;
    let id = id(&world).await;
    let claims: Vec<Claim> = (0..8).map(|n| batch(&format!("b{n}"), "2026-11-18T12:00:00Z")).collect();
    let all = claims.iter().map(|one| claim(&world.context, &id, one));
    let standings = futures::future::try_join_all(all).await.unwrap();
    let record = read(&world.context, &id).await.unwrap();
    assert_eq!((record.holders().len(), record.waiting().len()), (1, 7));
    assert_eq!(standings.iter().filter(|standing| **standing == Standing::Holds).count(), 1);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_lets_none_in() {
    let world = World::new().await;
    let id = id(&world).await;
    claim(&world.context, &id, &batch("first", "2026-11-18T12:00:00Z")).await.unwrap();
    let map = world.server.paths("/configmaps/").remove(0);
    world.server.change(&map, &json!({"data": {"reservations.json": "{"}}));
    let error = claim(&world.context, &id, &batch("second", "2026-11-18T12:00:00Z")).await.unwrap_err();
    assert!(matches!(&error, ReservationError::Record { .. }), "{error}");
    assert!(error.chain().contains("ConfigMap lifeboat-stash-repository-"), "{error}");
    assert_eq!(world.server.get(&map).unwrap()["data"]["reservations.json"], "{");
}

#[tokio::test]
async fn an_id_that_movers_report_counts_in_their_namespace_only() {
    let world = World::new().await;
    let of_server = id(&world).await;
    let ready = ready(&world.context, &crate::repository::key_of(SHOP, "r")).await.unwrap();
    let [same, of_movers] = ReservedId::both(SHOP, &ready.id);
    assert_eq!(of_server, same);
    assert_ne!(of_movers.config_map(), config_map_name(&ready.id));
    assert_ne!(of_movers, ReservedId::both("bank", &ready.id)[1]);
}
