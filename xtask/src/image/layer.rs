//! The file tree of an image as a reproducible tar: takes files and directories in any order and returns the same bytes
//! for the same content. `lifeboat.rs` fills it.
use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};

/// The time stamp of every entry: 2024-01-01, passed to Debian's tools in `SOURCE_DATE_EPOCH`.
pub(super) const EPOCH: u64 = 1_704_067_200;

/// Numeric user and group.
#[derive(Clone, Copy)]
pub(super) struct Owner(pub(super) u64);

pub(super) const ROOT: Owner = Owner(0);

enum Node {
    Directory { mode: u32, owner: Owner },
    File { mode: u32, content: Vec<u8> },
}

/// Paths are relative to the root of the image, without a leading slash.
#[derive(Default)]
pub(super) struct Tree(BTreeMap<String, Node>);

impl Tree {
    pub(super) fn directory(&mut self, path: &str, mode: u32, owner: Owner) {
        self.parents(path);
        self.0.insert(path.to_owned(), Node::Directory { mode, owner });
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        self.parents(path);
        self.0.insert(path.to_owned(), Node::File { mode, content });
    }

    /// Every directory has its own entry: the attributes that a runtime gives a missing one are not reproducible.
    fn parents(&mut self, path: &str) {
        for (index, _) in path.match_indices('/') {
            let parent = path[..index].to_owned();
            self.0.entry(parent).or_insert(Node::Directory { mode: 0o755, owner: ROOT });
        }
    }

    /// Sorted by path, one time stamp; files of equal content and mode become hard links to the first of them.
    pub(super) fn to_tar(&self) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        let mut seen: HashMap<(u32, &[u8]), &str> = HashMap::new();
        for (path, node) in &self.0 {
            let mut header = tar::Header::new_ustar();
            let written = match node {
                Node::Directory { mode, owner } => {
                    stamp(&mut header, tar::EntryType::Directory, *mode, *owner, 0);
                    tar.append_data(&mut header, format!("{path}/"), std::io::empty())
                }
                Node::File { mode, content } => {
                    if let Some(first) = seen.get(&(*mode, content.as_slice())) {
                        stamp(&mut header, tar::EntryType::Link, *mode, ROOT, 0);
                        tar.append_link(&mut header, path, first)
                    } else {
                        seen.insert((*mode, content), path);
                        stamp(&mut header, tar::EntryType::Regular, *mode, ROOT, content.len() as u64);
                        tar.append_data(&mut header, path, content.as_slice())
                    }
                }
            };
            written.with_context(|| format!("cannot add {path} to the image"))?;
        }
        tar.into_inner().context("cannot finish the layer")
    }
}

/// Sets what every entry has; nothing in it depends on the machine.
pub(super) fn stamp(header: &mut tar::Header, kind: tar::EntryType, mode: u32, owner: Owner, size: u64) {
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner.0);
    header.set_gid(owner.0);
    header.set_mtime(EPOCH);
    header.set_size(size);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_adding_does_not_show() {
        let mut one = Tree::default();
        one.file("etc/a", 0o644, b"same".to_vec());
        one.file("etc/b", 0o644, b"same".to_vec());
        let mut two = Tree::default();
        two.file("etc/b", 0o644, b"same".to_vec());
        two.file("etc/a", 0o644, b"same".to_vec());
        assert_eq!(one.to_tar().unwrap(), two.to_tar().unwrap());
    }

    #[test]
    fn equal_files_are_stored_once_and_parents_come_first() {
        let mut tree = Tree::default();
        tree.file("usr/share/zoneinfo/UTC", 0o644, b"TZif".to_vec());
        tree.file("usr/share/zoneinfo/Etc/UTC", 0o644, b"TZif".to_vec());
        let tar = tree.to_tar().unwrap();
        let kinds: Vec<_> = tar::Archive::new(tar.as_slice())
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.path().unwrap().display().to_string(), entry.header().entry_type())
            })
            .collect();
        let directory = tar::EntryType::Directory;
        assert_eq!(
            kinds,
            [
                ("usr/".to_owned(), directory),
                ("usr/share/".to_owned(), directory),
                ("usr/share/zoneinfo/".to_owned(), directory),
                ("usr/share/zoneinfo/Etc/".to_owned(), directory),
                ("usr/share/zoneinfo/Etc/UTC".to_owned(), tar::EntryType::Regular),
                ("usr/share/zoneinfo/UTC".to_owned(), tar::EntryType::Link),
            ]
        );
    }
}
