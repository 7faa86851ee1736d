//! Everything that is parsed from a repository, as functions that take any bytes: for fuzzing (see `fuzz/`) and for
//! property tests. None may panic or allocate memory because of a claimed size; and whatever can be parsed must be
//! the same after it was written again.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blobs;
use crate::chunker::{Polynomial, Tables};
use crate::config::{Config, Version};
use crate::crypto::{Key, Material};
use crate::id::{BlobId, BlobKind, Id, PackId};
use crate::index::{Index, IndexFile, IndexedPack, Location};
use crate::keys::KeyFile;
use crate::lock::LockFile;
use crate::node::{Node, TreeBuilder, parse_tree};
use crate::pack;
use crate::snapshot::Snapshot;

/// A function of this module by its name, and valid inputs.
pub struct Target {
    pub name: &'static str,
    pub parse: fn(&[u8]),
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All functions.
pub const TARGETS: [Target; 5] = [
    Target { name: "config", parse: config, seeds: config_seeds },
    Target { name: "index", parse: index, seeds: index_seeds },
    Target { name: "pack", parse: pack, seeds: pack_seeds },
    Target { name: "snapshot", parse: snapshot, seeds: snapshot_seeds },
    Target { name: "tree", parse: tree, seeds: tree_seeds },
];

/// The decrypted config.
pub fn config(bytes: &[u8]) {
    let Ok(config) = Config::parse(bytes) else { return };
    let _ = Tables::new(Polynomial(config.chunker_polynomial));
    assert_eq!(Config::parse(&config.json()).ok(), Some(config));
}

/// A decrypted index file, and looking up its blobs.
pub fn index(bytes: &[u8]) {
    let Ok(file) = IndexFile::parse(bytes) else { return };
    let json = file.json().expect("numbers and strings become JSON");
    assert_eq!(IndexFile::parse(&json).ok().as_ref(), Some(&file));
    let index = Index::of_packs(&file, &std::env::temp_dir()).expect("an index that was read can be used");
    for blob in file.packs.iter().flat_map(IndexedPack::blobs) {
        let found = index.find(blob.kind, &blob.id).expect("it is in memory");
        let found = found.expect("the index names it");
        assert!(found.offset.checked_add(found.length).is_some());
    }
}

/// A pack: as it is, with an authentic header of any content, and with an authentic first blob.
pub fn pack(bytes: &[u8]) {
    let key = Key::new(Material::from_bytes(&[7; 64]));
    if let Some(last) = bytes.last_chunk::<4>()
        && let Ok(length) = pack::header_length(*last, bytes.len() as u64)
    {
        let before = bytes.len() - 4 - length as usize;
        let _ = pack::parse_header(&key, &mut bytes[before..bytes.len() - 4].to_vec(), before as u64);
    }
    let Some((before, header)) = bytes.split_first_chunk::<4>() else { return };
    let before = u64::from(u32::from_le_bytes(*before));
    if let Ok(blobs) = pack::parse_header(&key, &mut key.sealed(header), before) {
        let end = blobs.iter().try_fold(0_u32, |end, blob| {
            assert_eq!(blob.offset, end, "blobs follow each other");
            end.checked_add(blob.length)
        });
        assert_eq!(end.map(u64::from), Some(before));
    }
    let Some((claimed, content)) = header.split_first_chunk::<2>() else { return };
    let uncompressed_length = u32::from(u16::from_le_bytes(*claimed));
    let (id, pack) = (BlobId(Id::of(content)), PackId(Id::of(bytes)));
    let mut sealed = key.sealed(content);
    let length = u32::try_from(sealed.len()).unwrap_or(u32::MAX);
    let offset = Location { pack, offset: 0, length, uncompressed_length };
    let mut out = Vec::new();
    if blobs::decode(&key, Version::V2, BlobKind::Data, &id, &offset, &mut sealed, &mut out).is_ok() {
        assert_eq!(Id::of(&out), id.0, "no wrong bytes");
    } else {
        assert!(out.is_empty());
    }
}

/// A decrypted snapshot or lock, or a key: parsed by serde alone.
pub fn snapshot(bytes: &[u8]) {
    fn reads_as_written<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
        let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
        let json = |value: &T| serde_json::to_string(value).expect("what was JSON becomes JSON");
        let written = json(&value);
        let again = serde_json::from_str(&written).expect("what we write can be read");
        assert_eq!(json(&again), written);
    }
    reads_as_written::<Snapshot>(bytes);
    reads_as_written::<LockFile>(bytes);
    reads_as_written::<KeyFile>(bytes);
}

/// A decrypted tree.
pub fn tree(bytes: &[u8]) {
    let Some(written) = nodes(bytes).as_deref().and_then(written) else { return };
    let again = nodes(&written).expect("what we write can be read");
    assert_eq!(self::written(&again), Some(written));
}

