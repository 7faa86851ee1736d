//! Directories: JSON documents that list entries. Names, kinds, modes and times are checked here, so that nothing that
//! follows sees an unsafe one.

use std::collections::HashMap;

use lifeboat_repository::node::{Mode, Node, NodeKind, NodeTime};
use serde::Deserialize;

use crate::error::{Error, Result, shown};
use crate::id::ObjectId;
use crate::object;
use crate::repository::Repository;

const STREAM: &str = "kopia:directory";
/// The longest target of a symbolic link.
const LONGEST_TARGET: u64 = 4096;

/// An entry as it is stored. Zero values are left out.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawEntry {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    mode: String,
    size: u64,
    mtime: String,
    uid: u32,
    gid: u32,
    obj: String,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    entries: Option<Vec<RawEntry>>,
}

/// A file, directory or symbolic link of a snapshot.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Name, kind, mode, owner, times and size. The content is in `object`; the target of a link is not read yet.
    pub node: Node,
    pub(crate) object: Option<ObjectId>,
}

impl Entry {
    pub(crate) fn object(&self) -> Result<ObjectId> {
        let what = || format!("entry '{}'", self.node.display_name());
        self.object.ok_or_else(|| Error::damaged(what(), "it has no object"))
    }

    /// Whether it is the content of a block device: the name is the path of the device, which no file name can be.
    pub fn is_device_path(&self) -> bool {
        self.node.is_file() && self.node.name.starts_with(b"/") && !self.node.name.contains(&0)
    }
}

/// The root of a snapshot; its name is not used for anything.
pub(crate) fn root(raw: RawEntry) -> Result<Entry> {
    entry(raw)
}

/// The entries of a directory, with names that are safe and differ from each other.
pub(crate) async fn load(repository: &Repository, directory: ObjectId) -> Result<Vec<Entry>> {
    let text = object::read_whole(repository, directory, None).await?;
    let entries = parse(&text).map_err(|error| in_directory(directory, error))?;
    check_names(&entries).map_err(|error| in_directory(directory, error))?;
    Ok(distinct(entries))
}

/// The only entry of a directory that holds the content of a block device.
pub(crate) async fn load_device(repository: &Repository, directory: ObjectId) -> Result<Option<Entry>> {
    let text = object::read_whole(repository, directory, None).await?;
    let mut entries = parse(&text).map_err(|error| in_directory(directory, error))?;
    Ok(entries.pop().filter(|entry| entries.is_empty() && entry.is_device_path()))
}

/// The target of a symbolic link.
pub(crate) async fn link_target(repository: &Repository, entry: &Entry) -> Result<Vec<u8>> {
    let what = || format!("the target of link '{}'", entry.node.display_name());
    if entry.node.size > LONGEST_TARGET {
        return Err(Error::damaged(what(), format!("it has {} bytes", entry.node.size)));
    }
    let object = entry.object()?;
    let parts = object::parts(repository, object, None, LONGEST_TARGET).await?;
    let mut target = Vec::new();
    for part in &parts {
        target.extend_from_slice(&object::read_part(repository, part).await?);
    }
    if target.is_empty() || target.contains(&0) {
        return Err(Error::damaged(what(), "no link can have it"));
    }
    Ok(target)
}

fn in_directory(directory: ObjectId, error: Error) -> Error {
    match error {
        Error::Damaged { what, detail } => {
            Error::damaged(format!("directory {directory}"), format!("{what}: {detail}"))
        }
        other => other,
    }
}

fn parse(text: &[u8]) -> Result<Vec<Entry>> {
    let document: Document =
        serde_json::from_slice(text).map_err(|error| Error::damaged("its JSON", error))?;
    if document.stream != STREAM {
        return Err(Error::unsupported("a kind of directory", format!("'{}'", shown(&document.stream))));
    }
    document.entries.unwrap_or_default().into_iter().map(entry).collect()
}

fn entry(raw: RawEntry) -> Result<Entry> {
    let what = || format!("entry '{}'", shown(&raw.name));
    let kind = match raw.kind.as_str() {
        "d" => NodeKind::Directory,
        "f" => NodeKind::File,
        "s" => NodeKind::Symlink,
        other => {
            let detail = format!("'{}' of {}", shown(other), what());
            return Err(Error::unsupported("a kind of entry", detail));
        }
    };
    let mode = match raw.mode.as_str() {
        "" => 0,
        text => {
            u32::from_str_radix(text, 8).map_err(|_| Error::damaged(what(), "its mode is not a number"))?
        }
    };
    let mtime = match raw.mtime.as_str() {
        "" => NodeTime::default(),
        text => NodeTime::parse(text).ok_or_else(|| Error::damaged(what(), "its time is not one"))?,
    };
    let object = match raw.obj.as_str() {
        "" => None,
        text => Some(ObjectId::parse(text)?),
    };
    let is_directory = kind == NodeKind::Directory;
    let node = Node {
        name: raw.name.into_bytes(),
        // The kind is in a field of its own.
        mode: Mode(mode & PERMISSIONS | kind_bit(&kind)),
        size: if is_directory { 0 } else { raw.size },
        links: 1,
        kind,
        mtime,
        atime: mtime,
        ctime: mtime,
        uid: raw.uid,
        gid: raw.gid,
        ..Node::default()
    };
    Ok(Entry { node, object })
}

/// The lowest nine bits, set-uid, set-gid and sticky, in Go's numbering.
const PERMISSIONS: u32 = 0o777 | 1 << 23 | 1 << 22 | 1 << 20;

/// The bit of a kind, in Go's numbering.
fn kind_bit(kind: &NodeKind) -> u32 {
    match kind {
        NodeKind::Directory => 1 << 31,
        NodeKind::Symlink => 1 << 27,
        _ => 0,
    }
}

fn check_names(entries: &[Entry]) -> Result<()> {
    match entries.iter().find(|entry| !entry.node.has_safe_name() || entry.node.name.len() > 255) {
        None => Ok(()),
        Some(entry) => {
            let name = entry.node.name.escape_ascii().to_string();
            Err(Error::damaged("it", format!("an entry is named '{name:.80}', which no file can be")))
        }
    }
}

/// Names that were not UTF-8 became equal when kopia stored them: the second gets `~2`, and so on.
fn distinct(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut seen: HashMap<Vec<u8>, u32> = entries.iter().map(|entry| (entry.node.name.clone(), 0)).collect();
    if seen.len() == entries.len() {
        return entries;
    }
    for entry in &mut entries {
        let original = entry.node.name.clone();
        let count = seen.entry(original.clone()).or_default();
        *count += 1;
        let mut number = *count;
        while number > 1 {
            let name = [original.as_slice(), format!("~{number}").as_bytes()].concat();
            if !seen.contains_key(&name) {
                seen.insert(name.clone(), 1);
                seen.insert(original, number);
                entry.node.name = name;
                break;
            }
            number += 1;
        }
    }
    entries
}

#[cfg(test)]
mod tests;
