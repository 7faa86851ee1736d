//! The key of a repository among all repositories of the server: that of a Repository, or that of one of its directories. Jobs of
//! movers have it as a text.

use lifeboat_api::common::{RepositoryName, StorageName};
use lifeboat_api::stash::Repository;
use lifeboat_plan::stash::repo_dirs::RepoDir;
use lifeboat_transfer::repositories::RepositoryKey;

/// The location of every key of this API. The second part of such a key has a slash, which no namespace in Velero's
/// keys has, so keys of the two APIs never collide.
pub(crate) const STORAGE: &str = "stash";

/// The key of a Repository.
pub(crate) fn key_of(namespace: &str, name: &str) -> RepositoryKey {
    RepositoryKey::new(StorageName::new(STORAGE), RepositoryName::new(format!("{namespace}/{name}")))
}

/// The key of the repository in a directory of a Repository.
pub(crate) fn directory_key(namespace: &str, name: &str, directory: &RepoDir) -> RepositoryKey {
    let name = RepositoryName::new(format!("{namespace}/{name}{directory}"));
    RepositoryKey::new(StorageName::new(STORAGE), name)
}

/// Namespace and name of the Repository that a key stands for, or in whose directory its repository is.
pub(crate) fn parts_of(key: &RepositoryKey) -> (&str, &str) {
    parts(key.name().as_str()).unwrap_or_default()
}

/// The directory of a key; None for the key of a Repository itself.
pub(crate) fn directory_of(key: &RepositoryKey) -> Option<RepoDir> {
    let (_, rest) = key.name().as_str().split_once('/')?;
    let (_, directory) = rest.split_once('/')?;
    RepoDir::parse("the directory of a repository", directory).ok()
}

/// The key of the Repository in whose directory a repository is.
pub(crate) fn root_of(key: &RepositoryKey) -> RepositoryKey {
    let (namespace, name) = parts_of(key);
    key_of(namespace, name)
}

/// Namespace and name of the Repository in the text of a key; None if the key belongs to another API.
pub(crate) fn parts_of_text(key: &str) -> Option<(&str, &str)> {
    parts(key.strip_prefix(STORAGE)?.strip_prefix('/')?)
}

/// The key in a text; None if it belongs to another API.
pub(crate) fn key_of_text(text: &str) -> Option<RepositoryKey> {
    let name = text.strip_prefix(STORAGE)?.strip_prefix('/')?;
    parts(name).map(|_| RepositoryKey::new(StorageName::new(STORAGE), RepositoryName::new(name)))
}

/// The keys of a Repository: its own, and those of the directories on record.
pub(crate) fn keys_of(repository: &Repository) -> Vec<RepositoryKey> {
    let metadata = &repository.metadata;
    let (namespace, name) =
        (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
    let entries = repository.status.iter().flat_map(|status| &status.backup_repos);
    let directories = entries.filter_map(|entry| RepoDir::parse("repoDir", entry.repo_dir.as_deref()?).ok());
    let keys = directories.map(|directory| directory_key(&namespace, &name, &directory));
    std::iter::once(key_of(&namespace, &name)).chain(keys).collect()
}

fn parts(name: &str) -> Option<(&str, &str)> {
    let (namespace, rest) = name.split_once('/')?;
    Some((namespace, rest.split_once('/').map_or(rest, |(name, _)| name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_back_to_its_repository() {
        let key = key_of("shop", "backups");
        assert_eq!((parts_of(&key), directory_of(&key)), (("shop", "backups"), None));
        assert_eq!(key.to_string(), "stash/shop/backups");
        assert_eq!(parts_of_text("stash/shop/backups"), Some(("shop", "backups")));
        assert_eq!(parts_of_text("default/shop"), None);
        assert_eq!(parts_of_text(""), None);
        assert_eq!(key_of_text("default/shop"), None);
    }

    #[test]
    fn the_key_of_a_directory_has_the_repository_and_the_directory() {
        let directory = RepoDir::parse("repoDir", "/volumes/daemonset/app/n1").unwrap();
        let key = directory_key("shop", "backups", &directory);
        assert_eq!(key.to_string(), "stash/shop/backups/volumes/daemonset/app/n1");
        assert_eq!((parts_of(&key), directory_of(&key)), (("shop", "backups"), Some(directory)));
        assert_eq!((root_of(&key), key_of_text(&key.to_string())), (key_of("shop", "backups"), Some(key)));
        assert_eq!(parts_of_text("stash/shop/backups/volumes/x"), Some(("shop", "backups")));
    }
}
