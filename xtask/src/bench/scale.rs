//! `cargo xtask bench scale`: a million files, a volume of 50 GB with few bytes in it, and an index of 20 million
//! blobs; each is backed up and restored by `target/release/lifeboat` and compared, and no command may need more
//! than 256 MB of memory. Prints the table that bench/README.md shows.

mod files;
mod volume;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::measure::{self, Sample, measure, quietly};
use crate::{apt, run};

/// The most memory that a command may use, in MB.
const MOST_MEMORY: f64 = 256.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of files; 0 skips this measurement
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,
    /// Size of the volume in gigabytes; 0 skips this measurement
    #[arg(long, default_value_t = 50)]
    volume: u64,
    /// Number of blobs in the index; 0 skips this measurement
    #[arg(long, default_value_t = 20_000_000)]
    blobs: u64,
    /// Leave data and repositories in the target directory
    #[arg(long)]
    keep: bool,
}

/// One line of the table.
struct Row {
    work: String,
    sample: Sample,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    apt::apt_install(&apt::missing(&[("time", measure::TIME)]))?;
    run::run(run::cargo().args(["build", "--quiet", "--release", "--package", "lifeboat"]))?;
    let work = run::target_directory()?.join("bench-scale");
    let mut rows = Vec::new();
    if args.files > 0 {
        rows.extend(many_files(&Proof::begin(&work)?, args.files)?);
    }
    if args.volume > 0 {
        rows.extend(sparse_volume(&Proof::begin(&work)?, args.volume)?);
    }
    if args.blobs > 0 {
        rows.extend(large_index(&Proof::begin(&work)?, args.blobs)?);
    }
    if !args.keep {
        fs::remove_dir_all(&work).context("cannot remove the data")?;
    }
    println!("| work | wall, s | CPU, s | peak memory, MB |\n| --- | --- | --- | --- |");
    for Row { work, sample } in &rows {
        let Sample { wall_s, cpu_s, peak_rss_mb } = sample;
        println!("| {work} | {wall_s:.0} | {cpu_s:.0} | {peak_rss_mb:.0} |");
    }
    let over: Vec<&str> =
        rows.iter().filter(|row| row.sample.peak_rss_mb > MOST_MEMORY).map(|row| row.work.as_str()).collect();
    ensure!(over.is_empty(), "more than {MOST_MEMORY} MB of memory: {}", over.join(", "));
    Ok(())
}

fn many_files(proof: &Proof, count: u64) -> Result<Vec<Row>> {
    let source = proof.work.join("files");
    files::write(&source, count)?;
    let first = proof.backup(&source, format!("first backup of {count} files"))?;
    let second = proof.backup(&source, "the same again".to_owned())?;
    let (restored, third) = proof.restore(&source, &[], format!("restore of {count} files"))?;
    files::compare(&restored, count)?;
    Ok(vec![first, second, third])
}

fn sparse_volume(proof: &Proof, gigabytes: u64) -> Result<Vec<Row>> {
    let source = proof.work.join("volume");
    fs::create_dir(&source)?;
    let written = volume::write(&source.join("disk"), gigabytes)?;
    let size = format!("{gigabytes} GB with {} MB in it", written / 1_000_000);
    let first = proof.backup(&source, format!("first backup of a volume of {size}"))?;
    let second = proof.backup(&source, "the same again".to_owned())?;
    let (restored, third) = proof.restore(&source, &["--sparse"], format!("restore of {size}"))?;
    volume::compare(&source.join("disk"), &restored.join("disk"))?;
    Ok(vec![first, second, third])
}

fn large_index(proof: &Proof, blobs: u64) -> Result<Vec<Row>> {
    let mut fill = run::cargo();
    fill.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "lifeboat-repository",
        "--example",
        "fill_index",
        "--",
    ])
    .arg(proof.repository())
    .arg(proof.password_file())
    .arg(blobs.to_string());
    run::run(&mut fill)?;
    let source = proof.work.join("files");
    files::write(&source, 1000)?;
    let first = proof.backup(&source, format!("backup of 1,000 files beside {blobs} blobs"))?;
    let (restored, second) = proof.restore(&source, &[], "their restore".to_owned())?;
    files::compare(&restored, 1000)?;
    Ok(vec![first, second])
}

/// A directory with a new repository in it.
struct Proof {
    work: PathBuf,
    program: PathBuf,
}

impl Proof {
    fn begin(work: &Path) -> Result<Self> {
        if work.exists() {
            fs::remove_dir_all(work).with_context(|| format!("cannot remove {}", work.display()))?;
        }
        fs::create_dir_all(work)?;
        let program = run::target_directory()?.join("release/lifeboat");
        let proof = Self { work: work.to_owned(), program };
        fs::write(proof.password_file(), "a password\n")?;
        quietly(&mut proof.command("init"), work)?;
        Ok(proof)
    }

    fn repository(&self) -> PathBuf {
        self.work.join("repository")
    }

    fn password_file(&self) -> PathBuf {
        self.work.join("password")
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["repository", name, "--no-cache", "--repo"]).arg(self.repository());
        command.arg("--password-file").arg(self.password_file());
        command
    }

    fn backup(&self, source: &Path, work: String) -> Result<Row> {
        eprintln!("{work}");
        let mut command = self.command("backup");
        command.arg(source);
        Ok(Row { work, sample: measure(&command, &self.work)? })
    }

    /// Restores the newest snapshot; returns the path of the restored `source`.
    fn restore(&self, source: &Path, flags: &[&str], work: String) -> Result<(PathBuf, Row)> {
        eprintln!("{work}");
        let target = self.work.join("restored");
        let mut command = self.command("restore");
        command.arg("latest").arg("--target").arg(&target).args(flags);
        let sample = measure(&command, &self.work)?;
        Ok((target.join(source.strip_prefix("/").unwrap_or(source)), Row { work, sample }))
    }
}
