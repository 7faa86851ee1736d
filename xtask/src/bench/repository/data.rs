//! The data that is backed up: takes the name of a set and writes its files, the same in every run; changes 1 % of them,
//! removes a third of them, and restores the original state. Called by `case`.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::bench::content::{BLOCK, Kind, Language, Random, seed};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Set {
    /// 1.2 GB in 10,008 files: 10,000 small ones and 8 of 120 MB
    Mixed,
    /// 100,000 small files, 0.6 GB
    Small,
    /// One file of 4 GB
    Large,
}

/// How a large file alternates between text and random bytes.
const STRETCH: u64 = 16;

/// A file of the set.
#[derive(Clone, Debug, PartialEq)]
struct Spec {
    path: PathBuf,
    size: u64,
    content: Content,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    All(Kind),
    Alternating,
}

/// A set on disk.
pub(super) struct Data {
    files: Vec<Spec>,
    directory: PathBuf,
    /// The directory of removed files, until they are put back.
    aside: PathBuf,
    language: Language,
}

impl Data {
    /// Writes the set below `work`. `scale` makes it smaller, to test the benchmark itself.
    pub(super) fn write(set: Set, scale: f64, work: &Path) -> Result<Self> {
        let data = Self {
            files: specs(set, scale),
            directory: work.join("data"),
            aside: work.join("aside"),
            language: Language::new(),
        };
        let half = data.files.len().div_ceil(2);
        let (first, second) = data.files.split_at(half);
        let write_all = |files: &[Spec]| files.iter().try_for_each(|file| data.write_file(file, 0));
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| write_all(second));
            write_all(first).and(beside.join().unwrap_or_else(|_| anyhow::bail!("writing data stopped")))
        })?;
        Ok(data)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The number of files and bytes, for the heading.
    pub(super) fn totals(&self) -> (usize, u64) {
        (self.files.len(), self.files.iter().map(|file| file.size).sum())
    }

    /// Changes every hundredth small file, and every hundredth block of a large one.
    pub(super) fn change(&self) -> Result<()> {
        self.write_changing(1)
    }

    /// Removes every third file; if there is only one file, its last third.
    pub(super) fn cut(&self) -> Result<()> {
        if let [only] = self.files.as_slice() {
            let file = OpenOptions::new().write(true).open(self.directory.join(&only.path))?;
            return Ok(file.set_len(cut_size(only))?);
        }
        for spec in self.files.iter().step_by(3) {
            let to = self.aside.join(&spec.path);
            fs::create_dir_all(to.parent().unwrap_or(&self.aside))?;
            fs::rename(self.directory.join(&spec.path), to)
                .with_context(|| format!("cannot move {}", spec.path.display()))?;
        }
        Ok(())
    }

    /// Restores the original content of all files; only their times differ.
    pub(super) fn put_back(&self) -> Result<()> {
        if let [only] = self.files.as_slice() {
            let blocks = cut_size(only) / BLOCK..only.size.div_ceil(BLOCK);
            self.write_blocks(only, 0, blocks)?;
        }
        for spec in self.files.iter().step_by(3) {
            let from = self.aside.join(&spec.path);
            if from.exists() {
                fs::rename(from, self.directory.join(&spec.path))?;
            }
        }
        self.write_changing(0)
    }

    fn write_changing(&self, version: u64) -> Result<()> {
        for (index, spec) in self.files.iter().enumerate() {
            let blocks = spec.size.div_ceil(BLOCK);
            if blocks > 1 {
                let first = (blocks / 2).min(50);
                for block in (first..blocks).step_by(100) {
                    self.write_blocks(spec, version, block..block + 1)?;
                }
            } else if index % 100 == 50 {
                self.write_file(spec, version)?;
            }
        }
        Ok(())
    }

    fn write_file(&self, spec: &Spec, version: u64) -> Result<()> {
        self.write_blocks(spec, version, 0..spec.size.div_ceil(BLOCK))
    }

    fn write_blocks(&self, spec: &Spec, version: u64, blocks: std::ops::Range<u64>) -> Result<()> {
        let path = self.directory.join(&spec.path);
        fs::create_dir_all(path.parent().unwrap_or(&self.directory))?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let mut bytes = Vec::new();
        for block in blocks {
            self.write_block(&file, spec, version, block, &mut bytes)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn write_block(
        &self,
        file: &File,
        spec: &Spec,
        version: u64,
        block: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        use std::os::unix::fs::FileExt;
        let offset = block * BLOCK;
        let length = usize::try_from((spec.size - offset).min(BLOCK))?;
        let kind = match spec.content {
            Content::All(kind) => kind,
            Content::Alternating if (block / STRETCH).is_multiple_of(2) => Kind::Text,
            Content::Alternating => Kind::Random,
        };
        self.language.fill(kind, seed(&[spec.seed, version, block]), length, bytes);
        Ok(file.write_all_at(bytes, offset)?)
    }
}

/// Two thirds of the size, rounded down to the start of a block.
fn cut_size(spec: &Spec) -> u64 {
    spec.size * 2 / 3 / BLOCK * BLOCK
}

fn specs(set: Set, scale: f64) -> Vec<Spec> {
    match set {
        Set::Mixed => {
            let small = small_files(100, scaled(100, scale), 5_300.0, 300_000.0);
            let large = (0..8_u64).map(|index| Spec {
                path: format!("large/{index}").into(),
                size: scaled(120_000_000, scale),
                content: Content::All(if index % 2 == 0 { Kind::Text } else { Kind::Random }),
                seed: seed(&[2, index]),
            });
            small.chain(large).collect()
        }
        Set::Small => small_files(100, scaled(1000, scale), 1_200.0, 65_536.0).collect(),
        Set::Large => vec![Spec {
            path: "volume.img".into(),
            size: scaled(4_000_000_000, scale),
            content: Content::Alternating,
            seed: seed(&[3]),
        }],
    }
}

/// Small files with sizes from `least` to `most` in a Pareto distribution: many are tiny, a few hold most of the bytes.
/// Half of the files are text.
fn small_files(directories: u64, each: u64, least: f64, most: f64) -> impl Iterator<Item = Spec> {
    let mut random = Random::new(seed(&[1, each]));
    (0..directories * each).map(move |index| Spec {
        path: format!("small/{:03}/{:04}", index / each, index % each).into(),
        size: truncated((least / random.fraction()).min(most)),
        content: Content::All(if index % 2 == 0 { Kind::Text } else { Kind::Random }),
        seed: seed(&[1, index]),
    })
}

fn scaled(number: u32, scale: f64) -> u64 {
    truncated((f64::from(number) * scale).max(1.0))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sizes of files: positive, far below 2^53
fn truncated(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn contents(data: &Data) -> BTreeMap<PathBuf, Vec<u8>> {
        let read = |file: &Spec| Some((file.path.clone(), fs::read(data.directory.join(&file.path)).ok()?));
        data.files.iter().filter_map(read).collect()
    }

    #[test]
    fn the_mixed_set_is_the_one_that_was_measured_before() {
        let files = specs(Set::Mixed, 1.0);
        let bytes: u64 = files.iter().map(|file| file.size).sum();
        assert_eq!(files.len(), 10_008);
        assert!((1_180_000_000..1_280_000_000).contains(&bytes), "{bytes}");
        assert_eq!(specs(Set::Small, 1.0).len(), 100_000);
    }

    #[test]
    fn what_was_changed_and_cut_is_put_back() {
        for set in [Set::Mixed, Set::Large] {
            let work = tempfile::tempdir().expect("a directory");
            let data = Data::write(set, 0.02, work.path()).expect("written");
            let first = contents(&data);
            data.change().expect("changed");
            let changed = contents(&data);
            let different = first.iter().filter(|(path, bytes)| changed[*path] != **bytes).count();
            assert!(different > 0 && (first.len() == 1 || different * 10 < first.len()), "{different}");
            data.cut().expect("cut");
            let left: usize = contents(&data).values().map(Vec::len).sum();
            assert!(left < changed.values().map(Vec::len).sum());
            data.put_back().expect("put back");
            assert!(contents(&data) == first);
        }
    }
}
