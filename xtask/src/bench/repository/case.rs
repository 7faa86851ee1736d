//! Runs one product on one repository, from its first backup to its prune: takes what to measure, returns a row for each
//! work. Earlier work is always done, measured or not. Called by `repository` for each product.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use super::data::{Data, Set};
use super::place::{Prepared, StorageKind};
use super::product::{PASSWORD, Product, Runner};
use super::report::Row;
use crate::bench::measure::{Sample, forget_pages, measure, quietly, settle};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Work {
    /// The first backup into an empty repository
    First,
    /// A backup of the same data again
    Unchanged,
    /// A backup after 1 % has changed
    Changed,
    /// The newest snapshot into an empty directory on the same disk
    Restore,
    /// Structure and all data
    Check,
    /// After a third of the files were deleted and every snapshot except the newest was forgotten
    Prune,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Cache {
    /// The page cache holds the data, as after it was written
    Warm,
    /// The page cache is emptied before each command
    Cold,
}

/// What varies between tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) set: Set,
    pub(super) place: StorageKind,
    pub(super) cache: Cache,
}

/// A case with what it needs on this machine.
pub(super) struct Bench<'a> {
    pub(super) case: Case,
    pub(super) data: &'a Data,
    pub(super) work: &'a Path,
    pub(super) wanted: &'a [Work],
}

impl Bench<'_> {
    /// Measures one product; leaves the data unchanged, even after a failure.
    pub(super) fn run(&self, product: Product, program: PathBuf) -> Result<Vec<Row>> {
        let home = self.empty_directory("home")?;
        let place = self.case.place.prepare(self.work)?;
        let runner = Runner::new(product, program, place.location(), home);
        fs::write(runner.password_file(), PASSWORD)?;
        let rows = self.measure_all(product, &runner, &place);
        self.data.put_back()?;
        settle(self.work)?;
        rows.with_context(|| format!("{} failed", product.name()))
    }

    fn measure_all(&self, product: Product, runner: &Runner, place: &Prepared) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let mut record = |work: Work, sample: Sample| -> Result<()> {
            if self.wanted.contains(&work) {
                let row = Row::new(work, self.case, product, sample, place.size()?);
                eprintln!("  {}", row.line());
                rows.push(row);
            }
            Ok(())
        };
        for mut command in runner.init() {
            quietly(&mut command, self.work)?;
        }
        let directory = self.data.directory();
        record(Work::First, self.measured(&runner.backup(directory))?)?;
        if self.wanted.contains(&Work::Unchanged) {
            record(Work::Unchanged, self.measured(&runner.backup(directory))?)?;
        }
        if self.wanted.contains(&Work::Changed) {
            self.data.change()?;
            record(Work::Changed, self.measured(&runner.backup(directory))?)?;
        }
        if self.wanted.contains(&Work::Restore) {
            record(Work::Restore, self.restore(runner)?)?;
        }
        if self.wanted.contains(&Work::Check) {
            record(Work::Check, self.measured(&runner.check())?)?;
        }
        if self.wanted.contains(&Work::Prune) {
            self.data.cut()?;
            quietly(&mut runner.backup(directory), self.work)?;
            for mut command in runner.forget() {
                quietly(&mut command, self.work)?;
            }
            record(Work::Prune, self.measured(&runner.prune())?)?;
            self.restore(runner).context("after the prune")?;
        }
        Ok(rows)
    }

    /// Restores and compares: a restore counts only if the restored data equals the saved data.
    fn restore(&self, runner: &Runner) -> Result<Sample> {
        let target = self.empty_directory("restored")?;
        let (command, restored) = runner.restore(self.data.directory(), &target);
        let sample = self.measured(&command)?;
        compare(self.data.directory(), &restored)?;
        fs::remove_dir_all(&target)?;
        Ok(sample)
    }

    fn measured(&self, command: &std::process::Command) -> Result<Sample> {
        settle(self.work)?;
        match self.case.cache {
            Cache::Warm => read_all(self.data.directory())?,
            Cache::Cold => forget_pages()?,
        }
        measure(command, self.work)
    }

    fn empty_directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.work.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

fn read_all(directory: &Path) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for path in files(directory)? {
        let mut file = File::open(directory.join(path))?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(())
}

/// Fails at the first file that is missing, extra or different.
fn compare(expected: &Path, found: &Path) -> Result<()> {
    let names = files(expected)?;
    ensure!(names == files(found)?, "the restored directory does not hold the same files");
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for name in names {
        let (mut one, mut other) = (File::open(expected.join(&name))?, File::open(found.join(&name))?);
        loop {
            let length = one.read(&mut left)?;
            if length == 0 {
                ensure!(other.read(&mut right)? == 0, "{} is longer than it was", name.display());
                break;
            }
            let same = other.read_exact(&mut right[..length]).is_ok() && left[..length] == right[..length];
            ensure!(same, "{} is not what was saved", name.display());
        }
    }
    Ok(())
}

/// All files below a directory, relative to it, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(current) = pending.pop() {
        let entries = fs::read_dir(&current).with_context(|| format!("cannot read {}", current.display()))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path().strip_prefix(directory)?.to_owned());
            } else {
                bail!("{} is no file", entry.path().display());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("below the directory")).expect("created");
            fs::write(path, text).expect("written");
        }
        directory
    }

    #[test]
    fn a_restore_that_lost_changed_or_added_something_does_not_count() {
        let saved = tree(&[("a/b", "one"), ("c", "two")]);
        let problem = |files: &[(&str, &str)]| {
            compare(saved.path(), tree(files).path()).err().map(|error| error.to_string())
        };
        assert_eq!(problem(&[("a/b", "one"), ("c", "two")]), None);
        assert!(problem(&[("a/b", "one")]).expect("lost").contains("same files"));
        assert!(problem(&[("a/b", "one"), ("c", "two"), ("d", "")]).expect("added").contains("same files"));
        for changed in ["tw", "twi", "two!"] {
            assert!(problem(&[("a/b", "one"), ("c", changed)]).expect("changed").starts_with("c is "));
        }
    }
}
