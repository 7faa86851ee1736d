//! `cargo xtask bench scale`: very many files, a directory with a million entries and one with five million, large and
//! sparse volumes, and an index of 20 million blobs. Each is backed up, restored and compared, and no command may need
//! more memory than its limit. Prints the table that bench/README.md shows.

mod cases;
mod files;
mod proof;
mod volume;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::measure;
use crate::{apt, run, tools};
use cases::Case;
use proof::{Programs, Proof, Row};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of files, a thousand in a directory; 0 skips this measurement, as with all other numbers
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,
    /// Number of files in one directory
    #[arg(long, default_value_t = 1_000_000)]
    directory: u64,
    /// Number of files in one very large directory, which may use 1 GiB
    #[arg(long, default_value_t = 5_000_000)]
    huge_directory: u64,
    /// Size of a volume in gigabytes, 6 % of which is not holes
    #[arg(long, default_value_t = 50)]
    volume: u64,
    /// Size of a sparse file in gigabytes
    #[arg(long, default_value_t = 4_000)]
    sparse: u64,
    /// Number of blobs in the index
    #[arg(long, default_value_t = 20_000_000)]
    blobs: u64,
    /// A program to measure instead of the release build
    #[arg(long, value_name = "BINARY")]
    lifeboat: Option<PathBuf>,
    /// A program that fills an index, instead of building it
    #[arg(long, hide = true)]
    fill: Option<PathBuf>,
    /// Leave data and repositories in the target directory
    #[arg(long)]
    keep: bool,
}

impl Args {
    fn cases(&self) -> Vec<Case> {
        let all = [
            Case::Files(self.files),
            Case::Directory(self.directory),
            Case::HugeDirectory(self.huge_directory),
            Case::Volume(self.volume),
            Case::Sparse(self.sparse),
            Case::Index(self.blobs),
        ];
        all.into_iter().filter(|case| case.size() > 0).collect()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    apt::apt_install(&apt::missing(&[("time", measure::TIME)]))?;
    let began = Instant::now();
    let programs = programs(args)?;
    let work = run::target_directory()?.join("bench-scale");
    let mut rows = Vec::new();
    for case in args.cases() {
        let measured = case.run(&Proof::begin(&work, &programs)?)?;
        eprint!("{}", table(&measured));
        rows.extend(measured);
    }
    if !args.keep {
        remove(&work)?;
    }
    print!("{}", table(&rows));
    println!("\n{} minutes; {}", began.elapsed().as_secs() / 60, super::machine());
    judge(&rows)
}

fn programs(args: &Args) -> Result<Programs> {
    let lifeboat = if let Some(program) = &args.lifeboat {
        program.clone()
    } else {
        run::run(run::cargo().args(["build", "--quiet", "--release", "--package", "lifeboat"]))?;
        run::target_directory()?.join("release/lifeboat")
    };
    Ok(Programs { lifeboat, fill: args.fill.clone(), restic: tools::restic()? })
}

fn remove(work: &Path) -> Result<()> {
    fs::remove_dir_all(work).with_context(|| format!("cannot remove {}", work.display()))
}

fn table(rows: &[Row]) -> String {
    let head = "| work | wall, s | CPU, s | peak memory, MB | limit, MB |\n| --- | --- | --- | --- | --- |\n";
    let line = |row: &Row| {
        let measure::Sample { wall_s, cpu_s, peak_rss_mb } = row.sample;
        format!("| {} | {wall_s:.0} | {cpu_s:.0} | {peak_rss_mb:.0} | {:.0} |\n", row.work, row.limit_mb)
    };
    std::iter::once(head.to_owned()).chain(rows.iter().map(line)).collect()
}

fn judge(rows: &[Row]) -> Result<()> {
    let over = rows.iter().filter(|row| row.sample.peak_rss_mb > row.limit_mb);
    let over: Vec<String> = over
        .map(|row| format!("{} ({:.0} MB, limit {:.0} MB)", row.work, row.sample.peak_rss_mb, row.limit_mb))
        .collect();
    ensure!(over.is_empty(), "too much memory: {}", over.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_over_its_limit_is_named() {
        let row = |work: &str, peak_rss_mb| Row {
            work: work.to_owned(),
            sample: measure::Sample { wall_s: 1.0, cpu_s: 1.0, peak_rss_mb },
            limit_mb: 256.0,
        };
        judge(&[row("backup", 255.0)]).expect("within the limit");
        let error = judge(&[row("backup", 255.0), row("restore", 257.0)]).expect_err("over it").to_string();
        assert_eq!(error, "too much memory: restore (257 MB, limit 256 MB)");
        assert!(table(&[row("backup", 255.0)]).ends_with("| backup | 1 | 1 | 255 | 256 |\n"));
    }
}
