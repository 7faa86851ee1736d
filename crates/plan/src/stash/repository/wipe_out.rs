//! Whether the data of a Repository is deleted with it. If any fact is unknown, nothing is deleted.

use super::record::{ID, Recorded};

/// The finalizer of a Repository with `wipeOut`.
pub const FINALIZER: &str = "lifeboat.io/wipe-out";
/// Upstream's finalizer on Repositories. It is removed, because objects that were created for upstream could
/// otherwise never be deleted.
pub const UPSTREAM_FINALIZER: &str = "stash";
/// Annotation of a Repository: a digest of the repository's config, written before the first file is deleted. With
/// it, a server that continues can verify that the files belong to the same repository, although its keys are already
/// deleted.
pub const WIPING: &str = "lifeboat.io/wiping-out";

/// What is known about a Repository that is being deleted.
#[derive(Clone, Debug, Default)]
pub struct WipeFacts<'a> {
    pub recorded: Option<&'a Recorded>,
    /// The place of the backend now.
    pub location: &'a str,
    /// The ID of the repository in the backend; None if there is none.
    pub found: Option<&'a str>,
    /// The objects that use the repository, such as `BackupConfiguration shop/nightly`.
    pub users: &'a [String],
    /// Other Repositories with the same ID, as `namespace/name`.
    pub others: &'a [String],
    pub namespace: &'a str,
    /// Holders of locks that are not stale.
    pub locks: &'a [String],
    /// Clusters, other than this one, that stored a state in the repository.
    pub other_clusters: usize,
}

/// What happens to the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WipeOut {
    /// It is deleted.
    Delete,
    /// There is no data: nothing was ever stored, or it is already deleted.
    Nothing,
    Refused(WipeRefused),
}

/// Why the data is not deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WipeRefused {
    #[error(
        "the data is not deleted while the repository is used by {0}: delete or change these objects first"
    )]
    Used(String),
    #[error(
        "the data is not deleted while {0} for the same repository: delete it first, or set wipeOut to false"
    )]
    OtherRepository(String),
    #[error("the data is not deleted while {0} holds a lock of the repository")]
    Locked(String),
    #[error(
        "the data is not deleted: another cluster has stored backups in this repository; delete the data there, or set \
         wipeOut to false"
    )]
    OtherCluster,
    #[error(
        "the data is not deleted: the backend holds the repository {found}, and {recorded} is on record ({ID}); set wipeOut to \
         false to delete the object without its data"
    )]
    Another { found: String, recorded: String },
    #[error(
        "the data is not deleted: the backend was changed from '{from}' since the repository was last opened; set wipeOut to \
         false to delete the object without its data"
    )]
    Moved { from: String },
}

/// What happens to the data of a Repository that is being deleted and has `wipeOut`.
pub fn decide(facts: &WipeFacts<'_>) -> WipeOut {
    let refused = |refused: WipeRefused| WipeOut::Refused(refused);
    let Some(recorded) = facts.recorded else {
        return match facts.found {
            None => WipeOut::Nothing,
            // The repository was never opened for this Repository: the files may belong to another one.
            Some(found) => {
                refused(WipeRefused::Another { found: found.to_owned(), recorded: "none".to_owned() })
            }
        };
    };
    if recorded.location != facts.location {
        return refused(WipeRefused::Moved { from: recorded.location.clone() });
    }
    let Some(found) = facts.found else { return WipeOut::Nothing };
    if recorded.id != found {
        return refused(WipeRefused::Another { found: found.to_owned(), recorded: recorded.id.clone() });
    }
    if !facts.users.is_empty() {
        return refused(WipeRefused::Used(facts.users.join(", ")));
    }
    if let Some(other) = facts.others.first() {
        // Names of other namespaces are not shown.
        let own = other.strip_prefix(&format!("{}/", facts.namespace));
        let who = own.map_or_else(
            || "there is a Repository in another namespace".to_owned(),
            |name| format!("there is the Repository {name}"),
        );
        return refused(WipeRefused::OtherRepository(who));
    }
    if facts.other_clusters > 0 {
        return refused(WipeRefused::OtherCluster);
    }
    match facts.locks.first() {
        Some(holder) => refused(WipeRefused::Locked(holder.clone())),
        None => WipeOut::Delete,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn recorded() -> Recorded {
        Recorded { id: "a".into(), location: "s3:x".into() }
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[rstest]
    #[case::ours(Some("a"), &[], &[], &[], 0, "Delete")]
    #[case::gone(None, &[], &[], &[], 0, "Nothing")]
    #[case::exchanged(Some("b"), &[], &[], &[], 0, "holds the repository b, and a is on record")]
    #[case::used(Some("a"), &["BackupBatch shop/all"], &[], &[], 0, "used by BackupBatch shop/all")]
    #[case::another_here(Some("a"), &[], &["shop/other"], &[], 0, "there is the Repository other")]
    #[case::another_elsewhere(Some("a"), &[], &["bank/secret"], &[], 0, "there is a Repository in another namespace")]
    #[case::another_cluster(Some("a"), &[], &[], &[], 1, "another cluster")]
    #[case::locked(Some("a"), &[], &[], &["laptop"], 0, "while laptop holds a lock")]
    fn data_is_deleted_only_if_it_is_this_repositorys_alone(
        #[case] found: Option<&str>,
        #[case] users: &[&str],
        #[case] others: &[&str],
        #[case] locks: &[&str],
        #[case] other_clusters: usize,
        #[case] expected: &str,
    ) {
        let recorded = recorded();
        let (users, others, locks) = (owned(users), owned(others), owned(locks));
        let facts = WipeFacts {
            recorded: Some(&recorded),
            location: "s3:x",
            found,
            users: &users,
            others: &others,
            namespace: "shop",
            locks: &locks,
            other_clusters,
        };
        match decide(&facts) {
            WipeOut::Delete => assert_eq!(expected, "Delete"),
            WipeOut::Nothing => assert_eq!(expected, "Nothing"),
            WipeOut::Refused(refused) => assert!(refused.to_string().contains(expected), "{refused}"),
        }
    }

    #[test]
    fn a_repository_that_was_never_opened_or_was_moved_keeps_what_is_there() {
        let facts = WipeFacts { location: "s3:x", found: Some("b"), ..WipeFacts::default() };
        assert!(matches!(decide(&facts), WipeOut::Refused(WipeRefused::Another { .. })));
        assert_eq!(decide(&WipeFacts { found: None, ..facts.clone() }), WipeOut::Nothing);
        let recorded = recorded();
        let moved = WipeFacts { recorded: Some(&recorded), location: "s3:y", ..facts };
        assert!(matches!(decide(&moved), WipeOut::Refused(WipeRefused::Moved { .. })));
    }
}
