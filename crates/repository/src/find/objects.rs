//! Searching for blobs, trees, and what is in packs.

use std::collections::HashSet;

use super::hits::{FoundObject, Hit};
use super::{Search, Wanted};
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, PackId};
use crate::snapshot::Snapshot;
use crate::walk::{Step, Walk};

/// The ids that are looked for.
#[derive(Debug, Default)]
pub(super) struct Objects {
    blobs: Ids,
    trees: Ids,
}

/// Ids, whole or as they begin.
#[derive(Debug, Default)]
struct Ids {
    whole: HashSet<BlobId>,
    beginnings: Vec<String>,
}

impl Ids {
    fn parse(words: &[String]) -> Result<Self> {
        let mut ids = Self::default();
        for word in words {
            match word.parse() {
                Ok(id) => drop(ids.whole.insert(id)),
                Err(_) => ids.beginnings.push(beginning(word)?),
            }
        }
        Ok(ids)
    }

    fn has(&self, id: &BlobId) -> bool {
        self.whole.contains(id)
            || (!self.beginnings.is_empty() && {
                let text = id.to_string();
                self.beginnings.iter().any(|start| text.starts_with(start))
            })
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.beginnings.is_empty()
    }
}

fn beginning(word: &str) -> Result<String> {
    let fits = (4..64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if fits {
        Ok(word.to_ascii_lowercase())
    } else {
        Err(Error::invalid(format!("id '{word}'"), "it is not the beginning (4 digits or more) of an id"))
    }
}

impl Objects {
    pub(super) async fn new(reader: &BlobReader, wanted: &Wanted) -> Result<Self> {
        match wanted {
            Wanted::Names { .. } => Ok(Self::default()),
            Wanted::Blobs(words) => Ok(Self { blobs: Ids::parse(words)?, ..Self::default() }),
            Wanted::Trees(words) => Ok(Self { trees: Ids::parse(words)?, ..Self::default() }),
            Wanted::Packs(words) => Self::of_packs(reader, words).await,
        }
    }

    /// What packs hold: by their own headers, or, of packs that are gone, by the index.
    async fn of_packs(reader: &BlobReader, words: &[String]) -> Result<Self> {
        let mut words: Vec<String> = words
            .iter()
            .map(|word| if word.len() == 64 { Ok(word.to_ascii_lowercase()) } else { beginning(word) })
            .collect::<Result<_>>()?;
        let mut objects = Self::default();
        for file in reader.repository().list(FileKind::Pack).await? {
            let name = file.id.to_string();
            let Some(at) = words.iter().position(|word| name.starts_with(word)) else { continue };
            words.remove(at);
            for blob in reader.repository().load_pack_header(PackId(file.id), file.size).await? {
                objects.insert(blob.kind, blob.id);
            }
        }
        let mut found = HashSet::new();
        if !words.is_empty() {
            reader.index().for_each(&mut |entry| {
                let name = entry.location.pack.to_string();
                if let Some(word) = words.iter().find(|word| name.starts_with(*word)) {
                    found.insert(word.clone());
                    objects.insert(entry.kind, entry.id);
                }
                Ok(())
            })?;
        }
        words.retain(|word| !found.contains(word));
        if words.is_empty() {
            Ok(objects)
        } else {
            Err(Error::NothingFound { what: format!("there is no pack '{}'", words.join("', '")) })
        }
    }

    fn insert(&mut self, kind: BlobKind, id: BlobId) {
        let ids = if kind == BlobKind::Tree { &mut self.trees } else { &mut self.blobs };
        ids.whole.insert(id);
    }

    pub(super) async fn search(&self, search: &mut Search<'_>, snapshot: &Snapshot) -> Result<()> {
        let here = search.id;
        let found = |object_type, id, path: &[u8], parent_tree| {
            Hit::Object(FoundObject {
                object_type,
                id,
                path: String::from_utf8_lossy(path).into_owned(),
                parent_tree,
                snapshot: here,
                time: snapshot.time.clone(),
            })
        };
        if self.trees.has(&snapshot.tree) {
            (search.each)(found("tree", snapshot.tree, b"/", None))?;
        }
        let mut walk = match Walk::start(search.reader, b"/", &snapshot.tree, search.cancel).await {
            Ok(walk) => walk,
            Err(error) => return search.unreadable(snapshot.tree, error),
        };
        // The trees from the root down to where the walk is.
        let mut parents = vec![snapshot.tree];
        while let Some(step) = walk.step().await? {
            match step {
                Step::Enter { path, node } => {
                    if let (true, Some(tree)) = (node.is_directory(), node.subtree) {
                        if self.trees.has(&tree) {
                            (search.each)(found("tree", tree, &path, None))?;
                        }
                        parents.push(tree);
                    } else if node.is_directory() {
                        parents.push(snapshot.tree);
                    } else if node.is_file() && !self.blobs.is_empty() {
                        let parent = parents.last().copied();
                        for blob in node.blobs().iter().filter(|blob| self.blobs.has(blob)) {
                            (search.each)(found("blob", *blob, &path, parent))?;
                        }
                    }
                }
                Step::Leave { .. } => drop(parents.pop()),
                Step::Unreadable { tree, error, .. } => {
                    parents.pop();
                    search.unreadable(tree, error)?;
                }
            }
        }
        Ok(())
    }
}
