//! The restore decision: what to do with a node of the snapshot, given what exists at its path in the target. Pure;
//! the visitor asks for every entry, and a dry run shows the results.

use crate::node::{Node, NodeKind, NodeTime};

/// What happens to existing files, with restic's names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Every difference in content is repaired.
    #[default]
    Always,
    /// As `Always`, but a file with the same size and time counts as unchanged.
    IfChanged,
    /// Only files that are older than in the snapshot are changed.
    IfNewer,
    /// Nothing that exists is changed.
    Never,
}

impl std::str::FromStr for Overwrite {
    type Err = crate::error::Error;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Ok(match word {
            "always" => Self::Always,
            "if-changed" => Self::IfChanged,
            "if-newer" => Self::IfNewer,
            "never" => Self::Never,
            other => {
                let problem = format!("'{other}' is not one of always, if-changed, if-newer, never");
                return Err(crate::error::Error::invalid("overwrite", problem));
            }
        })
    }
}

/// What exists at a node's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    Missing,
    Present {
        kind: NodeKind,
        size: u64,
        mtime: NodeTime,
        links: u64,
        /// The target of a symlink.
        link_target: Vec<u8>,
        /// The number of a device.
        device: u64,
    },
}

/// What to do with one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing exists at its path.
    Create,
    /// Something of another kind exists, or something that cannot become the node: it is removed first.
    Replace(Removal),
    /// A file exists: its content decides between `Metadata` and a repair.
    Compare,
    /// It is correct except for owner, mode and times.
    Metadata,
    /// The overwrite option does not allow changing it.
    Skip,
    /// It may not be removed.
    Conflict(&'static str),
}

/// How an obstructing entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// A file, link or device; unlinked, never followed.
    Unlink,
    /// A directory, if it is empty.
    EmptyDirectory,
    /// A directory with all its content: only if deletion is allowed.
    Tree,
}

/// Decides about one node.
pub fn decide(node: &Node, existing: &Existing, overwrite: Overwrite, delete: bool) -> Step {
    let Existing::Present { kind, size, mtime, link_target, device, .. } = existing else {
        return Step::Create;
    };
    if node.is_directory() {
        return match (kind, overwrite) {
            (NodeKind::Directory, _) => Step::Metadata,
            // restic would remove the file; but "never" means never.
            (_, Overwrite::Never) => Step::Conflict("something that is not a directory exists at its path"),
            _ => Step::Replace(Removal::Unlink),
        };
    }
    match overwrite {
        Overwrite::Never => return Step::Skip,
        Overwrite::IfNewer if node.mtime <= *mtime => return Step::Skip,
        _ => {}
    }
    if *kind == NodeKind::Directory {
        return Step::Replace(if delete { Removal::Tree } else { Removal::EmptyDirectory });
    }
    let same = *kind == node.kind
        && match kind {
            NodeKind::File => {
                let trusted = overwrite == Overwrite::IfChanged && *size == node.size && *mtime == node.mtime;
                return if node.kind != NodeKind::File {
                    Step::Replace(Removal::Unlink)
                } else if trusted || (*size == 0 && node.size == 0) {
                    Step::Metadata
                } else {
                    Step::Compare
                };
            }
            NodeKind::Symlink => *link_target == node.link_target,
            NodeKind::BlockDevice | NodeKind::CharDevice => *device == node.device,
            NodeKind::Fifo => true,
            _ => false,
        };
    if same { Step::Metadata } else { Step::Replace(Removal::Unlink) }
}

/// What to do with an existing file, given its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Every byte is correct.
    Nothing,
    /// Write the differing parts into it.
    InPlace,
    /// It has other names, whose content must not change: create a new file.
    Anew,
}

