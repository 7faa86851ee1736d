//! `key remove`: removes a password, and makes sure that one remains that opens the repository.

use crate::error::{Error, Result};
use crate::id::KeyId;
use crate::keys;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::repository::Repository;

/// Removes a key under an exclusive lock; never the current one, which therefore remains.
pub async fn remove_key(repository: &Repository, id: KeyId, lock: &LockOptions) -> Result<()> {
    Lock::hold(repository, LockKind::Exclusive, lock, async |lock| {
        let listed = own_key_is_there(repository).await?;
        if !listed.contains(&id) {
            return Err(Error::NothingFound { what: format!("key {id} no longer exists") });
        }
        lock.verify().await?;
        repository.remove_key(id).await
    })
    .await
}

/// All keys, including the one with which this process opened the repository. If another process removed that one
/// before we took the lock, removing a further key might leave none.
pub(crate) async fn own_key_is_there(repository: &Repository) -> Result<Vec<KeyId>> {
    let listed = keys::list(repository.store()).await?;
    let own = repository.key_id();
    if listed.contains(&own) {
        return Ok(listed);
    }
    Err(Error::Refused {
        reason: format!(
            "key {}, with which this command opened the repository, was removed by another process",
            own.short()
        ),
        hint: "no key was changed; start again with a password that still opens the repository",
    })
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::keys::{Cost, NewKey};
    use crate::repository::{Identity, Options};
    use crate::testing::{memory_repository, password};

    /// One repository, opened with two keys.
    async fn opened_twice() -> (Repository, Repository) {
        let first = memory_repository().await;
        let (other, identity) = (SecretString::from("battery staple"), Identity::of_system());
        let cost = Cost { n: 16, r: 1, p: 1 };
        let new = NewKey { password: &other, allow_empty: false, cost, identity: &identity };
        first.add_key(&new).await.unwrap();
        let second = Repository::open(first.store().clone(), &other, Options::default()).await.unwrap();
        assert_ne!(first.key_id(), second.key_id());
        (first, second)
    }

    #[tokio::test]
    async fn of_two_that_remove_each_others_key_one_is_refused() {
        let (first, second) = opened_twice().await;
        let lock = LockOptions { wait: std::time::Duration::from_mins(1), ..LockOptions::default() };
        let (one, other) = tokio::join!(
            remove_key(&first, second.key_id(), &lock),
            remove_key(&second, first.key_id(), &lock)
        );
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        let refused = one.and(other).unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        assert_eq!(first.keys().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_password_of_a_key_that_was_removed_is_not_changed() {
        let (first, second) = opened_twice().await;
        let lock = LockOptions::default();
        remove_key(&first, second.key_id(), &lock).await.unwrap();
        let (new, identity) = (SecretString::from("new"), Identity::of_system());
        let new = NewKey {
            password: &new,
            allow_empty: false,
            cost: Cost { n: 16, r: 1, p: 1 },
            identity: &identity,
        };
        let refused = crate::change_password::change_password(&second, &new, &lock).await;
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        assert_eq!(first.keys().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_own_key_and_one_that_is_gone_are_not_removed() {
        let (first, second) = opened_twice().await;
        let lock = LockOptions::default();
        assert!(matches!(remove_key(&first, first.key_id(), &lock).await, Err(Error::Refused { .. })));
        remove_key(&first, second.key_id(), &lock).await.unwrap();
        let again = remove_key(&first, second.key_id(), &lock).await;
        assert!(matches!(again, Err(Error::NothingFound { .. })), "{again:?}");
        Repository::open(first.store().clone(), &password(), Options::default()).await.unwrap();
    }
}
