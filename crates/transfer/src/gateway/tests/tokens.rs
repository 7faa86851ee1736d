//! Which tokens are accepted, and by whom.

use jiff::SignedDuration;
use lifeboat_web::gateway::{FileAccess, Gatekeeper, NoGrant};

use super::*;

async fn token(world: &World, rights: Rights) -> String {
    text(&world.key_of("u.0.ab-1", rights).await.unwrap(), "token")
}

#[tokio::test]
async fn a_token_gives_the_rights_of_its_task_on_its_repository() {
    let world = World::new().await;
    for (rights, access) in [(Rights::Backup, FileAccess::Add), (Rights::Restore, FileAccess::Read)] {
        let grant = world.gateway.grant(&token(&world, rights).await).await.unwrap();
        assert_eq!((grant.access, grant.repository.as_str()), (access, "stash/shop/backups"));
        assert_eq!((grant.task.as_str(), grant.lock_user.as_str()), ("u.0.ab-1", "lifeboat-task/u.0.ab-1"));
    }
}

#[tokio::test]
async fn every_replica_accepts_it_and_no_other_installation_does() {
    let world = World::new().await;
    let token = token(&world, Rights::Backup).await;
    let (standby, _) = replica(&world.api, &world.store, None, None).await;
    assert_eq!(standby.grant(&token).await.unwrap().access, FileAccess::Add);
    let (elsewhere, _) = replica(&ApiServer::default(), &world.store, None, None).await;
    assert_eq!(elsewhere.grant(&token).await, Err(NoGrant::Invalid));
}

#[tokio::test]
async fn it_dies_with_its_task() {
    let world = World::new().await;
    let token = token(&world, Rights::Backup).await;
    world.records.end_all();
    assert_eq!(world.gateway.grant(&token).await.unwrap().access, FileAccess::Ended);
}

#[tokio::test]
async fn it_expires_a_little_after_the_deadline_of_its_mover() {
    let world = World::new().await;
    let ago = |minutes| world.gateway.shared.core.now() - SignedDuration::from_mins(minutes);
    for (minutes, expected) in [(5, None), (15, Some(NoGrant::Expired))] {
        let keys = world.gateway.pass(Rights::Backup).keys(&key(), &job("u.0.ab-1"), ago(minutes));
        let token = text(&keys.read().await.unwrap(), "token");
        assert_eq!(world.gateway.grant(&token).await.err(), expected, "{minutes}");
    }
}

#[tokio::test]
async fn a_changed_token_is_no_token() {
    let world = World::new().await;
    let token = token(&world, Rights::Restore).await;
    let (said, seal) = token.split_once('.').unwrap();
    for forged in [format!("{said}x.{seal}"), format!("{said}."), seal.to_owned(), String::new()] {
        assert_eq!(world.gateway.grant(&forged).await, Err(NoGrant::Invalid), "{forged}");
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_checked_is_tried_again() {
    let world = World::new().await;
    let token = token(&world, Rights::Backup).await;
    let (other, _) = replica(&world.api, &world.store, None, None).await;
    world.api.answer(|_, _| Some((503, serde_json::json!({"kind": "Status", "code": 503}))));
    assert!(matches!(other.grant(&token).await, Err(NoGrant::Unavailable(_))));
}

#[tokio::test]
async fn a_repository_that_only_movers_open_cannot_be_shared() {
    let world = World::with(Some("it is on a volume")).await;
    let error = world.key_of("u.0.ab-1", Rights::Backup).await.err().unwrap();
    assert!(matches!(error, RepositoryProblem::MoversOnly(_)), "{error}");
    assert!(error.to_string().contains("it is on a volume"), "{error}");
}

#[tokio::test]
async fn the_url_is_that_of_the_service_unless_one_is_given() {
    let world = World::new().await;
    let (inside, _) = replica(&world.api, &world.store, None, None).await;
    assert_eq!(inside.url(&key()), "https://lifeboat-gateway.lifeboat.svc:8087/stash/shop/backups/");
    assert_eq!(inside.names()[0], "lifeboat-gateway.lifeboat.svc");
    let given = Some("https://[fd00::1]:9000/".parse().unwrap());
    let (outside, _) = replica(&world.api, &world.store, None, given).await;
    assert_eq!(outside.url(&key()), "https://[fd00::1]:9000/stash/shop/backups/");
    assert!(outside.names().contains(&"fd00::1".to_owned()));
}
