use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use super::*;
use crate::node::{NodeKind, Xattr};
use crate::restore::tests::make::{TestSnapshot, directory, file, link, make, node};
use crate::restore::tests::noise;

/// A writer whose output can be inspected, and that fails after a number of bytes.
#[derive(Clone, Default)]
struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    limit: Option<usize>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut all = self.bytes.lock().unwrap();
        if self.limit.is_some_and(|limit| all.len() + bytes.len() > limit) {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn run(made: &TestSnapshot, path: &str, format: DumpFormat) -> Result<Vec<u8>> {
    let sink = Sink::default();
    dump(&made.repository, &made.snapshot, path, format, sink.clone(), CancellationToken::new()).await?;
    Ok(std::mem::take(&mut *sink.bytes.lock().unwrap()))
}

async fn some() -> TestSnapshot {
    let chunks: Vec<Vec<u8>> = (0..20).map(|number| noise(300_000 + number * 7, number as u64)).collect();
    let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
    let long = "long/".repeat(30);
    make(vec![
        directory(
            "d",
            vec![
                file("big", &chunks),
                file("empty", &[]),
                node("fifo", NodeKind::Fifo, 0o010_600),
                link("link", &long),
                directory("ö", vec![file("x".repeat(200), &[b"deep"])]),
            ],
        ),
        file("top", &[b"to", b"p", b"to"])
            .with(|node| node.xattrs = vec![Xattr { name: "user.x".into(), value: b"\0v".into() }]),
    ])
    .await
}

fn big() -> Vec<u8> {
    (0..20).flat_map(|number| noise(300_000 + number * 7, number as u64)).collect()
}

#[tokio::test]
async fn a_file_is_written_as_it_is() {
    let made = some().await;
    assert!(run(&made, "/d/big", DumpFormat::Raw).await.unwrap() == big());
    assert_eq!(run(&made, "top", DumpFormat::Tar).await.unwrap(), b"topto");
    assert_eq!(run(&made, "/d/empty", DumpFormat::Raw).await.unwrap(), b"");
}

#[tokio::test]
async fn a_directory_is_an_archive_that_tar_reads() {
    let made = some().await;
    for (path, prefix) in [("/", "d/"), ("/d", "d/")] {
        let bytes = run(&made, path, DumpFormat::Tar).await.unwrap();
        let mut archive = ::tar::Archive::new(bytes.as_slice());
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 1_600_000_000);
            let records: Vec<_> = entry
                .pax_extensions()
                .unwrap()
                .unwrap()
                .map(|record| record.map(|r| (r.key_bytes().to_vec(), r.value_bytes().to_vec())).unwrap())
                .collect();
            assert!(records.contains(&(b"mtime".to_vec(), b"1600000000.123456789".to_vec())));
            if name == "top" {
                assert_eq!(content, b"topto");
                assert!(records.contains(&(b"SCHILY.xattr.user.x".to_vec(), b"\0v".to_vec())));
            }
            if name.ends_with("/big") {
                assert!(content == big());
            }
            if name.ends_with("/link") {
                let target = entry.link_name_bytes().unwrap().into_owned();
                assert_eq!(target, "long/".repeat(30).as_bytes());
            }
            names.push(name);
        }
        let deep = format!("{prefix}ö/{}", "x".repeat(200));
        let inner = ["d/big", "d/empty", "d/link", "d/ö/", deep.as_str()];
        let expected: Vec<_> = match path {
            "/" => ["d/"].into_iter().chain(inner).chain(["top"]).collect(),
            _ => inner.to_vec(),
        };
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn a_zip_archive_has_everything_and_ends_with_its_directory() {
    let made = some().await;
    let bytes = run(&made, "/", DumpFormat::Zip).await.unwrap();
    let tail = &bytes[bytes.len() - 22..];
    assert_eq!(&tail[..4], b"PK\x05\x06");
    assert_eq!(u16::from_le_bytes([tail[10], tail[11]]), 7);
    let number = |at: usize| u32::from_le_bytes(tail[at..at + 4].try_into().unwrap()) as usize;
    let (length, start) = (number(12), number(16));
    assert_eq!(&bytes[start..start + 4], b"PK\x01\x02");
    assert_eq!(&bytes[start + length..start + length + 4], b"PK\x06\x06");
}

#[tokio::test]
async fn a_writer_that_breaks_ends_the_dump_with_an_error() {
    let made = some().await;
    for limit in [0, 100, 1_000_000] {
        let sink = Sink { limit: Some(limit), ..Sink::default() };
        let token = CancellationToken::new();
        let error =
            dump(&made.repository, &made.snapshot, "/", DumpFormat::Tar, sink, token).await.unwrap_err();
        assert!(matches!(error, Error::Local { .. }), "{error}");
    }
}

#[tokio::test]
async fn what_is_missing_or_no_file_is_refused() {
    let made = some().await;
    for (path, format, word) in [
        ("/nope", DumpFormat::Tar, "no '/nope'"),
        ("/d/nope/x", DumpFormat::Tar, "no '/d/nope'"),
        ("/d/link", DumpFormat::Tar, "symlink"),
        ("/d", DumpFormat::Raw, "archive format"),
    ] {
        let error = run(&made, path, format).await.unwrap_err();
        assert!(error.to_string().contains(word), "{path}: {error}");
    }
    let hostile = make(vec![file("../evil", &[b"x"])]).await;
    assert!(matches!(run(&hostile, "/", DumpFormat::Tar).await, Err(Error::Damaged { .. })));
    let twice = make(vec![file("a", &[b"x"]), file("a", &[b"y"])]).await;
    assert!(matches!(run(&twice, "/", DumpFormat::Tar).await, Err(Error::Damaged { .. })));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let sink = Sink::default();
    let outcome = dump(&made.repository, &made.snapshot, "/", DumpFormat::Tar, sink, cancelled).await;
    assert!(matches!(outcome, Err(Error::Cancelled)));
}
