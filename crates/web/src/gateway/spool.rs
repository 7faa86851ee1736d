//! Receives a file into an unnamed temporary file, or into memory if it is small, and compares its SHA-256 with its
//! name before the file becomes visible. Storage has no rename, and a client may send slowly: a file on disk needs no
//! memory, and an unnamed file disappears with its process.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout, timeout_at};

use super::refusal::Refusal;

/// Files up to this size stay in memory; larger ones are written in pieces of this size.
pub(super) const PIECE: usize = 128 * 1024;
/// How long the client may be silent, and how long it may take in all.
const SILENCE: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_mins(15);

/// A file whose content matches its name.
pub(super) enum Received {
    Small(Bytes),
    Spooled(Spooled),
}

/// A file on disk, without a name.
pub(super) struct Spooled {
    file: File,
    size: usize,
}

/// Receives `size` bytes whose SHA-256 is `name`.
pub(super) async fn receive(
    body: Body,
    size: u64,
    name: &str,
    directory: &Path,
) -> Result<Received, Refusal> {
    let deadline = Instant::now() + LONGEST;
    let receiving = receive_all(body, size, name, directory);
    timeout_at(deadline, receiving).await.unwrap_or(Err(Refusal::Incomplete))
}

async fn receive_all(body: Body, size: u64, name: &str, directory: &Path) -> Result<Received, Refusal> {
    let size = usize::try_from(size).map_err(|_| Refusal::NoSpool)?;
    let mut writer = if size <= PIECE { None } else { Some(Writer::new(directory).await?) };
    let mut chunks = body.into_data_stream();
    let mut piece = Vec::with_capacity(size.min(PIECE));
    let mut seen = 0;
    loop {
        let chunk = timeout(SILENCE, chunks.next()).await.map_err(|_| Refusal::Incomplete)?;
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(|_| Refusal::Incomplete)?;
        seen += chunk.len();
        if seen > size {
            return Err(Refusal::Incomplete);
        }
        piece.extend_from_slice(&chunk);
        if piece.len() >= PIECE
            && let Some(open) = writer.take()
        {
            let (open, empty) = open.write(piece).await?;
            (writer, piece) = (Some(open), empty);
        }
    }
    if seen != size {
        return Err(Refusal::Incomplete);
    }
    match writer {
        None if is_name_of(&Sha256::digest(&piece), name) => Ok(Received::Small(piece.into())),
        None => Err(Refusal::WrongName),
        Some(open) => {
            let (open, _) = open.write(piece).await?;
            if is_name_of(&open.hash.finalize(), name) {
                Ok(Received::Spooled(Spooled { file: open.file, size }))
            } else {
                Err(Refusal::WrongName)
            }
        }
    }
}

fn is_name_of(digest: &[u8], name: &str) -> bool {
    hex(digest) == name
}

/// The name of a file with this SHA-256.
pub(super) fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hex = String::with_capacity(64);
    for byte in digest {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// A temporary file and the hash of what was written.
struct Writer {
    file: File,
    hash: Sha256,
}

impl Writer {
    async fn new(directory: &Path) -> Result<Self, Refusal> {
        let directory = directory.to_owned();
        let file = off_thread(move || tempfile::tempfile_in(&directory)).await?;
        Ok(Self { file, hash: Sha256::new() })
    }

    /// Gives back an empty piece with the memory of this one.
    async fn write(mut self, mut piece: Vec<u8>) -> Result<(Self, Vec<u8>), Refusal> {
        off_thread(move || {
            self.hash.update(&piece);
            self.file.write_all(&piece)?;
            piece.clear();
            Ok((self, piece))
        })
        .await
    }
}

impl Spooled {
    pub(super) fn size(&self) -> u64 {
        self.size as u64
    }

    /// Reads the file into memory; its place on disk is given back.
    pub(super) async fn load(mut self) -> Result<Bytes, Refusal> {
        off_thread(move || {
            let mut content = vec![0; self.size];
            self.file.rewind()?;
            self.file.read_exact(&mut content)?;
            Ok(Bytes::from(content))
        })
        .await
    }
}

/// Runs work on files. A failure is one of this server, such as a full disk, and is logged.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the gateway cannot keep a file in the spool directory");
            Err(Refusal::NoSpool)
        }
        Err(_) => Err(Refusal::NoSpool),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn name(content: &[u8]) -> String {
        hex(&Sha256::digest(content))
    }

    async fn received(content: &[u8], size: usize, name: &str) -> Result<Bytes, Refusal> {
        let directory = tempfile::tempdir().unwrap();
        let chunks: Vec<std::io::Result<Bytes>> =
            content.chunks(10_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let body = Body::from_stream(futures::stream::iter(chunks));
        let received = receive(body, size as u64, name, directory.path()).await;
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file has no name");
        match received? {
            Received::Small(content) => Ok(content),
            Received::Spooled(spooled) => spooled.load().await,
        }
    }

    #[rstest]
    #[case::empty(0)]
    #[case::small(300)]
    #[case::one_piece(PIECE)]
    #[case::one_more(PIECE + 1)]
    #[case::several_pieces(3 * PIECE + 77)]
    #[tokio::test]
    async fn a_file_is_taken_if_its_hash_is_its_name(#[case] size: usize) {
        let content: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
        assert_eq!(received(&content, size, &name(&content)).await.unwrap(), content);
        let other = name(b"something else");
        assert_eq!(received(&content, size, &other).await, Err(Refusal::WrongName));
        assert_eq!(received(&content, size + 1, &name(&content)).await, Err(Refusal::Incomplete));
        if size > 0 {
            assert_eq!(received(&content, size - 1, &name(&content)).await, Err(Refusal::Incomplete));
        }
    }

    #[tokio::test]
    async fn a_spool_that_is_not_there_is_no_fault_of_the_client() {
        let body = Body::from(vec![0; PIECE + 1]);
        let received = receive(body, PIECE as u64 + 1, "x", Path::new("/none")).await;
        assert_eq!(received.err(), Some(Refusal::NoSpool));
    }
}
