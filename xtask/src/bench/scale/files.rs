//! Many small files, each with different content.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Which files there are.
#[derive(Clone, Copy)]
pub(super) struct Files {
    pub(super) count: u64,
    /// How many are in one directory.
    pub(super) in_directory: u64,
    /// How many were changed after they were written, at equal distances.
    pub(super) changed: u64,
}

impl Files {
    fn path(self, root: &Path, number: u64) -> PathBuf {
        root.join(format!("{:04}", number / self.in_directory)).join(format!("{number:07}.txt"))
    }

    fn is_changed(self, number: u64) -> bool {
        self.changed > 0 && number.is_multiple_of(self.count / self.changed)
    }

    fn content(self, number: u64) -> String {
        let times = usize::try_from(number % 40).unwrap_or(0) + 1;
        let text = format!("file {number}\n").repeat(times);
        if self.is_changed(number) { text + "changed\n" } else { text }
    }
}

/// Writes the files below `root`.
pub(super) fn write(root: &Path, files: Files) -> Result<()> {
    for number in 0..files.count {
        let path = files.path(root, number);
        if number % files.in_directory == 0 {
            fs::create_dir_all(path.parent().unwrap_or(root))?;
        }
        fs::write(&path, files.content(number))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Writes the changed files again.
pub(super) fn change(root: &Path, files: Files) -> Result<()> {
    for number in (0..files.count).filter(|number| files.is_changed(*number)) {
        fs::write(files.path(root, number), files.content(number))?;
    }
    Ok(())
}

/// Fails unless exactly these files are below `root`.
pub(super) fn compare(root: &Path, files: Files) -> Result<()> {
    for number in 0..files.count {
        let path = files.path(root, number);
        let found = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(found == files.content(number).as_bytes(), "{} has another content", path.display());
    }
    let mut there = 0;
    for directory in fs::read_dir(root)? {
        there += fs::read_dir(directory?.path())?.count() as u64;
    }
    let count = files.count;
    ensure!(there == count, "{there} files instead of {count} below {}", root.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_changed_or_too_much_is_found() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path();
        let files = Files { count: 1500, in_directory: 1000, changed: 0 };
        write(root, files).expect("written");
        compare(root, files).expect("equal");
        assert!(compare(root, Files { count: 1501, ..files }).is_err());
        assert!(compare(root, Files { count: 1499, ..files }).is_err());
        let changed = Files { changed: 3, ..files };
        assert!(compare(root, changed).is_err());
        change(root, changed).expect("written");
        compare(root, changed).expect("equal");
        fs::write(files.path(root, 7), "file 8").expect("written");
        assert!(compare(root, changed).is_err());
    }
}
