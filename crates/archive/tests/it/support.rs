//! Reading the golden files.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;

pub(super) fn file(key: &str) -> Bytes {
    let path = format!("{}/tests/golden/velero-1.18.3/bucket/{key}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap().into()
}

pub(super) fn plain(stored: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    MultiGzDecoder::new(stored).read_to_end(&mut plain).unwrap();
    plain
}

/// Names and contents in the order of the archive.
pub(super) fn entries(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(MultiGzDecoder::new(archive));
    let read = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), content)
    });
    read.collect()
}

/// As documents are stored.
pub(super) fn compressed(plain: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut writer, plain).unwrap();
    writer.finish().unwrap()
}
