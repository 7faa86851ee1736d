//! Parses the name of an entry: an item in the preferred version, its duplicate under the version's path, an item in
//! another version, or a file about the archive.

use lifeboat_api::catalogue::{GroupResource, ItemId};

use super::SpoolError;

const TWIN: &str = "-preferredversion";

/// The longest part of a name: names in a cluster have up to 253 characters, those of a few types more.
const LONGEST_PART: usize = 1024;

/// The kind of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// `metadata/version`.
    FormatVersion,
    /// Another file about the archive.
    Metadata,
    /// An item; `version` is set if it is not the preferred version.
    Item { id: ItemId, version: Option<String> },
    /// A duplicate of an item, under the path of its version.
    Twin,
}

pub(super) fn parse(name: &str) -> Result<Entry, SpoolError> {
    let refused = |problem| Err(SpoolError::Entry { name: name.to_owned(), problem });
    if name.starts_with('/') {
        return refused("the name is absolute");
    }
    let parts: Vec<&str> = name.split('/').collect();
    if parts.contains(&"..") {
        return refused("the name leads out of the archive");
    }
    if parts.iter().any(|part| part.is_empty() || *part == "." || part.contains(['\0', '\\'])) {
        return refused("no backup writer uses such a name");
    }
    if parts.iter().any(|part| part.len() > LONGEST_PART) {
        return refused("a part of the name is longer than any name in a cluster");
    }
    match parts[..] {
        ["metadata", "version"] => Ok(Entry::FormatVersion),
        ["metadata", ..] => Ok(Entry::Metadata),
        ["resources", resource, "namespaces", namespace, file] => {
            item(name, resource, Some(namespace), file, None)
        }
        ["resources", resource, "cluster", file] => item(name, resource, None, file, None),
        ["resources", resource, version, "namespaces", namespace, file] => {
            item(name, resource, Some(namespace), file, Some(version))
        }
        ["resources", resource, version, "cluster", file] => item(name, resource, None, file, Some(version)),
        _ => refused("it is neither below metadata/ nor an item below resources/"),
    }
}

fn item(
    name: &str,
    resource: &str,
    namespace: Option<&str>,
    file: &str,
    version: Option<&str>,
) -> Result<Entry, SpoolError> {
    let object = file.strip_suffix(".json").filter(|object| !object.is_empty());
    let Some(object) = object else {
        return Err(SpoolError::Entry { name: name.to_owned(), problem: "it is not a .json file" });
    };
    if version.is_some_and(|version| version.ends_with(TWIN)) {
        return Ok(Entry::Twin);
    }
    let id = ItemId {
        resource: GroupResource::parse(resource),
        namespace: namespace.map(str::to_owned),
        name: object.to_owned(),
    };
    Ok(Entry::Item { id, version: version.map(str::to_owned) })
}
