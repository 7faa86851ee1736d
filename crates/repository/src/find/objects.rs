//! Searches for blobs, trees, and the content of packs.

use std::collections::HashSet;

use super::hits::{FoundObject, Hit};
use super::{Search, Wanted};
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, PackId};
use crate::snapshot::Snapshot;
use crate::walk::{Step, Walk};

/// The IDs that are searched for.
#[derive(Debug, Default)]
pub(super) struct Objects {
    blobs: Ids,
    trees: Ids,
}

/// Complete IDs and prefixes of IDs.
#[derive(Debug, Default)]
struct Ids {
    whole: HashSet<BlobId>,
    beginnings: Vec<String>,
}

impl Ids {
    fn parse(texts: &[String]) -> Result<Self> {
        let mut ids = Self::default();
        for text in texts {
            match text.parse() {
                Ok(id) => drop(ids.whole.insert(id)),
                Err(_) => ids.beginnings.push(prefix(text)?),
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

fn prefix(text: &str) -> Result<String> {
    let fits = (4..64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if fits {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(Error::invalid(format!("id '{text}'"), "it is not a prefix (4 digits or more) of an ID"))
    }
}

impl Objects {
    pub(super) async fn new(reader: &BlobReader, wanted: &Wanted) -> Result<Self> {
        match wanted {
            Wanted::Names { .. } => Ok(Self::default()),
            Wanted::Blobs(texts) => Ok(Self { blobs: Ids::parse(texts)?, ..Self::default() }),
            Wanted::Trees(texts) => Ok(Self { trees: Ids::parse(texts)?, ..Self::default() }),
            Wanted::Packs(texts) => Self::of_packs(reader, texts).await,
        }
    }

    /// The content of packs: from their headers, or from the index for packs that no longer exist.
    async fn of_packs(reader: &BlobReader, texts: &[String]) -> Result<Self> {
        let mut texts: Vec<String> = texts
            .iter()
            .map(|text| if text.len() == 64 { Ok(text.to_ascii_lowercase()) } else { prefix(text) })
            .collect::<Result<_>>()?;
        let mut objects = Self::default();
        for file in reader.repository().list(FileKind::Pack).await? {
            let name = file.id.to_string();
            let Some(at) = texts.iter().position(|text| name.starts_with(text)) else { continue };
            texts.remove(at);
            for blob in reader.repository().load_pack_header(PackId(file.id), file.size).await? {
                objects.insert(blob.kind, blob.id);
            }
        }
        let mut found = HashSet::new();
        if !texts.is_empty() {
            reader.index().for_each(&mut |entry| {
                let name = entry.location.pack.to_string();
                if let Some(text) = texts.iter().find(|text| name.starts_with(*text)) {
                    found.insert(text.clone());
                    objects.insert(entry.kind, entry.id);
                }
                Ok(())
            })?;
        }
        texts.retain(|text| !found.contains(text));
        if texts.is_empty() {
            Ok(objects)
        } else {
            Err(Error::NothingFound { what: format!("there is no pack '{}'", texts.join("', '")) })
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
        // The trees from the root down to the current directory.
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
