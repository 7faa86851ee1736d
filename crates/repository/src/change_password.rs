//! `key passwd`: adds a new key, checks that it opens the repository, and only then removes the old one.

use crate::error::{Error, Result};
use crate::id::KeyId;
use crate::keys::NewKey;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::remove_key::own_key_is_there;
use crate::repository::Repository;

/// Replaces the password that the repository was opened with, under an exclusive lock. Returns the new key's ID.
pub async fn change_password(repository: &Repository, new: &NewKey<'_>, lock: &LockOptions) -> Result<KeyId> {
    let password = new.password;
    Lock::hold(repository, LockKind::Exclusive, lock, async |lock| {
        own_key_is_there(repository).await?;
        let new = repository.add_key(new).await?;
        let mut options = repository.options().clone();
        options.key_hint = Some(new.to_string());
        let opened = Repository::open(repository.store().clone(), password, options).await;
        let proven = opened.and_then(|opened| {
            if opened.key_id() == new && opened.config() == repository.config() {
                Ok(opened)
            } else {
                Err(Error::damaged(format!("new key {}", new.short()), "it does not open the repository"))
            }
        });
        let opened = match proven {
            Ok(opened) => opened,
            Err(error) => {
                // The old password still works; a new key that does not work would only confuse.
                let _ = repository.remove_key(new).await;
                return Err(error);
            }
        };
        lock.verify().await?;
        opened.remove_key(repository.key_id()).await?;
        Ok(new)
    })
    .await
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use secrecy::SecretString;

    use super::*;
    use crate::repository::{Identity, InitOptions, Options};
    use crate::testing::{cheap, memory_repository, password};

    #[rstest]
    #[case("battery staple", false)]
    #[case("battery staple", true)]
    #[case("", true)]
    #[tokio::test]
    async fn the_new_password_opens_and_the_old_one_no_longer(#[case] new: &str, #[case] allow_empty: bool) {
        let repository = memory_repository().await;
        let (new, cost) = (SecretString::from(new), cheap(repository.config().version).cost);
        let identity = Identity::of_system();
        let key = NewKey { password: &new, allow_empty, cost, identity: &identity };
        let id = change_password(&repository, &key, &LockOptions::default()).await.unwrap();
        let open = |password| Repository::open(repository.store().clone(), password, Options::default());
        assert_eq!(open(&new).await.unwrap().key_id(), id);
        assert!(matches!(open(&password()).await, Err(Error::WrongPassword { keys: 1, damaged: 0 })));
    }

    #[tokio::test]
    async fn an_empty_password_that_is_not_allowed_changes_nothing() {
        let repository = memory_repository().await;
        let (empty, identity) = (SecretString::from(""), Identity::of_system());
        let cost = cheap(repository.config().version).cost;
        let key = NewKey { password: &empty, allow_empty: false, cost, identity: &identity };
        assert!(change_password(&repository, &key, &LockOptions::default()).await.is_err());
        let keys = repository.keys().await.unwrap();
        assert_eq!(keys.len(), 1);
        assert_eq!(keys[0].id, repository.key_id());
    }

    #[rstest]
    #[case(true)]
    #[case(false)]
    #[tokio::test]
    async fn a_repository_without_a_password_is_made_only_when_that_is_allowed(#[case] allowed: bool) {
        let store = lifeboat_store::Store::memory();
        let empty = SecretString::from("");
        let init = InitOptions { allow_empty_password: allowed, ..cheap(crate::config::Version::V2) };
        let made = Repository::init(store.clone(), &empty, init, Options::default()).await;
        assert_eq!(made.is_ok(), allowed);
        assert_eq!(Repository::open(store, &empty, Options::default()).await.is_ok(), allowed);
    }
}
