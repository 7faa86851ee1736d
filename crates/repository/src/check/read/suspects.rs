//! Reads the packs that failed the first pass again in detail: blob by blob, by the index, so that it is known what
//! is lost and what is not. A pack that is fine now had a read error, which is reported as a hint.

use std::collections::HashMap;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::super::index::full_message;
use super::super::packs::KnownPack;
use super::super::report::{ErrorKind, HintKind, Report};
use super::{compare_with_index, decode, mismatch};
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::Id;
use crate::pack::PackedBlob;

/// The number of packs whose index entries are in memory at a time.
const BATCH: usize = 256;
/// The largest pack that is read into memory; no program writes larger ones.
const LARGEST: u64 = 512 * 1024 * 1024;
/// How many problems of one pack are listed.
const LISTED: usize = 20;

pub(super) async fn look_again(
    reader: &BlobReader,
    suspects: &[KnownPack],
    report: &Report,
    cancel: &CancellationToken,
) -> Result<()> {
    for batch in suspects.chunks(BATCH) {
        let mut blobs: HashMap<u32, Vec<PackedBlob>> =
            batch.iter().map(|pack| (pack.number, Vec::new())).collect();
        reader.index().for_each(&mut |entry| {
            if let Some(blobs) = blobs.get_mut(&entry.pack_number) {
                blobs.push(PackedBlob {
                    kind: entry.kind,
                    id: entry.id,
                    offset: entry.location.offset,
                    length: entry.location.length,
                    uncompressed_length: entry.location.uncompressed_length,
                });
            }
            Ok(())
        })?;
        for pack in batch {
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let blobs = blobs.remove(&pack.number).unwrap_or_default();
            look(reader, pack, &blobs, report).await?;
        }
    }
    Ok(())
}

async fn look(reader: &BlobReader, pack: &KnownPack, blobs: &[PackedBlob], report: &Report) -> Result<()> {
    let object = format!("pack {}", pack.id);
    if pack.size > LARGEST {
        report.broken_pack(pack.id);
        report.missing_pack(pack.id);
        let message = format!("it is damaged, and too large to be examined ({} bytes)", pack.size);
        report.error(ErrorKind::PackContent, object, message);
        return Ok(());
    }
    let content = match reader.repository().load_raw(FileKind::Pack, pack.id.0).await {
        Ok(content) => content,
        Err(error) => {
            // Not reported as broken: it may be a problem of the store alone.
            report.missing_pack(pack.id);
            report.error(ErrorKind::PackContent, object, full_message(&error));
            return Ok(());
        }
    };
    let mut problems = Vec::new();
    if let Err(error) = header(reader, pack).await {
        problems.push(full_message(&error));
    }
    let (worker, id, list) = (reader.clone(), pack.id, blobs.to_vec());
    let work = move || content_problems(&worker, id, &list, &content);
    let (more, bad) = tokio::task::spawn_blocking(work).await.map_err(|_| Error::Cancelled)?;
    problems.extend(more);
    for blob in bad {
        report.bad_copy(pack.id, blob.kind, blob.id);
    }
    if problems.is_empty() {
        report.hint(HintKind::UnsteadyRead, object, "it could only be read at the second attempt");
        return Ok(());
    }
    report.broken_pack(pack.id);
    let count = problems.len();
    problems.truncate(LISTED);
    if count > LISTED {
        problems.push(format!("and {} more", count - LISTED));
    }
    report.error(ErrorKind::PackContent, object, problems.join("; "));
    Ok(())
}

async fn header(reader: &BlobReader, pack: &KnownPack) -> Result<()> {
    let listed = reader.repository().load_pack_header(pack.id, pack.size).await?;
    compare_with_index(reader, pack, &listed)
}

/// What is wrong with the content, and which blobs are lost.
fn content_problems(
    reader: &BlobReader,
    pack: crate::id::PackId,
    blobs: &[PackedBlob],
    content: &Bytes,
) -> (Vec<String>, Vec<PackedBlob>) {
    let (mut problems, mut bad) = (Vec::new(), Vec::new());
    if Id::of(content) != pack.0 {
        problems.push(mismatch(pack).to_string());
    }
    let mut plain = Vec::new();
    for blob in blobs {
        let (from, length) = (blob.offset as usize, blob.length as usize);
        let sealed = content.get(from..).and_then(|rest| rest.get(..length));
        let outcome = match sealed {
            Some(sealed) => decode(reader, pack, blob, &mut sealed.to_vec(), &mut plain),
            None => Err(Error::damaged(format!("blob {}", blob.id), "the pack ends before it")),
        };
        if let Err(error) = outcome {
            problems.push(full_message(&error));
            bad.push(*blob);
        }
    }
    (problems, bad)
}
