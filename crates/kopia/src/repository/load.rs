//! Loads the index: lists the index blobs, chooses the live ones, and reads, opens and merges them. A blob that vanishes
//! between the listing and the read was replaced by a compaction, so the listing is repeated.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};

use super::Options;
use crate::blobs::Blobs;
use crate::crypto::IV;
use crate::error::{Error, Result, blocking};
use crate::format::Format;
use crate::index::{self, Builder, Index};
use crate::live::{self, Live, Log};

/// How often a listing is repeated, with a pause that doubles.
const ATTEMPTS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The largest compaction log.
const LARGEST_LOG: u64 = 64 * 1024 * 1024;

/// The index from the live blobs.
pub(super) async fn current(blobs: &Blobs, format: &Format, options: &Options) -> Result<Index> {
    repeated(blobs, format, options, false).await
}

/// The index from all blobs, also those that were replaced: compaction merges, and drops nothing that is in use.
pub(super) async fn everything(blobs: &Blobs, format: &Format, options: &Options) -> Result<Index> {
    repeated(blobs, format, options, true).await
}

async fn repeated(blobs: &Blobs, format: &Format, options: &Options, all: bool) -> Result<Index> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        match once(blobs, format, options, all).await {
            Err(error) if error.is_not_found() && attempt < ATTEMPTS => {
                tracing::debug!(%error, attempt, "an index blob has vanished, listing again");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            outcome => return outcome,
        }
    }
    Err(Error::Cancelled)
}

async fn once(blobs: &Blobs, format: &Format, options: &Options, all: bool) -> Result<Index> {
    let live = choose(blobs, format, options, all).await?;
    let mut builder = Builder::new(format.hasher.length(), format.correction.is_some());
    let mut opening = futures::stream::iter(live.names)
        .map(|name| async move {
            let plain = open(blobs, format, &name, index::LARGEST_BLOB).await?;
            Ok::<_, Error>((name, plain))
        })
        .buffered(options.reads.max(1));
    while let Some((name, plain)) = opening.try_next().await? {
        builder = blocking(move || {
            builder.add(&name, &plain)?;
            Ok(builder)
        })
        .await?;
    }
    drop(opening);
    blocking(move || Ok(builder.finish(live.watermark))).await
}

async fn choose(blobs: &Blobs, format: &Format, options: &Options, all: bool) -> Result<Live> {
    let names = |blobs: Vec<crate::blobs::Blob>| blobs.into_iter().map(|blob| blob.name).collect::<Vec<_>>();
    if format.made.epochs {
        let names = names(blobs.list('x').await?);
        let mut live = live::of_epochs(&names);
        if all {
            live.names = live::all_of_epochs(&names);
        }
        return Ok(live);
    }
    let logs = if all { Vec::new() } else { names(blobs.list('m').await?) };
    let logs: Vec<Log> = futures::stream::iter(logs)
        .map(|name| async move {
            let text = open(blobs, format, &name, LARGEST_LOG).await?;
            serde_json::from_slice(&text)
                .map_err(|error| Error::damaged(format!("compaction log '{name}'"), error))
        })
        .buffered(options.reads.max(1))
        .try_collect()
        .await?;
    let names = names(blobs.list('n').await?);
    Ok(Live { names: live::without_epochs(&names, &logs), watermark: 0 })
}

/// A whole blob, opened with the end of the hash in its name, and verified by it.
async fn open(blobs: &Blobs, format: &Format, name: &str, most: u64) -> Result<Vec<u8>> {
    let what = format!("index blob '{name}'");
    let iv = iv(name).ok_or_else(|| Error::damaged(&*what, "its name does not end in a hash"))?;
    let sealed = blobs.get(name, most).await?;
    let format = format.clone();
    blocking(move || {
        let plain =
            format.unseal(&iv, Vec::from(sealed)).map_err(|problem| Error::damaged(&*what, problem))?;
        if !format.hasher.ends_with(&plain, &iv) {
            return Err(Error::damaged(&*what, "its bytes do not have the hash in its name"));
        }
        Ok(plain)
    })
    .await
}

/// The last 32 digits before the first hyphen.
fn iv(name: &str) -> Option<[u8; IV]> {
    let stem = name.split('-').next()?.as_bytes();
    let digits = stem.get(stem.len().checked_sub(2 * IV)?..)?;
    let mut iv = [0; IV];
    for (byte, pair) in iv.iter_mut().zip(digits.chunks(2)) {
        let text = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(text, 16).ok()?;
    }
    Some(iv)
}

#[cfg(test)]
mod tests {
    use super::iv;

    #[test]
    fn the_hash_in_a_name_is_before_the_first_hyphen() {
        let expected = Some([0xab; 16]);
        assert_eq!(iv(&format!("xn0_{}-s1-c1", "ab".repeat(16))), expected);
        assert_eq!(iv(&format!("n{}{}", "00".repeat(16), "ab".repeat(16))), expected);
        for wrong in
            ["xn0_ab-s1", "", "xn0_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "ääääääääääääääääääääääääääääääää"]
        {
            assert_eq!(iv(wrong), None, "{wrong}");
        }
    }
}
