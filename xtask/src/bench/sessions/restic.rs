//! The lower bound: plain restic on this machine on the directories of the hosts, one process for each, all at once, one repository.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;

use super::objects::{PASSWORD, Storage};
use crate::bench::measure::quietly;
use crate::tools;

pub(super) struct Restic {
    program: PathBuf,
    environment: Vec<(&'static str, String)>,
    directory: TempDir,
}

impl Restic {
    pub(super) fn new(storage: &Storage) -> Result<Self> {
        let environment = vec![
            ("AWS_ACCESS_KEY_ID", storage.access_key.clone()),
            ("AWS_SECRET_ACCESS_KEY", storage.secret_key.clone()),
            ("AWS_REGION", storage.region.clone()),
            ("RESTIC_PASSWORD", PASSWORD.to_owned()),
        ];
        let directory = TempDir::with_prefix("lifeboat-restic-").context("cannot create a directory")?;
        Ok(Self { program: tools::restic()?, environment, directory })
    }

    /// Backs the directories up into a new repository; gives the seconds of each, and of all together. As with Lifeboat, the repository is
    /// there before.
    pub(super) fn back_up(&self, repository: &str, directories: &[PathBuf]) -> Result<(Vec<f64>, f64)> {
        self.run(repository, Path::new("init"), &["init"])?;
        let began = Instant::now();
        let one = |directory: &PathBuf| {
            let began = Instant::now();
            let place = directory.to_string_lossy();
            self.run(repository, directory, &["backup", &place])?;
            Ok(began.elapsed().as_secs_f64())
        };
        let taken: Result<Vec<f64>> = thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> =
                directories.iter().map(|directory| scope.spawn(move || one(directory))).collect();
            let ended = |thread: thread::ScopedJoinHandle<'_, Result<f64>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow!("a thread stopped unexpectedly")))
            };
            threads.into_iter().map(ended).collect()
        });
        Ok((taken?, began.elapsed().as_secs_f64()))
    }

    /// Runs restic with a log and a cache for this work.
    fn run(&self, repository: &str, of: &Path, arguments: &[&str]) -> Result<()> {
        let name: String = of.to_string_lossy().chars().map(|c| if c == '/' { '_' } else { c }).collect();
        let work = self.directory.path().join(name);
        std::fs::create_dir_all(&work).context("cannot create a directory")?;
        let mut command = Command::new(&self.program);
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("RESTIC_REPOSITORY", repository)
            .env("RESTIC_CACHE_DIR", work.join("cache"))
            .args(arguments);
        quietly(&mut command, &work)
    }
}
