//! The key of a Repository among all repositories of the server. Jobs of movers have it as a text.

use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_transfer::repositories::RepositoryKey;

/// The location of every key of this API. The second part of such a key has a slash, which no namespace in Velero's
/// keys has, so keys of the two APIs never collide.
pub(crate) const STORAGE: &str = "stash";

/// The key of a Repository.
pub(crate) fn key_of(namespace: &str, name: &str) -> RepositoryKey {
    RepositoryKey::new(LocationName::new(STORAGE), NamespaceName::new(format!("{namespace}/{name}")))
}

/// Namespace and name of the Repository that a key stands for.
pub(crate) fn parts_of(key: &RepositoryKey) -> (&str, &str) {
    key.name().as_str().split_once('/').unwrap_or_default()
}

/// Namespace and name of the Repository in the text of a key; None if the key belongs to another API.
pub(crate) fn parts_of_text(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(STORAGE)?.strip_prefix('/')?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_back_to_its_repository() {
        let key = key_of("shop", "backups");
        assert_eq!(parts_of(&key), ("shop", "backups"));
        assert_eq!(key.to_string(), "stash/shop/backups");
        assert_eq!(parts_of_text("stash/shop/backups"), Some(("shop", "backups")));
        assert_eq!(parts_of_text("default/shop"), None);
        assert_eq!(parts_of_text(""), None);
    }
}
