//! `key passwd`: a new key, proof that it opens the repository, and only then the old one goes.

use secrecy::SecretString;

use crate::error::{Error, Result};
use crate::id::KeyId;
use crate::keys::Cost;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::repository::{Identity, Repository};

/// Replaces the password that the repository was opened with, under an exclusive lock. Gives the new key.
pub async fn change_password(
    repository: &Repository,
    password: &SecretString,
    cost: Cost,
    identity: &Identity,
    lock: &LockOptions,
) -> Result<KeyId> {
    Lock::hold(repository, LockKind::Exclusive, lock, async |lock| {
        let new = repository.add_key(password, cost, identity).await?;
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
                // The old password still works; a key that does not is only confusing.
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
    use super::*;
    use crate::repository::Options;
    use crate::testing::{cheap, memory_repository, password};

    #[tokio::test]
    async fn the_new_password_opens_and_the_old_one_no_longer() {
        let repository = memory_repository().await;
        let (new, cost) = (SecretString::from("battery staple"), cheap(repository.config().version).cost);
        let identity = Identity::of_system();
        let id = change_password(&repository, &new, cost, &identity, &LockOptions::default()).await.unwrap();
        let open = |password| Repository::open(repository.store().clone(), password, Options::default());
        assert_eq!(open(&new).await.unwrap().key_id(), id);
        assert!(matches!(open(&password()).await, Err(Error::WrongPassword { keys: 1, damaged: 0 })));
    }

    #[tokio::test]
    async fn an_empty_password_changes_nothing() {
        let repository = memory_repository().await;
        let empty = SecretString::from("");
        let cost = cheap(repository.config().version).cost;
        let identity = Identity::of_system();
        assert!(
            change_password(&repository, &empty, cost, &identity, &LockOptions::default()).await.is_err()
        );
        let keys = repository.keys().await.unwrap();
        assert_eq!(keys.len(), 1);
        assert_eq!(keys[0].id, repository.key_id());
    }
}
