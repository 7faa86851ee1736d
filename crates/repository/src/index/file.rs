//! An index file: the JSON that names packs and their blobs.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, PackId};
use crate::pack::PackedBlob;

/// The content of an index file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexFile {
    #[serde(deserialize_with = "null_is_empty")]
    pub packs: Vec<IndexedPack>,
}

/// A pack and its blobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedPack {
    pub id: PackId,
    #[serde(default, deserialize_with = "null_is_empty")]
    blobs: Vec<Blob>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Blob {
    id: BlobId,
    #[serde(rename = "type")]
    kind: BlobKind,
    offset: u32,
    length: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    uncompressed_length: u32,
}

impl IndexedPack {
    pub fn new(id: PackId, blobs: &[PackedBlob]) -> Self {
        let blob = |blob: &PackedBlob| Blob {
            id: blob.id,
            kind: blob.kind,
            offset: blob.offset,
            length: blob.length,
            uncompressed_length: blob.uncompressed_length,
        };
        Self { id, blobs: blobs.iter().map(blob).collect() }
    }

    pub fn blobs(&self) -> impl ExactSizeIterator<Item = PackedBlob> {
        self.blobs.iter().map(|blob| PackedBlob {
            kind: blob.kind,
            id: blob.id,
            offset: blob.offset,
            length: blob.length,
            uncompressed_length: blob.uncompressed_length,
        })
    }
}

impl IndexFile {
    /// Parses a decrypted index file. The position of each blob must be possible: long enough for the seal, and
    /// within 4 GiB.
    pub fn parse(plain: &[u8]) -> Result<Self> {
        let damaged = |detail: String| Error::damaged("an index file", detail);
        // serde would accept a list as a struct; restic wrote lists before 2016.
        if plain.first() != Some(&b'{') {
            return Err(damaged("it is not a JSON object".to_owned()));
        }
        let file: Self = serde_json::from_slice(plain).map_err(|error| damaged(error.to_string()))?;
        for blob in file.packs.iter().flat_map(|pack| &pack.blobs) {
            if blob.length < 32 || blob.offset.checked_add(blob.length).is_none() {
                return Err(damaged(format!("blob {} has an impossible position", blob.id.short())));
            }
        }
        Ok(file)
    }

    pub fn json(&self) -> Result<Vec<u8>> {
        // The largest size of a blob's and a pack's entry; growing by doubling would need three times the memory.
        let mut json = Vec::with_capacity(32 + self.packs.len() * 96 + self.blob_count() * 160);
        serde_json::to_writer(&mut json, self).map_err(|error| Error::invalid("index", error.to_string()))?;
        Ok(json)
    }

    pub fn blob_count(&self) -> usize {
        self.packs.iter().map(|pack| pack.blobs.len()).sum()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<Vec<T>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_file_reads_as_restic_writes_it() {
        let id = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let json = format!(
            r#"{{"packs":[{{"id":"{id}","blobs":[{{"id":"{id}","type":"tree","offset":38,"length":112,"uncompressed_length":511}}]}}]}}"#
        );
        let file = IndexFile::parse(json.as_bytes()).unwrap();
        assert_eq!(file.packs[0].blobs().next().unwrap().uncompressed_length, 511);
        assert_eq!(file.json().unwrap(), json.as_bytes());
        let old = format!(r#"{{"supersedes":["{id}"],"packs":null}}"#);
        assert_eq!(IndexFile::parse(old.as_bytes()).unwrap(), IndexFile::default());
    }

    #[rstest::rstest]
    #[case("")]
    #[case("[]")]
    #[case("{}")]
    #[case(r#"{"packs":[{"id":"00","blobs":[]}]}"#)]
    fn broken_index_files_are_damage(#[case] json: &str) {
        assert!(matches!(IndexFile::parse(json.as_bytes()), Err(Error::Damaged { .. })));
    }

    #[rstest::rstest]
    #[case(0, 31)]
    #[case(u32::MAX, 32)]
    fn impossible_positions_are_damage(#[case] offset: u32, #[case] length: u32) {
        let id = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let json = format!(
            r#"{{"packs":[{{"id":"{id}","blobs":[{{"id":"{id}","type":"data","offset":{offset},"length":{length}}}]}}]}}"#
        );
        assert!(IndexFile::parse(json.as_bytes()).is_err());
    }
}