/// Decides about a file by the comparison of its blobs (`matches`, in order).
pub fn repair(node: &Node, size: u64, links: u64, matches: &[bool]) -> Repair {
    let complete =
        size == node.size && matches.len() == node.blobs().len() && matches.iter().all(|same| *same);
    match (complete, links) {
        (true, _) => Repair::Nothing,
        (false, 0 | 1) => Repair::InPlace,
        (false, _) => Repair::Anew,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn node(kind: NodeKind) -> Node {
        Node {
            name: b"n".to_vec(),
            kind,
            size: 10,
            mtime: NodeTime::new(100, 5),
            link_target: b"there".to_vec(),
            device: 7,
            ..Node::default()
        }
    }

    fn present(kind: NodeKind) -> Existing {
        let same = node(kind.clone());
        Existing::Present {
            kind,
            size: same.size,
            mtime: same.mtime,
            links: 1,
            link_target: same.link_target,
            device: same.device,
        }
    }

    const KINDS: [NodeKind; 6] = [
        NodeKind::File,
        NodeKind::Directory,
        NodeKind::Symlink,
        NodeKind::Fifo,
        NodeKind::CharDevice,
        NodeKind::BlockDevice,
    ];

    #[test]
    fn whatever_is_missing_is_made() {
        for kind in KINDS {
            for overwrite in [Overwrite::Always, Overwrite::IfChanged, Overwrite::IfNewer, Overwrite::Never] {
                assert_eq!(decide(&node(kind.clone()), &Existing::Missing, overwrite, false), Step::Create);
            }
        }
    }

    #[test]
    fn another_kind_is_replaced_and_a_full_directory_only_with_deletion() {
        for wanted in KINDS {
            for there in KINDS.into_iter().filter(|there| *there != wanted) {
                let step = |delete| {
                    decide(&node(wanted.clone()), &present(there.clone()), Overwrite::Always, delete)
                };
                let expected = |delete| match (&there, delete) {
                    (NodeKind::Directory, true) => Removal::Tree,
                    (NodeKind::Directory, false) => Removal::EmptyDirectory,
                    _ => Removal::Unlink,
                };
                assert_eq!(step(false), Step::Replace(expected(false)), "{wanted:?} over {there:?}");
                assert_eq!(step(true), Step::Replace(expected(true)), "{wanted:?} over {there:?}");
            }
        }
    }

    #[rstest]
    #[case(Overwrite::Always, 10, 100, Step::Compare)]
    #[case(Overwrite::IfChanged, 10, 100, Step::Metadata)]
    #[case(Overwrite::IfChanged, 11, 100, Step::Compare)]
    #[case(Overwrite::IfChanged, 10, 101, Step::Compare)]
    #[case(Overwrite::IfNewer, 10, 99, Step::Compare)]
    #[case(Overwrite::IfNewer, 10, 100, Step::Skip)]
    #[case(Overwrite::IfNewer, 10, 101, Step::Skip)]
    #[case(Overwrite::Never, 11, 1, Step::Skip)]
    fn files_follow_the_overwrite_option(
        #[case] overwrite: Overwrite,
        #[case] there: u64,
        #[case] seconds: i64,
        #[case] step: Step,
    ) {
        let existing = Existing::Present {
            kind: NodeKind::File,
            size: there,
            mtime: NodeTime::new(seconds, 5),
            links: 1,
            link_target: Vec::new(),
            device: 0,
        };
        assert_eq!(decide(&node(NodeKind::File), &existing, overwrite, true), step);
    }

    #[test]
    fn the_same_link_device_or_pipe_is_kept_and_another_replaced() {
        for kind in [NodeKind::Symlink, NodeKind::CharDevice, NodeKind::BlockDevice, NodeKind::Fifo] {
            let wanted = node(kind.clone());
            assert_eq!(decide(&wanted, &present(kind.clone()), Overwrite::Always, false), Step::Metadata);
            let other = Existing::Present {
                kind: kind.clone(),
                size: 0,
                mtime: NodeTime::default(),
                links: 1,
                link_target: b"elsewhere".to_vec(),
                device: 8,
            };
            let expected =
                if kind == NodeKind::Fifo { Step::Metadata } else { Step::Replace(Removal::Unlink) };
            assert_eq!(decide(&wanted, &other, Overwrite::Always, false), expected);
        }
    }

    #[test]
    fn never_leaves_even_a_file_in_the_place_of_a_directory() {
        let step = decide(&node(NodeKind::Directory), &present(NodeKind::File), Overwrite::Never, true);
        assert!(matches!(step, Step::Conflict(_)));
    }

    #[rstest]
    #[case(10, 1, &[true, true], Repair::Nothing)]
    #[case(10, 3, &[true, true], Repair::Nothing)]
    #[case(11, 1, &[true, true], Repair::InPlace)]
    #[case(10, 1, &[true, false], Repair::InPlace)]
    #[case(10, 1, &[], Repair::InPlace)]
    #[case(10, 2, &[true, false], Repair::Anew)]
    fn content_decides_what_is_repaired(
        #[case] size: u64,
        #[case] links: u64,
        #[case] matches: &[bool],
        #[case] expected: Repair,
    ) {
        let blob = crate::id::BlobId(crate::id::Id([0; 32]));
        let node = Node { content: Some(vec![blob; 2]), ..node(NodeKind::File) };
        assert_eq!(repair(&node, size, links, matches), expected);
    }
}
