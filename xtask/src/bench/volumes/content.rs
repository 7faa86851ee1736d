//! The content of the volumes: takes directories and always writes the same files: half of the bytes in one large file,
//! the rest in files of 250 kB; half of all bytes are compressible text, half are random. No two volumes share data.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use crate::bench::content::{Kind, Language, seed};
use crate::run;

/// The size of a small file, and of the pieces of text and random bytes in the large file.
const PIECE: u64 = 250_000;
const LARGE: &str = "large";

pub(in crate::bench) struct Content {
    /// The number of pieces of the large file, which is also the number of small files.
    pieces: u64,
    language: Language,
}

impl Content {
    /// Content of `megabytes` in each volume.
    pub(in crate::bench) fn new(megabytes: u32) -> Self {
        Self { pieces: u64::from(megabytes) * 1_000_000 / PIECE / 2, language: Language::new() }
    }

    /// Writes all files.
    pub(in crate::bench) fn fill(&self, directories: &[PathBuf]) -> Result<()> {
        for_each(directories, |volume, directory| {
            let large = File::create(directory.join(LARGE))
                .with_context(|| format!("cannot write into {}", directory.display()))?;
            for number in 0..self.pieces {
                large.write_all_at(&self.piece(&[volume, 0, number], number), number * PIECE)?;
                fs::write(small(directory, number), self.piece(&[volume, 1, number], number))?;
            }
            Ok(())
        })
    }

    /// Changes 1 % of the data: a part of the large file, and every hundredth small file.
    pub(super) fn change(&self, directories: &[PathBuf]) -> Result<()> {
        self.rewrite(directories, 2)
    }

    /// Undoes the change.
    pub(super) fn reset(&self, directories: &[PathBuf]) -> Result<()> {
        self.rewrite(directories, 0)
    }

    fn rewrite(&self, directories: &[PathBuf], version: u64) -> Result<()> {
        for_each(directories, |volume, directory| {
            let large = File::options().write(true).open(directory.join(LARGE))?;
            for number in changed(self.pieces) {
                large.write_all_at(&self.piece(&[volume, version, number], number), number * PIECE)?;
                fs::write(small(directory, number), self.piece(&[volume, version + 1, number], number))?;
            }
            Ok(())
        })
    }

    fn piece(&self, parts: &[u64], number: u64) -> Vec<u8> {
        let kind = if number.is_multiple_of(2) { Kind::Text } else { Kind::Random };
        let mut bytes = Vec::new();
        self.language.fill(kind, seed(parts), usize::try_from(PIECE).unwrap_or_default(), &mut bytes);
        bytes
    }
}

/// The numbers of the changed pieces: every hundredth, at least one.
fn changed(pieces: u64) -> impl Iterator<Item = u64> {
    (0..pieces).filter(move |number| number % 100 == 50 || *number == 0 && pieces <= 50)
}

fn small(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("small-{number:05}"))
}

/// Names and hashes of all files of each directory, without the files that restores leave for the init container.
pub(super) fn fingerprints(directories: &[PathBuf]) -> Result<Vec<String>> {
    let script = "find . -path ./.velero -prune -o -type f -print0 | sort -z | xargs -0 sha256sum";
    directories
        .iter()
        .map(|directory| run::output(Command::new("sh").args(["-c", script]).current_dir(directory)))
        .collect()
}

/// Processes two directories at a time, because generating content is slower than the disk.
fn for_each(directories: &[PathBuf], work: impl Fn(u64, &Path) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..2)
            .map(|half| {
                scope.spawn(move || {
                    let mut mine = (0_u64..).zip(directories).filter(|(volume, _)| volume % 2 == half);
                    mine.try_for_each(|(volume, directory)| work(volume, directory))
                })
            })
            .collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("writing stopped unexpectedly")))
        };
        threads.into_iter().try_for_each(ended)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(below: &Path) -> Vec<PathBuf> {
        let both = ["one", "two"].map(|name| below.join(name));
        for directory in &both {
            fs::create_dir(directory).expect("made");
        }
        both.to_vec()
    }

    fn size(directory: &Path) -> u64 {
        let files = fs::read_dir(directory).expect("there").map(|file| file.expect("there"));
        files.map(|file| file.metadata().expect("there").len()).sum()
    }

    #[test]
    fn volumes_have_their_size_and_contents_of_their_own() {
        let below = tempfile::tempdir().expect("a directory");
        let directories = directories(below.path());
        Content::new(4).fill(&directories).expect("filled");
        assert_eq!(size(&directories[0]), 4_000_000);
        let found = fingerprints(&directories).expect("readable");
        assert_ne!(found[0], found[1]);
        assert_eq!(found[0].lines().count(), 9);
    }

    #[test]
    fn a_change_changes_few_files_and_no_size_and_can_be_taken_back() {
        let below = tempfile::tempdir().expect("a directory");
        let directories = directories(below.path());
        let content = Content::new(4);
        content.fill(&directories).expect("filled");
        let before = fingerprints(&directories).expect("readable");
        content.change(&directories).expect("changed");
        let after = fingerprints(&directories).expect("readable");
        let changed = before[0].lines().zip(after[0].lines()).filter(|(one, other)| one != other).count();
        assert_eq!((changed, size(&directories[0])), (2, 4_000_000));
        content.reset(&directories).expect("reset");
        assert_eq!(fingerprints(&directories).expect("readable"), before);
    }

    #[test]
    fn a_hundredth_of_many_pieces_changes() {
        assert_eq!(changed(200).collect::<Vec<_>>(), [50, 150]);
        assert_eq!(changed(8).collect::<Vec<_>>(), [0]);
    }
}
