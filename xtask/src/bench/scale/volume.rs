//! A disk of a virtual machine, say: one large file, most of which is holes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::bench::content::{BLOCK, Kind, Language, seed};

const GIGABYTE: u64 = 1_000_000_000;
/// Blocks with content in each gigabyte, in a row.
const FILLED: u64 = 60;

/// Writes a file of so many gigabytes; gives how many bytes are content.
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

/// Whether the restored file has the same bytes, and holes where the other one has.
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
