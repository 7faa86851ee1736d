//! Repositories whose creation was interrupted.

use super::*;
use crate::config::Version;
use crate::testing::{cheap, memory_repository, opened, password, save_snapshot};

async fn init(store: &Store, password: &SecretString) -> Result<Repository> {
    Repository::init(store.clone(), password, cheap(Version::default()), Options::default()).await
}

#[tokio::test]
async fn a_repository_whose_maker_died_before_the_config_is_made_with_its_key() {
    let begun = memory_repository().await;
    let store = begun.store().clone();
    store.delete("config").await.unwrap();
    let made = init(&store, &password()).await.unwrap();
    assert_eq!(made.key_id(), begun.key_id(), "stock restic takes any key that the password opens");
    assert_eq!(keys::list(&store).await.unwrap().len(), 1);
    assert_eq!(opened(store).await.unwrap().config().id, made.config().id);
}

#[tokio::test]
async fn what_may_be_part_of_a_repository_is_left_alone() {
    let whole = memory_repository().await;
    save_snapshot(&whole, 1, &[("a", b"x")]).await;
    let store = whole.store().clone();
    store.delete("config").await.unwrap();
    let refused = init(&store, &password()).await.unwrap_err();
    assert!(refused.to_string().contains("there are keys but no config"), "{refused}");

    let foreign = memory_repository().await.store().clone();
    foreign.delete("config").await.unwrap();
    let refused = init(&foreign, &SecretString::from("another")).await.unwrap_err();
    assert!(refused.to_string().contains("started with another password"), "{refused}");
    assert!(!foreign.exists("config").await.unwrap());
}

#[tokio::test]
async fn who_is_overtaken_keeps_a_key_that_the_other_one_uses() {
    let made = memory_repository().await;
    let store = made.store().clone();
    assert!(matches!(init(&store, &password()).await, Err(Error::RepositoryExists { .. })));
    assert_eq!(keys::list(&store).await.unwrap(), [made.key_id()]);
}
