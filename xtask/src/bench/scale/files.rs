//! Many small files, a thousand in a directory, each with different content.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

const IN_DIRECTORY: u64 = 1000;

/// Writes `count` files below `root`.
pub(super) fn write(root: &Path, count: u64) -> Result<()> {
    for number in 0..count {
        let path = path(root, number);
        if number % IN_DIRECTORY == 0 {
            fs::create_dir_all(path.parent().unwrap_or(root))?;
        }
        fs::write(&path, content(number)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Fails unless exactly these files are below `root`.
pub(super) fn compare(root: &Path, count: u64) -> Result<()> {
    for number in 0..count {
        let path = path(root, number);
        let found = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(found == content(number).as_bytes(), "{} has another content", path.display());
    }
    let mut there = 0;
    for directory in fs::read_dir(root)? {
        there += fs::read_dir(directory?.path())?.count() as u64;
    }
    ensure!(there == count, "{there} files instead of {count} below {}", root.display());
    Ok(())
}

fn path(root: &Path, number: u64) -> PathBuf {
    root.join(format!("{:04}", number / IN_DIRECTORY)).join(format!("{number:07}.txt"))
}

fn content(number: u64) -> String {
    let times = usize::try_from(number % 40).unwrap_or(0) + 1;
    format!("file {number}\n").repeat(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_changed_or_too_much_is_found() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path();
        write(root, 1500).expect("written");
        compare(root, 1500).expect("equal");
        assert!(compare(root, 1501).is_err());
        assert!(compare(root, 1499).is_err());
        fs::write(path(root, 7), "file 8").expect("written");
        assert!(compare(root, 1500).is_err());
    }
}
