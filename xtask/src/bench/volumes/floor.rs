//! The lower bound: plain restic on the volumes' directories, one process and one repository for each volume.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::Work;
use super::product::Taken;
use crate::bench::measure::{TIME, around, parse, quietly};
use crate::{apt, tools};

pub(super) struct Floor {
    program: PathBuf,
    repository: String,
    environment: Vec<(&'static str, String)>,
    at_once: usize,
    directory: TempDir,
    /// The directories of the volumes at the last backup: restic stored them under these paths.
    places: Mutex<Vec<PathBuf>>,
}

impl Floor {
    pub(super) fn prepare(
        environment: &BTreeMap<String, String>,
        repository: String,
        at_once: usize,
    ) -> Result<Self> {
        apt::apt_install(&apt::missing(&[("time", TIME)]))?;
        let environment = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"]
            .map(|name| (name, environment[name].clone()));
        Ok(Self {
            program: tools::restic()?,
            repository,
            environment: environment.to_vec(),
            at_once,
            directory: TempDir::with_prefix("lifeboat-restic-").context("cannot create a directory")?,
            places: Mutex::default(),
        })
    }

    pub(super) fn work(&self, work: Work, directories: &[PathBuf]) -> Result<Taken> {
        let began = Instant::now();
        let mut taken = Taken::default();
        if work == Work::First {
            let mut init = self.restic();
            taken = taken.and(&self.timed(init.arg("init"), "init")?);
        }
        let mut places = self.places.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let commands: Vec<Command> = match work {
            Work::Restore => {
                directories.iter().zip(&*places).map(|(to, from)| self.restore(from, to)).collect()
            }
            Work::First | Work::Second => {
                directories.iter().map(|directory| self.backup(directory)).collect()
            }
        };
        taken = taken.and(&self.all(&commands)?);
        if work != Work::Restore {
            directories.clone_into(&mut places);
        }
        taken.wall_s = began.elapsed().as_secs_f64();
        Ok(taken)
    }

    fn backup(&self, directory: &Path) -> Command {
        let mut command = self.restic();
        command.arg("backup").arg(directory);
        command
    }

    fn restore(&self, from: &Path, to: &Path) -> Command {
        let mut command = self.restic();
        command.args(["restore", &format!("latest:{}", from.display()), "--path"]).arg(from);
        command.arg("--target").arg(to);
        command
    }

    fn restic(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("RESTIC_REPOSITORY", &self.repository)
            .env("RESTIC_PASSWORD", "bench")
            .env("RESTIC_CACHE_DIR", self.directory.path().join("cache"));
        command
    }

    /// Runs the commands, as many at a time as the product allows.
    fn all(&self, commands: &[Command]) -> Result<Taken> {
        let next = AtomicUsize::new(0);
        let worker = |number: usize| {
            let mut taken = Taken::default();
            while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                taken = taken.and(&self.timed(command, &number.to_string())?);
            }
            Ok(taken)
        };
        std::thread::scope(|scope| {
            let worker = &worker;
            let threads: Vec<_> =
                (0..self.at_once).map(|number| scope.spawn(move || worker(number))).collect();
            threads.into_iter().try_fold(Taken::default(), |sum, thread| {
                let one: Result<Taken> =
                    thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread stopped unexpectedly")));
                Ok(sum.and(&one?))
            })
        })
    }

    fn timed(&self, command: &Command, worker: &str) -> Result<Taken> {
        let directory = self.directory.path().join(worker);
        fs::create_dir_all(&directory)?;
        let counted = directory.join("counted");
        let mut time = Command::new(TIME);
        time.args(["--format=%U %S %M", "--output"]).arg(&counted);
        quietly(&mut around(time, command), &directory)?;
        let text = fs::read_to_string(&counted).context("cannot read what time counted")?;
        let (cpu_s, most) = parse(&text).with_context(|| format!("cannot understand {text:?}"))?;
        Ok(Taken { cpu_s, mover_mb: Some(most), ..Taken::default() })
    }
}
