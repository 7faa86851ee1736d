//! Reproducible random trees: the same seed gives the same changes in the same order. Used by the kill harness and the
//! tests with several writers.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{XattrFlags, lsetxattr};

/// SplitMix64: the same numbers for the same seed, everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[allow(clippy::should_implement_trait)] // an iterator that never ends would need an unwrap at each call
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `limit` - 1; 0 for a limit of 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap();
        usize::try_from(self.next() % limit).unwrap()
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Half of the time compressible bytes, half of the time incompressible ones.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mask = if self.below(2) == 0 { 0x0f0f_0000_0f00_000f } else { u64::MAX };
        let mut bytes: Vec<u8> =
            (0..length.div_ceil(8)).flat_map(|_| (self.next() & mask).to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }
}

/// Makes `steps` changes below `root`, which exists. Files are at most `largest` bytes.
pub fn change(root: &Path, random: &mut Random, steps: usize, largest: usize) {
    for _ in 0..steps {
        step(root, random, largest);
    }
}

fn step(root: &Path, random: &mut Random, largest: usize) {
    let (directories, files) = entries(root);
    let directory = random.pick(&directories).unwrap_or(&PathBuf::new()).clone();
    let new = root.join(directory).join(format!("{:08x}", random.next() >> 32));
    let Some(old) = random.pick(&files).map(|file| root.join(file)) else {
        let length = random.below(largest);
        return fs::write(new, random.bytes(length)).unwrap();
    };
    match random.below(12) {
        0 | 1 => {
            let length = random.below(largest);
            fs::write(new, random.bytes(length)).unwrap();
        }
        2 | 3 => overwrite(&old, random),
        4 => fs::remove_file(old).unwrap(),
        5 => fs::create_dir(new).unwrap(),
        6 => fs::rename(old, new).unwrap(),
        7 => symlink(old.file_name().unwrap(), new).unwrap(),
        8 => fs::hard_link(old, new).unwrap(),
        9 => {
            let mode = [0o600, 0o644, 0o755, 0o4711][random.below(4)];
            fs::set_permissions(old, fs::Permissions::from_mode(mode)).unwrap();
        }
        10 => {
            let moment =
                Duration::new(random.next() >> 34, u32::try_from(random.below(1_000_000_000)).unwrap());
            let file = File::options().write(true).open(old).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + moment).unwrap();
        }
        _ => lsetxattr(old, "user.lifeboat", &random.bytes(20), XattrFlags::empty()).unwrap(),
    }
}

fn overwrite(path: &Path, random: &mut Random) {
    let file = File::options().write(true).open(path).unwrap();
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    let (offset, some) = (random.below(length), 1 + random.below(10_000));
    file.write_all_at(&random.bytes(some), u64::try_from(offset).unwrap()).unwrap();
}

/// Directories and regular files below `root`, each sorted, because the order on disk differs from machine to machine.
fn entries(root: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut directories, mut files) = (vec![PathBuf::new()], Vec::new());
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(root.join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let path = directory.join(entry.file_name());
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                files.push(path);
            }
        }
    }
    directories.sort();
    files.sort();
    (directories, files)
}

#[cfg(test)]
mod tests {
    use super::super::Listing;
    use super::*;

    fn made(seed: u64) -> Listing {
        let root = tempfile::tempdir().unwrap();
        change(root.path(), &mut Random::new(seed), 200, 10_000);
        let mut listing = Listing::of(root.path());
        for entry in listing.0.values_mut() {
            entry.modified = (0, 0); // of this very moment
        }
        listing
    }

    #[test]
    fn a_seed_gives_the_same_tree_again_and_another_seed_another_one() {
        assert_eq!(made(1).differences(&made(1)), Vec::<String>::new());
        assert!(!made(1).differences(&made(2)).is_empty());
        assert!(made(1).0.len() > 20);
    }
}
