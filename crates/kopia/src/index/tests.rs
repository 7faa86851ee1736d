use super::*;

const PACK: &str = "p0123456789abcdef0123456789abcdef-s01";
const OTHER: &str = "q0123456789abcdef0123456789abcdef-s01";

struct Content {
    id: &'static str,
    time: u32,
    deleted: bool,
    offset: u32,
    pack: u16,
    format: u8,
}

fn content(id: &'static str, time: u32, offset: u32, pack: u16) -> Content {
    Content { id, time, deleted: false, offset, pack, format: 0 }
}

/// An index of version 2 with entries of 17 bytes.
fn version_2(contents: &[Content]) -> Vec<u8> {
    let count = u32::try_from(contents.len()).unwrap();
    let mut bytes = vec![2, 17, 0, 17];
    bytes.extend(count.to_be_bytes());
    bytes.extend(2_u32.to_be_bytes());
    bytes.push(2);
    bytes.extend(10_u32.to_be_bytes());
    for content in contents {
        bytes.extend(ContentId::parse(content.id).unwrap().key());
        bytes.extend(content.time.to_be_bytes());
        bytes.extend((content.offset | if content.deleted { 1 << 31 } else { 0 }).to_be_bytes());
        bytes.extend([0, 0, 100, 0, 0, 128]);
        bytes.extend(content.pack.to_be_bytes());
        bytes.push(content.format);
    }
    let names = u32::try_from(bytes.len() + 2 * 5 + 2 * 6).unwrap();
    for at in [names, names + 37] {
        bytes.push(37);
        bytes.extend(at.to_be_bytes());
    }
    for compression in [0_u32, 0x1101] {
        bytes.extend(compression.to_be_bytes());
        bytes.extend([3, 0]);
    }
    bytes.extend(PACK.bytes().chain(OTHER.bytes()));
    bytes
}

const A: &str = "aa0102030405060708090a0b0c0d0e0f";
const B: &str = "kaa0102030405060708090a0b0c0d0e0f";
const M: &str = "maa0102030405060708090a0b0c0d0e0f";

fn merged(blobs: &[Vec<u8>], watermark: u64) -> Index {
    let mut builder = Builder::new(16, false);
    for blob in blobs {
        builder.add("xn0_a", blob).unwrap();
    }
    builder.finish(watermark)
}

fn find(index: &Index, id: &str) -> Option<Location> {
    index.find(&ContentId::parse(id).unwrap())
}

#[test]
fn entries_are_found_with_their_packs() {
    let compressed = Content { format: 1, ..content(B, 5, 2000, 1) };
    let index = merged(&[version_2(&[content(A, 5, 1000, 0), compressed])], 0);
    let a = find(&index, A).unwrap();
    assert_eq!((a.offset, a.length, a.original, a.compression, a.time), (1000, 128, 100, 0, 15));
    assert_eq!(index.pack(a.pack).unwrap(), &Pack { name: PACK.into(), end: 1128 });
    let b = find(&index, B).unwrap();
    assert_eq!((b.offset, b.compression), (2000, 0x1101));
    assert_eq!(index.pack(b.pack).unwrap().name, OTHER);
    assert_eq!(index.with_prefix(b'k').len(), 1);
    assert!(find(&index, M).is_none());
}

#[test]
fn the_latest_entry_wins_then_a_live_one_then_the_greater_pack() {
    let deleted = Content { deleted: true, ..content(A, 7, 9, 0) };
    let index = merged(
        &[version_2(&[content(A, 5, 1, 0)]), version_2(&[content(A, 7, 2, 0)]), version_2(&[deleted])],
        0,
    );
    assert_eq!(find(&index, A).unwrap().offset, 2);
    let index = merged(&[version_2(&[content(A, 5, 1, 1)]), version_2(&[content(A, 5, 2, 0)])], 0);
    assert_eq!(find(&index, A).unwrap().offset, 1);
}

#[test]
fn deleted_contents_are_found_until_the_watermark_but_not_listed() {
    let blob = || version_2(&[Content { deleted: true, ..content(M, 90, 9, 0) }]);
    let index = merged(&[blob()], 99);
    assert!(find(&index, M).is_some());
    assert!(index.with_prefix(b'm').is_empty());
    assert!(find(&merged(&[blob()], 100), M).is_none());
}

#[test]
fn an_index_of_version_1_is_read() {
    let mut bytes = vec![1, 17, 0, 20, 0, 0, 0, 1];
    bytes.extend(ContentId::parse(A).unwrap().key());
    bytes.extend([0, 0, 0, 0, 0, 9, 1, 37]);
    bytes.extend(45_u32.to_be_bytes());
    bytes.extend(500_u32.to_be_bytes());
    bytes.extend(128_u32.to_be_bytes());
    bytes.extend(PACK.bytes());
    let a = find(&merged(&[bytes.clone()], 0), A).unwrap();
    assert_eq!((a.offset, a.length, a.original, a.time), (500, 128, 100, 9));
    let error = Builder::new(16, true).add("n1", &bytes).unwrap_err().to_string();
    assert!(error.contains("index version 1 with error correction"), "{error}");
}

#[test]
fn what_lies_outside_of_the_blob_is_damage() {
    let good = version_2(&[content(A, 5, 1000, 0)]);
    for end in 0..good.len() {
        assert!(
            Builder::new(16, false).add("xn0_a", &good[..end]).is_err() || end >= good.len() - 37,
            "cut at {end}"
        );
    }
    let error = |contents: &[Content]| {
        Builder::new(16, false).add("x", &version_2(contents)).unwrap_err().to_string()
    };
    assert!(error(&[content(A, 5, 1, 2)]).contains("pack 2"));
    assert!(error(&[Content { format: 2, ..content(A, 5, 1, 0) }]).contains("format 2"));
    assert!(
        Builder::new(32, false).add("x", &good).unwrap_err().to_string().contains("17 bytes instead of 33")
    );
    let mut other = good.clone();
    other[0] = 3;
    assert!(Builder::new(16, false).add("x", &other).unwrap_err().to_string().contains("an index version"));
}

#[test]
fn names_of_packs_cannot_lead_elsewhere() {
    for name in ["../etc", "p/../x", "x0", "", "p\0", "pA"] {
        assert!(valid_pack(name.as_bytes()).is_none(), "{name:?}");
    }
    assert_eq!(valid_pack(PACK.as_bytes()), Some(PACK));
}

proptest::proptest! {
    #[test]
    fn random_changes_are_an_error_or_an_index(
        changes in proptest::collection::vec((0_usize..120, proptest::num::u8::ANY), 1..8),
    ) {
        let mut bytes = version_2(&[content(A, 5, 1000, 0), content(B, 5, 2000, 1)]);
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let mut builder = Builder::new(16, false);
        if builder.add("x", &bytes).is_ok() {
            let index = builder.finish(0);
            proptest::prop_assert!(index.len() <= 2);
            for row in index.live_rows() {
                let found = index.row(row).map(|(_, location)| index.pack(location.pack).is_ok());
                proptest::prop_assert!(found.unwrap_or(true));
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        for version in [1, 2] {
            let mut bytes = bytes.clone();
            bytes.insert(0, version);
            let _ = Builder::new(16, false).add("x", &bytes);
        }
    }
}