fn nodes(bytes: &[u8]) -> Option<Vec<Node>> {
    let mut nodes = Vec::new();
    let outcome = parse_tree(bytes, &mut |node| {
        let _ = (node.has_safe_name(), node.display_name(), node.mode.text(), node.mode.kind());
        nodes.push(node);
        Ok(())
    });
    outcome.is_ok().then_some(nodes)
}

/// `None` if they are not sorted as in a tree.
fn written(nodes: &[Node]) -> Option<Vec<u8>> {
    let mut tree = TreeBuilder::default();
    nodes.iter().try_for_each(|node| tree.add(node)).ok()?;
    Some(tree.finish())
}

const ID: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn config_seeds() -> Vec<Vec<u8>> {
    let config = |version| Config { version, id: ID.to_owned(), chunker_polynomial: 0x003D_A335_8B4D_C173 };
    vec![config(Version::V1).json(), config(Version::V2).json()]
}

fn index_seeds() -> Vec<Vec<u8>> {
    let blob = |kind: &str, offset: u32, more: &str| {
        format!(r#"{{"id":"{ID}","type":"{kind}","offset":{offset},"length":150{more}}}"#)
    };
    let blobs = [blob("data", 0, ""), blob("tree", 150, r#","uncompressed_length":700"#)].join(",");
    let packs = [
        String::new(),
        format!(r#"{{"id":"{ID}","blobs":[{blobs}]}}"#),
        format!(r#"{{"id":"{ID}","blobs":[{blobs}]}},{{"id":"{ID}","blobs":null}}"#),
    ];
    let old = format!(r#"{{"supersedes":["{ID}"],"packs":null}}"#);
    packs
        .iter()
        .map(|packs| format!(r#"{{"packs":[{packs}]}}"#))
        .chain([old])
        .map(String::into_bytes)
        .collect()
}

fn pack_seeds() -> Vec<Vec<u8>> {
    let key = Key::new(Material::from_bytes(&[7; 64]));
    let mut builder = pack::Builder::default();
    let mut header = Vec::new();
    for (kind, compressed) in
        [(BlobKind::Data, 0_u32), (BlobKind::Tree, 0), (BlobKind::Data, 90), (BlobKind::Tree, 90)]
    {
        let (id, sealed) = (BlobId(Id::of(b"seed")), key.sealed(b"seed"));
        let added = builder.add(kind, id, &sealed, compressed);
        added.expect("a small blob fits");
        header.push(u8::from(kind == BlobKind::Tree) + 2 * u8::from(compressed > 0));
        header.extend_from_slice(&36_u32.to_le_bytes());
        if compressed > 0 {
            header.extend_from_slice(&compressed.to_le_bytes());
        }
        header.extend_from_slice(&id.0.0);
    }
    let whole = builder.finish(&key).expect("a small pack can be made").content;
    let mut frame = Vec::new();
    let plain = [b'x'; 300];
    crate::compress::compress(&plain, crate::compress::Compression::Auto, &mut frame)
        .expect("zstd compresses");
    let blob = [&[0; 4], &300_u16.to_le_bytes()[..], &frame].concat();
    vec![whole, [&(4_u32 * 36).to_le_bytes(), header.as_slice()].concat(), blob]
}

fn snapshot_seeds() -> Vec<Vec<u8>> {
    let time = "2026-11-15T19:24:22.123456789+01:00";
    let counts = "\"files_new\":1,\"files_changed\":0,\"files_unmodified\":2,\"dirs_new\":0,\"dirs_changed\":1,\
                  \"dirs_unmodified\":0,\"data_blobs\":1,\"tree_blobs\":2,\"data_added\":3,\"data_added_packed\":4,\
                  \"total_files_processed\":3,\"total_bytes_processed\":99";
    let files = [
        format!(
            r#"{{"time":"{time}","parent":"{ID}","tree":"{ID}","paths":["/a"],"hostname":"h","username":"u","uid":1,"gid":2,"excludes":["x"],"tags":["t"],"original":"{ID}","program_version":"restic 0.19.1","summary":{{"backup_start":"{time}","backup_end":"{time}",{counts}}}}}"#
        ),
        format!(
            r#"{{"time":"{time}","exclusive":true,"hostname":"h","username":"u","pid":7,"uid":1,"gid":1}}"#
        ),
        format!(
            r#"{{"created":"{time}","username":"u","hostname":"h","kdf":"scrypt","N":16,"r":1,"p":1,"salt":"AAAA","data":"AAAA"}}"#
        ),
    ];
    files.map(String::into_bytes).to_vec()
}

fn tree_seeds() -> Vec<Vec<u8>> {
    let times = r#""mtime":"2026-11-15T18:24:22.5Z","atime":"0001-01-01T00:00:00Z","ctime":"2026-11-15T19:24:22.123456789+01:00""#;
    let nodes = [
        format!(
            r#"{{"name":"a\u0026b \\\"q\\\"\\xff","type":"file","mode":420,{times},"uid":0,"gid":0,"user":"root","inode":12,"device_id":3,"size":5,"links":2,"extended_attributes":[{{"name":"user.k","value":"dg=="}}],"content":["{ID}","{ID}"]}}"#
        ),
        format!(
            r#"{{"name":"d","type":"dir","mode":2147484141,{times},"uid":1,"gid":1,"generic_attributes":{{"x":[1]}},"content":null,"subtree":"{ID}"}}"#
        ),
        format!(
            r#"{{"name":"l","type":"symlink","mode":134218239,{times},"linktarget":"�","linktarget_raw":"/w==","content":null,"error":"e"}}"#
        ),
        format!(r#"{{"name":"z","type":"chardev","device":1281,{times}}}"#),
    ];
    let trees = [
        r#"{"nodes":null}"#.to_owned(),
        r#"{"nodes":[],"x":{}}"#.to_owned(),
        format!(r#"{{"nodes":[{}]}}"#, nodes.join(",")),
    ];
    trees.into_iter().map(String::into_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index as Offset;

    /// A mutation of a seed.
    #[derive(Debug, Clone)]
    enum Change {
        Flip(Offset, u8),
        Cut(Offset),
        Remove(Offset, u8),
        Insert(Offset, Vec<u8>),
        Repeat(Offset, u8),
    }

    impl Change {
        fn apply(&self, bytes: &mut Vec<u8>) {
            let at = |offset: &Offset, bytes: &[u8]| offset.index(bytes.len() + 1);
            let end = |from: usize, length: u8, bytes: &[u8]| (from + usize::from(length)).min(bytes.len());
            match self {
                Self::Flip(offset, bits) if !bytes.is_empty() => {
                    let at = offset.index(bytes.len());
                    bytes[at] ^= bits;
                }
                Self::Flip(..) => {}
                Self::Cut(offset) => bytes.truncate(at(offset, bytes)),
                Self::Remove(offset, length) => {
                    let from = at(offset, bytes);
                    bytes.drain(from..end(from, *length, bytes));
                }
                Self::Insert(offset, more) => {
                    let from = at(offset, bytes);
                    bytes.splice(from..from, more.iter().copied());
                }
                Self::Repeat(offset, length) => {
                    let from = at(offset, bytes);
                    bytes.extend_from_within(from..end(from, *length, bytes));
                }
            }
        }
    }

    const FRAGMENTS: [&str; 13] = [
        "\"",
        "\\",
        "{",
        "[",
        "]}",
        ",",
        "null",
        "-1",
        "1e999",
        "4294967295",
        "18446744073709551616",
        "\\u0000",
        "\\ud800",
    ];

    /// Bytes, and fragments of the parsed formats.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let fragment =
            proptest::sample::select(&FRAGMENTS[..]).prop_map(|fragment| fragment.as_bytes().to_vec());
        prop_oneof![fragment, proptest::collection::vec(any::<u8>(), 0..9)]
    }

    fn change() -> impl Strategy<Value = Change> {
        let offset = any::<Offset>;
        prop_oneof![
            (offset(), 1_u8..).prop_map(|(offset, bits)| Change::Flip(offset, bits)),
            offset().prop_map(Change::Cut),
            (offset(), any::<u8>()).prop_map(|(offset, length)| Change::Remove(offset, length)),
            (offset(), piece()).prop_map(|(offset, bytes)| Change::Insert(offset, bytes)),
            (offset(), any::<u8>()).prop_map(|(offset, length)| Change::Repeat(offset, length)),
        ]
    }

    #[rstest::rstest]
    #[case("config", |seed: &[u8]| Config::parse(seed).is_ok())]
    #[case("index", |seed: &[u8]| IndexFile::parse(seed).is_ok())]
    #[case("snapshot", |seed: &[u8]| serde_json::from_slice::<Snapshot>(seed).is_ok()
        || serde_json::from_slice::<LockFile>(seed).is_ok()
        || serde_json::from_slice::<KeyFile>(seed).is_ok())]
    #[case("tree", |seed: &[u8]| nodes(seed).is_some_and(|nodes| written(&nodes).is_some()))]
    fn every_seed_is_understood(#[case] name: &str, #[case] understood: fn(&[u8]) -> bool) {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        for seed in (target.seeds)() {
            assert!(understood(&seed), "{}", String::from_utf8_lossy(&seed));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn any_bytes_are_parsed_without_harm(bytes: Vec<u8>) {
            for target in &TARGETS {
                (target.parse)(&bytes);
            }
        }

        #[test]
        fn what_is_almost_right_is_parsed_without_harm(
            seed: Offset,
            changes in proptest::collection::vec(change(), 0..6),
        ) {
            for target in &TARGETS {
                let seeds = (target.seeds)();
                let mut bytes = seed.get(&seeds).clone();
                for change in &changes {
                    change.apply(&mut bytes);
                }
                (target.parse)(&bytes);
            }
        }
    }
}
