//! A directory with a new repository in it, and the commands on it that are measured or not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::bench::measure::{Sample, measure, quietly};
use crate::run;

/// The most memory that a command may use, in MB.
const LIMIT_MB: f64 = 256.0;

/// One line of the table.
pub(super) struct Row {
    pub(super) work: String,
    pub(super) sample: Sample,
    pub(super) limit_mb: f64,
}

pub(super) struct Programs {
    pub(super) lifeboat: PathBuf,
    /// Fills an index; built if it is not given.
    pub(super) fill: Option<PathBuf>,
    pub(super) restic: PathBuf,
}

pub(super) struct Proof<'a> {
    pub(super) work: PathBuf,
    programs: &'a Programs,
    limit_mb: f64,
}

impl<'a> Proof<'a> {
    /// Removes what an earlier one left.
    pub(super) fn begin(work: &Path, programs: &'a Programs) -> Result<Self> {
        if work.exists() {
            super::remove(work)?;
        }
        fs::create_dir_all(work)?;
        let proof = Self { work: work.to_owned(), programs, limit_mb: LIMIT_MB };
        fs::write(proof.password_file(), "a password\n")?;
        proof.quietly("init", &[])?;
        Ok(proof)
    }

    /// With another limit for the commands that follow.
    pub(super) fn limited_to(&self, limit_mb: f64) -> Self {
        Self { work: self.work.clone(), programs: self.programs, limit_mb }
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.work.join("repository")
    }

    fn password_file(&self) -> PathBuf {
        self.work.join("password")
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.lifeboat);
        command.arg("repository").args(name.split(' ')).args(["--no-cache", "--repo"]).arg(self.repository());
        command.arg("--password-file").arg(self.password_file()).args(arguments);
        command
    }

    /// Runs a command that is not measured.
    pub(super) fn quietly(&self, name: &str, arguments: &[&str]) -> Result<()> {
        quietly(&mut self.command(name, arguments), &self.work)
    }

    pub(super) fn measured(&self, name: &str, arguments: &[&str], work: String) -> Result<Row> {
        self.row(&self.command(name, arguments), work)
    }

    pub(super) fn backup(&self, source: &Path, work: String) -> Result<Row> {
        let mut command = self.command("backup", &[]);
        command.arg(source);
        self.row(&command, work)
    }

    /// Restores the newest snapshot; returns the path of the restored `source`.
    pub(super) fn restore(&self, source: &Path, flags: &[&str], work: String) -> Result<(PathBuf, Row)> {
        let target = self.work.join("restored");
        let mut command = self.command("restore", &["latest"]);
        command.arg("--target").arg(&target).args(flags);
        let row = self.row(&command, work)?;
        Ok((target.join(source.strip_prefix("/").unwrap_or(source)), row))
    }

    fn row(&self, command: &Command, work: String) -> Result<Row> {
        eprintln!("{work}");
        Ok(Row { work, sample: measure(command, &self.work)?, limit_mb: self.limit_mb })
    }

    /// Genuine restic, which is not measured.
    pub(super) fn restic(&self, arguments: &[&str]) -> Result<()> {
        eprintln!("restic {}", arguments.join(" "));
        let mut command = Command::new(&self.programs.restic);
        command.args(["--no-cache", "--repo"]).arg(self.repository());
        command.arg("--password-file").arg(self.password_file()).args(arguments);
        quietly(&mut command, &self.work)
    }

    /// Makes the index name this many blobs, in packs that exist.
    pub(super) fn fill_index(&self, blobs: u64) -> Result<()> {
        let mut fill = if let Some(program) = &self.programs.fill {
            Command::new(program)
        } else {
            let mut build = run::cargo();
            build.args(["run", "--quiet", "--release", "--package", "lifeboat-repository"]);
            build.args(["--example", "fill_index", "--"]);
            build
        };
        fill.arg(self.repository()).arg(self.password_file()).arg(blobs.to_string());
        run::run(&mut fill)
    }
}
