//! Repositories with any content, for tests: writing them needs the keys of the repository.

use lifeboat_store::Store;

use super::{Options, Repository};
use crate::blobs::{self, Blobs};
use crate::crypto::IV;
use crate::format::{Format, tests::sample};
use crate::id::ContentId;
use crate::index::{Builder, parse_for_tests};

const PACK: &str = "p0123456789abcdef0123456789abcdef-s01";
const MOVED: &str = "p1123456789abcdef0123456789abcdef-s02";

/// Collects contents.
pub(crate) struct Forger {
    format: Format,
    pack: Vec<u8>,
    entries: Vec<(ContentId, u32, u32, u32, u32)>,
}

impl Forger {
    pub(crate) fn new() -> Self {
        Self { format: sample(), pack: vec![0; 32], entries: Vec::new() }
    }

    /// Adds a content; returns its ID.
    pub(crate) fn add(&mut self, prefix: &str, plain: &[u8]) -> String {
        self.add_stored(prefix, plain, plain, 0)
    }

    /// Adds a content that is stored in another form.
    pub(crate) fn add_stored(
        &mut self,
        prefix: &str,
        plain: &[u8],
        stored: &[u8],
        compression: u32,
    ) -> String {
        let length = u32::try_from(plain.len()).unwrap();
        self.add_lying(prefix, plain, stored, compression, length)
    }

    /// Adds a content whose length in the index may be wrong.
    pub(crate) fn add_lying(
        &mut self,
        prefix: &str,
        plain: &[u8],
        stored: &[u8],
        compression: u32,
        length: u32,
    ) -> String {
        let (hash, size) = self.format.hasher.hash(plain);
        let digits: String =
            hash[..size].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let text = format!("{prefix}{digits}");
        let id = ContentId::parse(&text).unwrap();
        let sealed = self.format.seal(&hash[size - IV..size], stored);
        let offset = u32::try_from(self.pack.len()).unwrap();
        self.entries.push((id, offset, u32::try_from(sealed.len()).unwrap(), length, compression));
        self.pack.extend(sealed);
        text
    }

    /// Adds a directory of entries in JSON.
    pub(crate) fn directory(&mut self, entries: &str) -> String {
        self.add("k", format!(r#"{{"stream":"kopia:directory","entries":[{entries}]}}"#).as_bytes())
    }

    /// Adds a list of parts in JSON; returns the ID of the object.
    pub(crate) fn list(&mut self, entries: &str) -> String {
        let id = self.add("x", format!(r#"{{"stream":"kopia:indirect","entries":[{entries}]}}"#).as_bytes());
        format!("I{id}")
    }

    pub(crate) async fn open(self) -> Repository {
        let store = Store::memory();
        store.put(PACK, self.pack.clone()).await.unwrap();
        self.open_on(store).await
    }

    /// A repository whose pack was replaced after its index was loaded, as by kopia's maintenance.
    pub(crate) async fn open_and_move(self) -> Repository {
        let store = Store::memory();
        store.put(MOVED, self.pack.clone()).await.unwrap();
        let index = parse_for_tests::encode(MOVED, 2, &self.entries);
        let (hash, size) = self.format.hasher.hash(&index);
        let digits: Vec<String> = hash[..size].iter().map(|byte| format!("{byte:02x}")).collect();
        let sealed = self.format.seal(&hash[size - IV..size], &index);
        store.put(&format!("xn0_{}-s1-c1", digits.concat()), sealed).await.unwrap();
        self.open_on(store).await
    }

    /// With the index in which everything is in the first pack.
    async fn open_on(self, store: Store) -> Repository {
        store.put(blobs::FORMAT, "{}").await.unwrap();
        let mut builder = Builder::new(16, false);
        builder.add("xn0_", &parse_for_tests::encode(PACK, 1, &self.entries)).unwrap();
        let blobs = Blobs::open(store).await.unwrap();
        let options = Options { reads: 2, threads: 2 };
        Repository::with(blobs, self.format, options, builder.finish(0))
    }
}
