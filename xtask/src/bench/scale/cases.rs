//! What is measured: each case makes its data, runs the commands and compares what was restored.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::files::{self, Files};
use super::proof::{Proof, Row};
use super::volume::{self, Filling};

const IN_DIRECTORY: u64 = 1000;
/// How many files change between two backups of a large directory.
const CHANGED: u64 = 1000;
/// Holes of a file are believed if it has not changed for 30 seconds.
const SETTLED: Duration = Duration::from_secs(31);
/// 1 GiB.
const HUGE_LIMIT_MB: f64 = 1073.0;
/// One pack in this many is lost before the index is repaired: about a dozen of each index file.
const ONE_PACK_IN: usize = 100;

#[derive(Clone, Copy)]
pub(super) enum Case {
    /// A number of files, in many directories.
    Files(u64),
    /// A number of files in one directory.
    Directory(u64),
    /// A number of files in one directory, which may use more memory.
    HugeDirectory(u64),
    /// Gigabytes of a volume.
    Volume(u64),
    /// Gigabytes of a file that is nearly only a hole.
    Sparse(u64),
    /// A number of blobs in the index.
    Index(u64),
}

impl Case {
    pub(super) fn size(self) -> u64 {
        let (Self::Files(size)
        | Self::Directory(size)
        | Self::HugeDirectory(size)
        | Self::Volume(size)
        | Self::Sparse(size)
        | Self::Index(size)) = self;
        size
    }

    pub(super) fn run(self, proof: &Proof<'_>) -> Result<Vec<Row>> {
        match self {
            Self::Files(count) => many_files(proof, count),
            Self::Directory(count) => one_directory(proof, count),
            Self::HugeDirectory(count) => one_directory(&proof.limited_to(HUGE_LIMIT_MB), count),
            Self::Volume(gigabytes) => volume(proof, gigabytes, Filling::VOLUME),
            Self::Sparse(gigabytes) => volume(proof, gigabytes, Filling::SPARSE),
            Self::Index(blobs) => large_index(proof, blobs),
        }
    }
}

fn many_files(proof: &Proof<'_>, count: u64) -> Result<Vec<Row>> {
    let source = proof.work.join("files");
    let files = Files { count, in_directory: IN_DIRECTORY, changed: 0 };
    files::write(&source, files)?;
    let first = proof.backup(&source, format!("first backup of {count} files"))?;
    let second = proof.backup(&source, "the same again".to_owned())?;
    let (restored, third) = proof.restore(&source, &[], format!("restore of {count} files"))?;
    files::compare(&restored, files)?;
    Ok(vec![first, second, third])
}

fn one_directory(proof: &Proof<'_>, count: u64) -> Result<Vec<Row>> {
    let source = proof.work.join("files");
    let files = Files { count, in_directory: count, changed: 0 };
    files::write(&source, files)?;
    let mut rows = vec![proof.backup(&source, format!("first backup of a directory with {count} files"))?];
    let files = Files { changed: CHANGED.min(count), ..files };
    files::change(&source, files)?;
    rows.push(proof.backup(&source, format!("second backup, {} of them changed", files.changed))?);
    rows.push(proof.measured("check", &[], "check of both snapshots".to_owned())?);
    let (restored, row) =
        proof.restore(&source, &[], format!("restore of a directory with {count} files"))?;
    rows.push(row);
    files::compare(&restored, files)?;
    rows.push(proof.measured("prune", &["--grace", "0"], "prune with both snapshots".to_owned())?);
    proof.quietly("forget", &["--keep-last", "1"])?;
    let thorough = ["--grace", "0", "--max-unused", "0"];
    rows.push(proof.measured("prune", &thorough, "prune of the first".to_owned())?);
    proof.quietly("check", &["--read-data"])?;
    Ok(rows)
}

fn volume(proof: &Proof<'_>, gigabytes: u64, filling: Filling) -> Result<Vec<Row>> {
    let source = proof.work.join("volume");
    fs::create_dir(&source)?;
    let written = volume::write(&source.join("disk"), gigabytes, filling)?;
    thread::sleep(SETTLED);
    let size = format!("{gigabytes} GB with {} MB in it", written / 1_000_000);
    let first = proof.backup(&source, format!("first backup of a file of {size}"))?;
    let second = proof.backup(&source, "the same again".to_owned())?;
    let (restored, third) = proof.restore(&source, &["--sparse"], format!("restore of {size}"))?;
    volume::compare(&source.join("disk"), &restored.join("disk"))?;
    proof.restic(&["check", "--read-data"])?;
    proof.restic(&["ls", "--long", "latest"])?;
    Ok(vec![first, second, third])
}

fn large_index(proof: &Proof<'_>, blobs: u64) -> Result<Vec<Row>> {
    proof.fill_index(blobs)?;
    let source = proof.work.join("files");
    let files = Files { count: 1000, in_directory: IN_DIRECTORY, changed: 0 };
    files::write(&source, files)?;
    let mut rows = vec![proof.backup(&source, format!("backup of 1000 files beside {blobs} blobs"))?];
    let (restored, row) = proof.restore(&source, &[], "their restore".to_owned())?;
    rows.push(row);
    files::compare(&restored, files)?;
    let work = format!("repair index of {blobs} blobs, nothing to repair");
    rows.push(proof.measured("repair index", &[], work)?);
    let lost = lose_packs(proof)?;
    let work = format!("repair index of {blobs} blobs, {lost} packs lost: every index file is rewritten");
    rows.push(proof.measured("repair index", &[], work)?);
    Ok(rows)
}

/// Removes packs that are not those of the backup, which are smaller.
fn lose_packs(proof: &Proof<'_>) -> Result<usize> {
    let mut packs: Vec<PathBuf> = Vec::new();
    for directory in fs::read_dir(proof.repository().join("data"))? {
        for pack in fs::read_dir(directory?.path())? {
            let pack = pack?;
            if pack.metadata()?.len() > 8 << 20 {
                packs.push(pack.path());
            }
        }
    }
    packs.sort_unstable();
    let lost = packs.iter().step_by(ONE_PACK_IN);
    lost.clone().try_for_each(fs::remove_file)?;
    Ok(lost.count())
}
