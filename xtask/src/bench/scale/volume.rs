//! One large file, most of which is holes, like the disk image of a virtual machine.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::bench::content::{BLOCK, Kind, Language, seed};

const GIGABYTE: u64 = 1_000_000_000;
/// The number of consecutive blocks with content in each gigabyte.
const FILLED: u64 = 60;

/// Writes a file of this size; returns the number of bytes with content.
pub(super) fn write(path: &Path, gigabytes: u64) -> Result<u64> {
    let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
    file.set_len(gigabytes * GIGABYTE)?;
    let language = Language::new();
    let mut block = Vec::new();
    for number in 0..gigabytes {
        for within in 0..FILLED {
            block.clear();
            let kind = if within % 2 == 0 { Kind::Text } else { Kind::Random };
            language.fill(kind, seed(&[number, within]), usize::try_from(BLOCK)?, &mut block);
            file.write_all_at(&block, number * GIGABYTE + within * BLOCK)?;
        }
    }
    Ok(gigabytes * FILLED * BLOCK)
}

/// Fails unless the restored file has the same bytes and the same holes.
pub(super) fn compare(original: &Path, restored: &Path) -> Result<()> {
    let (mut one, mut other) = (File::open(original)?, File::open(restored)?);
    let blocks = |file: &File| file.metadata().map(|metadata| metadata.blocks());
    let (taken, restored_taken) = (blocks(&one)?, blocks(&other)?);
    ensure!(
        restored_taken <= taken + taken / 10,
        "the restored volume takes {restored_taken} blocks instead of {taken}"
    );
    ensure!(one.metadata()?.len() == other.metadata()?.len(), "the restored volume has another size");
    let (mut left, mut right) = (vec![0; 4 << 20], vec![0; 4 << 20]);
    let mut at = 0_u64;
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(());
        }
        other.read_exact(&mut right[..count])?;
        ensure!(left[..count] == right[..count], "the restored volume differs at byte {at} or after it");
        at += count as u64;
    }
}
