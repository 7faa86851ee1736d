//! The kinds of plugins and the rules for their names. Pure.

use std::fmt;

use lifeboat_plugin_protocol::kinds;

/// The kind of a plugin. The versions of an action are separate kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    ObjectStore,
    VolumeSnapshotter,
    BackupItemAction,
    BackupItemActionV2,
    RestoreItemAction,
    RestoreItemActionV2,
    DeleteItemAction,
    ItemBlockAction,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::ObjectStore,
        Self::VolumeSnapshotter,
        Self::BackupItemAction,
        Self::BackupItemActionV2,
        Self::RestoreItemAction,
        Self::RestoreItemActionV2,
        Self::DeleteItemAction,
        Self::ItemBlockAction,
    ];

    /// The name that plugins and stock clients use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ObjectStore => kinds::OBJECT_STORE,
            Self::VolumeSnapshotter => kinds::VOLUME_SNAPSHOTTER,
            Self::BackupItemAction => kinds::BACKUP_ITEM_ACTION,
            Self::BackupItemActionV2 => kinds::BACKUP_ITEM_ACTION_V2,
            Self::RestoreItemAction => kinds::RESTORE_ITEM_ACTION,
            Self::RestoreItemActionV2 => kinds::RESTORE_ITEM_ACTION_V2,
            Self::DeleteItemAction => kinds::DELETE_ITEM_ACTION,
            Self::ItemBlockAction => kinds::ITEM_BLOCK_ACTION,
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A plugin's full name: locations may name a provider without a domain, `aws` for `velero.io/aws`.
pub fn qualified(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("velero.io/{name}") }
}

/// Why a plugin's name is invalid; stock Velero's rule.
pub(crate) fn name_error(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, rest] = parts[..] else {
        return Some(format!("the name {name:?} must have two parts, <DNS subdomain>/<name>"));
    };
    if rest.is_empty() || rest.len() > 253 || rest.chars().any(char::is_control) {
        return Some(format!("the name {name:?} must have a name of at most 253 characters after the '/'"));
    }
    let label = |text: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
    };
    if domain.len() > 253 || !domain.split('.').all(label) {
        return Some(format!(
            "the first part of the name {name:?} must be a DNS subdomain such as example.io"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::as_upstream("velero.io/aws", true)]
    #[case::no_domain("aws", false)]
    #[case::three_parts("a.io/b/c", false)]
    #[case::no_name("a.io/", false)]
    #[case::no_subdomain("A_b/c", false)]
    #[case::empty_label("a..b/c", false)]
    #[case::control("a.io/b\n", false)]
    fn a_name_is_a_subdomain_and_something(#[case] name: &str, #[case] good: bool) {
        assert_eq!(name_error(name).is_none(), good, "{:?}", name_error(name));
    }

    #[test]
    fn every_kind_reads_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(Kind::parse("PluginLister"), None);
        assert_eq!(qualified("aws"), "velero.io/aws");
        assert_eq!(qualified("example.io/x"), "example.io/x");
    }
}
