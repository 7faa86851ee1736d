//! Objects: a file's content or a directory. A large object is a list of parts, which is itself an object. The parts are
//! checked against the expected size before anything is read.

use serde::Deserialize;

use crate::compress;
use crate::error::{Error, Result, shown};
use crate::id::{ContentId, ObjectId};
use crate::repository::Repository;

/// The largest object that is read as a whole: a directory, or a list of parts.
pub(crate) const LARGEST_WHOLE: u64 = 512 * 1024 * 1024;
/// The most parts of one object: 1 TiB in chunks of 128 KiB.
const MOST_PARTS: usize = 8 * 1024 * 1024;
/// The largest content with a compression in itself, as format version 1 has them.
const LARGEST_COMPRESSED: u64 = 256 * 1024 * 1024;
/// Lists may name objects that are lists themselves.
const DEEPEST: u32 = 4;
const STREAM: &str = "kopia:indirect";

/// A part of an object: one content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) content: ContentId,
    pub(crate) length: u64,
    /// The content starts with the number of a compression; its plain length is `length`.
    pub(crate) compressed: bool,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    entries: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "s", default)]
    start: u64,
    #[serde(rename = "l", default)]
    length: u64,
    #[serde(rename = "o")]
    object: String,
}

/// The parts of an object, in order. They add up to `size`, if that is given, and to at most `most` bytes.
pub(crate) async fn parts(
    repository: &Repository,
    object: ObjectId,
    size: Option<u64>,
    most: u64,
) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    collect(repository, object, size, most, DEEPEST, &mut parts).await?;
    Ok(parts)
}

/// Appends the parts of an object and returns its length.
async fn collect(
    repository: &Repository,
    object: ObjectId,
    size: Option<u64>,
    most: u64,
    depth: u32,
    parts: &mut Vec<Part>,
) -> Result<u64> {
    let what = || format!("object {object}");
    let length = match object.list() {
        None => single(repository, object, size, parts).await?,
        Some(_) if depth == 0 => return Err(Error::damaged(what(), "its lists are nested too deeply")),
        Some(list) => {
            let text = Box::pin(read(repository, list, None, depth - 1)).await?;
            let list = parse(&text).map_err(|detail| Error::damaged(what(), detail))?;
            drop(text);
            let mut at = 0_u64;
            for entry in list {
                let wrong = entry.start != at || entry.length == 0 || entry.length > most.saturating_sub(at);
                if wrong || parts.len() >= MOST_PARTS {
                    return Err(Error::damaged(what(), "its parts do not add up to it"));
                }
                let part = ObjectId::parse(&entry.object)?;
                Box::pin(collect(repository, part, Some(entry.length), most, depth - 1, parts)).await?;
                at += entry.length;
            }
            at
        }
    };
    if size.is_some_and(|size| size != length) || length > most {
        let expected = size.unwrap_or(most);
        return Err(Error::damaged(what(), format!("it has {length} bytes, but {expected} were expected")));
    }
    Ok(length)
}

async fn single(
    repository: &Repository,
    object: ObjectId,
    size: Option<u64>,
    parts: &mut Vec<Part>,
) -> Result<u64> {
    let length = if object.compressed {
        // Only the content itself says how long it is; with a known size, reading verifies it.
        match size {
            Some(size) => size,
            None => read_compressed(repository, &object.content, LARGEST_COMPRESSED).await?.len() as u64,
        }
    } else {
        repository.locate(&object.content).await?.1.original.into()
    };
    if length > 0 || object.compressed {
        parts.push(Part { content: object.content, length, compressed: object.compressed });
    } else {
        // An empty file has the hash of nothing, so it need not be read.
        if !repository.matches(&object.content, b"") {
            let detail = "the index says that it is empty, but it does not have the hash of nothing";
            return Err(Error::damaged(format!("content {}", object.content), detail));
        }
    }
    Ok(length)
}

fn parse(text: &[u8]) -> std::result::Result<Vec<Entry>, String> {
    let list: List = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if list.stream != STREAM {
        return Err(format!("it is a '{}' instead of a list of parts", shown(&list.stream)));
    }
    let entries = list.entries.unwrap_or_default();
    if entries.is_empty() {
        return Err("it is a list without parts".to_owned());
    }
    Ok(entries)
}

/// An object of at most `LARGEST_WHOLE` bytes.
pub(crate) async fn read_whole(
    repository: &Repository,
    object: ObjectId,
    size: Option<u64>,
) -> Result<Vec<u8>> {
    read(repository, object, size, DEEPEST).await
}

async fn read(repository: &Repository, object: ObjectId, size: Option<u64>, depth: u32) -> Result<Vec<u8>> {
    let mut parts = Vec::new();
    let length = collect(repository, object, size, LARGEST_WHOLE, depth, &mut parts).await?;
    let mut whole = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    for part in parts {
        whole.extend_from_slice(&read_part(repository, &part).await?);
    }
    Ok(whole)
}

/// The bytes of one part.
pub(crate) async fn read_part(repository: &Repository, part: &Part) -> Result<Vec<u8>> {
    let plain = if part.compressed {
        read_compressed(repository, &part.content, part.length).await?
    } else {
        repository.read(&part.content).await?
    };
    check(part, plain)
}

/// The plain bytes of a part whose content was read.
pub(crate) fn of_content(part: &Part, content: Vec<u8>) -> Result<Vec<u8>> {
    let plain = if part.compressed { expand(&part.content, &content, part.length)? } else { content };
    check(part, plain)
}

fn check(part: &Part, plain: Vec<u8>) -> Result<Vec<u8>> {
    if plain.len() as u64 == part.length {
        return Ok(plain);
    }
    let detail = format!("it has {} bytes, but {} were expected", plain.len(), part.length);
    Err(Error::damaged(format!("content {}", part.content), detail))
}

async fn read_compressed(repository: &Repository, id: &ContentId, most: u64) -> Result<Vec<u8>> {
    let content = repository.read(id).await?;
    expand(id, &content, most)
}

fn expand(id: &ContentId, content: &[u8], most: u64) -> Result<Vec<u8>> {
    let most = usize::try_from(most.min(LARGEST_COMPRESSED)).unwrap_or(0);
    compress::decompress_any(content, most).map_err(|problem| problem.of(|| format!("content {id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_other_kinds_or_without_parts_are_damage() {
        for text in [
            "",
            "{}",
            r#"{"stream":"kopia:directory","entries":[]}"#,
            r#"{"stream":"kopia:indirect","entries":null}"#,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        let entries =
            parse(br#"{"stream":"kopia:indirect","entries":[{"l":5,"o":"aa"},{"s":5,"l":1,"o":"bb"}]}"#);
        let entries: Vec<_> = entries.unwrap().iter().map(|entry| (entry.start, entry.length)).collect();
        assert_eq!(entries, [(0, 5), (5, 1)]);
    }

    proptest::proptest! {
        #[test]
        fn random_lists_never_panic(text in r#"[{}\[\]",:a-z0-9-]{0,80}"#) {
            let _ = parse(text.as_bytes());
        }
    }
}
