//! Upgrades a repository from version 1 to 2, like restic's `migrate upgrade_repo_v2`: only the config changes, and
//! old packs remain readable. `prune --repack-uncompressed` compresses them afterwards.

use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::check::{self, CheckOptions};
use crate::config::{Config, Version};
use crate::error::{Error, Result};
use crate::lock::{Lock, LockKind, LockOptions};
use crate::progress::Progress;
use crate::repository::Repository;

/// A migration that can be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Migration {
    pub name: &'static str,
    pub description: &'static str,
}

/// The only migration.
pub const UPGRADE_TO_V2: Migration =
    Migration { name: "upgrade_repo_v2", description: "upgrade a repository to version 2" };

/// The migrations that can be applied to this repository.
pub fn available(repository: &Repository) -> Vec<Migration> {
    if repository.config().version == Version::V1 { vec![UPGRADE_TO_V2] } else { Vec::new() }
}

/// Upgrades to version 2 under an exclusive lock, after a check. The repository must be opened again afterwards.
pub async fn upgrade_to_v2(
    repository: &Repository,
    lock: &LockOptions,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<()> {
    if repository.config().version != Version::V1 {
        let problem = "it already has version 2";
        return Err(Error::invalid("migration upgrade_repo_v2", problem));
    }
    Lock::hold(repository, LockKind::Exclusive, lock, async |lock| {
        let outcome = check::run(repository, &CheckOptions::default(), &progress, &cancel).await?;
        if let Some(error) = outcome.errors.first() {
            return Err(Error::Refused {
                reason: format!(
                    "the repository has {} errors; the first one: {}: {}",
                    outcome.total_errors, error.object, error.message
                ),
                hint: "run `check`, repair the repository, and migrate afterwards",
            });
        }
        progress.begin("writing the config");
        lock.verify().await?;
        replace_config(repository).await
    })
    .await
}

/// Keeps a copy of the old config on disk until the new one was read back. A store replaces an object atomically; if
/// the new one cannot be read nevertheless, the old one is written back.
async fn replace_config(repository: &Repository) -> Result<()> {
    let store = repository.store();
    let old = store.get("config").await.map_err(Error::store("read the config"))?;
    let local = |source| Error::Local { action: "keep a copy of the config".to_owned(), source };
    let mut copy = tempfile::Builder::new()
        .prefix("lifeboat-config-")
        .tempfile_in(&repository.options().temporary)
        .map_err(local)?;
    std::io::Write::write_all(&mut copy, &old).map_err(local)?;
    copy.as_file().sync_all().map_err(local)?;

    let config = Config { version: Version::V2, ..repository.config().clone() };
    let written = write(repository, &config).await;
    let Err(problem) = written else { return Ok(()) };
    if let Error::Store { source: lifeboat_store::Error::Unsupported { .. }, .. } = &problem
        && store.get("config").await.is_ok_and(|config| config == old)
    {
        return Err(Error::Refused {
            reason:
                "the server does not replace the config (a REST server replaces no files), so it is unchanged"
                    .to_owned(),
            hint: "migrate the directory on the server itself, or with `restic migrate upgrade_repo_v2`, which \
                   deletes the config before it writes the new one",
        });
    }
    if store.put("config", old).await.is_ok() {
        return Err(problem);
    }
    let kept = copy.keep().map_err(|error| local(error.error))?.1;
    let detail =
        format!("{problem}; the old config could not be written back either; it is in '{}'", kept.display());
    Err(Error::damaged("the config", detail))
}

async fn write(repository: &Repository, config: &Config) -> Result<()> {
    let store = repository.store();
    let sealed = repository.key().sealed(&config.json());
    store.put("config", sealed).await.map_err(Error::store("write the config"))?;
    let mut read = store.get("config").await.map_err(Error::store("read the config"))?.to_vec();
    let plain = repository.key().open(&mut read).map_err(|error| Error::damaged("the config", error))?;
    if Config::parse(plain)? == *config {
        Ok(())
    } else {
        Err(Error::damaged("the config", "it differs from what was written"))
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_store::Store;

    use super::*;
    use crate::repository::Options;
    use crate::testing::switchable::SwitchableBackend;
    use crate::testing::{new_repository, password, save_snapshot};

    async fn upgrade(repository: &Repository) -> Result<()> {
        upgrade_to_v2(repository, &LockOptions::default(), Arc::default(), CancellationToken::new()).await
    }

    #[tokio::test]
    async fn an_upgraded_repository_reads_old_packs_and_writes_compressed_ones() {
        let store = Store::memory();
        let repository = new_repository(store.clone(), Version::V1).await;
        save_snapshot(&repository, 1, &[("a", &[1; 2500])]).await;
        assert_eq!(available(&repository), [UPGRADE_TO_V2]);
        upgrade(&repository).await.unwrap();
        let new = Repository::open(store, &password(), Options::default()).await.unwrap();
        let same = Config { version: Version::V1, ..new.config().clone() };
        assert_eq!((new.config().version, &same), (Version::V2, repository.config()));
        assert_eq!(available(&new), []);
        save_snapshot(&new, 2, &[("b", &[2; 2500])]).await;
        let options = CheckOptions { read: check::ReadData::All, snapshots: None };
        let outcome = check::check(&new, &options, None, Arc::default(), CancellationToken::new()).await;
        assert!(outcome.unwrap().is_ok());
        assert!(upgrade(&new).await.is_err());
    }

    #[tokio::test]
    async fn a_damaged_repository_is_not_upgraded() {
        let repository = new_repository(Store::memory(), Version::V1).await;
        save_snapshot(&repository, 1, &[("a", b"x")]).await;
        for pack in repository.list(crate::files::FileKind::Pack).await.unwrap() {
            repository.remove_file(crate::files::FileKind::Pack, pack.id).await.unwrap();
        }
        assert!(matches!(upgrade(&repository).await, Err(Error::Refused { .. })));
    }

    #[tokio::test]
    async fn on_a_server_that_replaces_nothing_it_is_refused_and_nothing_changes() {
        let backend = SwitchableBackend::new();
        let repository = new_repository(backend.store(), Version::V1).await;
        save_snapshot(&repository, 1, &[("a", b"x")]).await;
        let before = repository.store().get("config").await.unwrap();
        backend.faults().is_rest = true;
        let refused = upgrade(&repository).await;
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        assert_eq!(repository.store().get("config").await.unwrap(), before);
    }

    #[tokio::test]
    async fn a_config_that_cannot_be_written_stays_as_it_was() {
        let backend = SwitchableBackend::new();
        let repository = new_repository(backend.store(), Version::V1).await;
        let before = repository.store().get("config").await.unwrap();
        backend.faults().puts_fail = true;
        assert!(replace_config(&repository).await.is_err());
        assert_eq!(repository.store().get("config").await.unwrap(), before);
    }
}
