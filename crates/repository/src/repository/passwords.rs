//! The keys of a repository: one for each password. Called by `key list`, `key add`, `key remove`, `key passwd`.

use super::Repository;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::KeyId;
use crate::keys::{self, KeyFile, ListedKey, NewKey};

impl Repository {
    /// All keys that open the repository.
    pub async fn keys(&self) -> Result<Vec<ListedKey>> {
        let mut listed = Vec::new();
        for id in keys::list(self.store()).await? {
            let file = match keys::load(self.store(), id).await {
                Ok(file) => Some(file),
                Err(Error::Damaged { .. }) => None,
                Err(error) => return Err(error),
            };
            listed.push(ListedKey { id, file });
        }
        Ok(listed)
    }

    /// Adds a password for the same repository. Checks that it opens the repository before it returns.
    pub async fn add_key(&self, new: &NewKey<'_>) -> Result<KeyId> {
        let id = keys::add(self.store(), self.key().material(), new).await?;
        let file: KeyFile = keys::load(self.store(), id).await?;
        tracing::debug!(%id, made = %file, "added a key");
        Ok(id)
    }

    /// Removes a password; never the current one. The caller holds the exclusive lock (see `crate::remove_key`).
    pub(crate) async fn remove_key(&self, id: KeyId) -> Result<()> {
        if id == self.key_id() {
            return Err(Error::Refused {
                reason: format!("this command opened the repository with key {}", id.short()),
                hint: "open it with another password first (`key add` adds one)",
            });
        }
        self.remove_file(FileKind::Key, id.0).await
    }
}
