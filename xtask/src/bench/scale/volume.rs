//! One large file, most of which is holes: the disk image of a virtual machine, or a file that is nearly only a hole.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::bench::content::{BLOCK, Kind, Language, seed};

const GIGABYTE: u64 = 1_000_000_000;

/// Where a file has content.
#[derive(Clone, Copy)]
pub(super) struct Filling {
    /// In one gigabyte of this many.
    one_gigabyte_in: usize,
    /// The number of consecutive blocks there.
    blocks: u64,
}

impl Filling {
    pub(super) const VOLUME: Self = Self { one_gigabyte_in: 1, blocks: 60 };
    pub(super) const SPARSE: Self = Self { one_gigabyte_in: 20, blocks: 2 };
}

/// Writes a file of this size; returns the number of bytes with content.
pub(super) fn write(path: &Path, gigabytes: u64, filling: Filling) -> Result<u64> {
    let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
    file.set_len(gigabytes * GIGABYTE)?;
    let language = Language::new();
    let mut block = Vec::new();
    let mut written = 0;
    for number in (0..gigabytes).step_by(filling.one_gigabyte_in) {
        for within in 0..filling.blocks {
            block.clear();
            let kind = if within % 2 == 0 { Kind::Text } else { Kind::Random };
            language.fill(kind, seed(&[number, within]), usize::try_from(BLOCK)?, &mut block);
            file.write_all_at(&block, number * GIGABYTE + within * BLOCK)?;
            written += BLOCK;
        }
    }
    Ok(written)
}

/// Fails unless the restored file has the same bytes and about the same holes. Holes of both files are not read.
pub(super) fn compare(original: &Path, restored: &Path) -> Result<()> {
    let (one, other) = (File::open(original)?, File::open(restored)?);
    let blocks = |file: &File| file.metadata().map(|metadata| metadata.blocks());
    let (taken, restored_taken) = (blocks(&one)?, blocks(&other)?);
    ensure!(
        restored_taken <= taken + taken / 10,
        "the restored volume takes {restored_taken} blocks instead of {taken}"
    );
    let size = one.metadata()?.len();
    ensure!(other.metadata()?.len() == size, "the restored volume has another size");
    let (mut left, mut right) = (vec![0; 4 << 20], vec![0; 4 << 20]);
    let mut at = 0;
    while let Some(data) = earlier(next_data(&one, at)?, next_data(&other, at)?) {
        let count = usize::try_from((size - data).min(left.len() as u64))?;
        one.read_exact_at(&mut left[..count], data)?;
        other.read_exact_at(&mut right[..count], data)?;
        ensure!(left[..count] == right[..count], "the restored volume differs at byte {data} or after it");
        at = data + count as u64;
    }
    Ok(())
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

/// The next byte that is not in a hole.
fn next_data(file: &File, at: u64) -> Result<Option<u64>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error).context("cannot find the holes of a file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_differs_is_found_in_data_and_in_holes() {
        let work = tempfile::tempdir().expect("a directory");
        let (one, other) = (work.path().join("one"), work.path().join("other"));
        for path in [&one, &other] {
            assert_eq!(write(path, 21, Filling::SPARSE).expect("written"), 4 * BLOCK);
        }
        compare(&one, &other).expect("equal");
        let file = File::options().write(true).open(&other).expect("it exists");
        for at in [20 * GIGABYTE + 7, 20 * GIGABYTE + 500_000_000] {
            file.write_all_at(b"x", at).expect("written");
            assert!(compare(&one, &other).is_err());
            file.write_all_at(b"\0", at).expect("written");
        }
    }
}
