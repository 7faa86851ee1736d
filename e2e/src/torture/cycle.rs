//! One cycle: plans, changes the source, starts the process, and records in the ledger what the process acknowledged.
//! `verify` checks the repositories afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use lifeboat_repository::repository::{Options, Repository};
use lifeboat_repository::testing;
use secrecy::SecretString;
use serde_json::Value;

use super::child::{self, ChildEnd};
use super::ledger::{Expected, Kept, Ledger};
use super::place;
use super::schedule::{self, Plan};
use super::task::{Operation, SECOND_PASSWORD, Task, WhichRepository};
use super::{Settings, Summary};
use crate::tree::{Listing, Random, change};
use crate::variable;

/// A source that is larger starts again, because cycles must stay short.
const LARGEST_SOURCE: u64 = 40 << 20;
/// How long two processes wait for each other's locks.
const LOCK_WAIT_MS: u64 = 2500;
/// restic's exit code for a repository that is locked.
const RESTIC_LOCKED: i32 = 11;
const LARGEST_FILE: usize = 1_500_000;

/// The source of backups, and that of concurrent backups.
const SOURCES: [&str; 2] = ["source", "other source"];

/// The state that is kept between cycles.
pub(super) struct Harness {
    pub(super) settings: Settings,
    pub(super) ledger: Ledger,
    pub(super) summary: Summary,
    /// The password that last opened the main repository.
    pub(super) password: String,
    /// What the operations of this cycle may have changed.
    pub(super) after: Vec<After>,
    /// Owners of locks whose processes are dead.
    pub(super) dead: Vec<String>,
    pub(super) random: Random,
    /// A description of this cycle, for the report of a failure.
    pub(super) description: String,
    start: Instant,
}

/// The expected result of an operation.
#[derive(Debug, Default)]
pub(super) struct After {
    /// It may have created snapshots with this content.
    pub(super) made: Option<Expected>,
    /// These may be removed, and must be if it succeeded.
    pub(super) forgotten: Vec<(WhichRepository, String)>,
    /// Acknowledged copies in the second repository.
    pub(super) copies: Vec<String>,
    pub(super) password: Option<String>,
    /// This must have been restored if it succeeded.
    pub(super) restored: Option<(String, PathBuf)>,
    pub(super) ended_well: bool,
    /// Locks are left for the next worker.
    pub(super) leave_locks: bool,
}

impl Harness {
    pub(super) async fn new(settings: &Settings) -> Result<Self> {
        let harness = Self {
            settings: settings.clone(),
            ledger: Ledger::default(),
            summary: Summary { seed: settings.seed, ..Summary::default() },
            password: "first".to_owned(),
            after: Vec::new(),
            dead: Vec::new(),
            random: schedule::random_of(settings.seed, 0),
            description: String::new(),
            start: Instant::now(),
        };
        for name in SOURCES {
            fs::create_dir(harness.path(name))?;
        }
        for (place, password) in
            [(WhichRepository::Main, "first"), (WhichRepository::Second, SECOND_PASSWORD)]
        {
            let init = testing::cheap(lifeboat_repository::config::Version::V2);
            let store = place::create(&harness.repository(place)).await?;
            Repository::init(store, &SecretString::from(password), init, Options::default()).await?;
        }
        Ok(harness)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.settings.directory.join(name)
    }

    /// The location of a repository.
    pub(super) fn repository(&self, place: WhichRepository) -> String {
        let name = match place {
            WhichRepository::Main => "main",
            WhichRepository::Second => "second",
        };
        match &self.settings.location {
            Some(location) => format!("{location}/{name}"),
            None => self.path(name).display().to_string(),
        }
    }

    pub(super) async fn cycle(&mut self, cycle: u64) -> Result<()> {
        self.random = schedule::random_of(self.settings.seed, cycle);
        let (sources, target) = (SOURCES.map(|name| self.path(name)), self.path("target"));
        let sources = [sources[0].as_path(), sources[1].as_path()];
        let plan = schedule::plan(&mut self.random, cycle, &self.ledger, sources, &target);
        let plans: Vec<&Plan> = std::iter::once(&plan).chain(plan.beside.as_deref()).collect();
        if matches!(plan.operation, Operation::Restic { .. }) {
            self.remove_locks().await?;
        }
        self.after = plans.iter().map(|plan| self.expect(plan)).collect();
        let owners: Vec<String> =
            (0..plans.len()).map(|number| format!("torture-{cycle}-{number}")).collect();
        let all = self.run_all(&plans, &owners)?;
        self.dead.extend(owners);
        self.description = format!("{plan:?}, which ended as {all:?}");
        self.count_faults();
        self.summary.cycles = cycle;
        self.summary.took = self.start.elapsed();
        for (number, ended) in all.iter().enumerate() {
            let judged = self.judge(number, plans[number], plans.len() > 1, ended);
            judged.with_context(|| self.description.clone())?;
        }
        Ok(())
    }

    /// Runs all processes of a cycle at the same time.
    fn run_all(&self, plans: &[&Plan], owners: &[String]) -> Result<Vec<ChildEnd>> {
        thread::scope(|scope| {
            let start = |(plan, owner): (&&Plan, &String)| {
                let (mut command, kill_after) = (self.command(plan, owner, plans.len() > 1), plan.kill_after);
                scope.spawn(move || child::run(&mut command, kill_after))
            };
            let running: Vec<_> = plans.iter().zip(owners).map(start).collect();
            running.into_iter().map(|each| each.join().unwrap()).collect()
        })
    }

    /// Changes the source if it is backed up, and returns the expected result of the operation.
    fn expect(&mut self, plan: &Plan) -> After {
        let mut after = After { leave_locks: plan.leave_locks, ..After::default() };
        let named = |place, ids: &[String]| ids.iter().map(|id| (place, id.clone())).collect();
        match &plan.operation {
            Operation::Backup { source } | Operation::Prepared { source, .. } => {
                after.made = Some(self.changed(source));
            }
            Operation::Stream { seed, length } => after.made = Some(Expected::stream(*seed, *length)),
            Operation::Forget { place, snapshots } => after.forgotten = named(*place, snapshots),
            Operation::ForgetByPolicy { place, keep_last } => {
                let keep = usize::try_from(*keep_last).unwrap();
                after.forgotten = named(*place, &self.ledger.beyond_last(*place, keep));
            }
            Operation::Restore { snapshot, target } => {
                after.restored = Some((snapshot.clone(), target.clone()));
            }
            Operation::ChangePassword { password } => after.password = Some(password.clone()),
            Operation::Restic { arguments } => match arguments[0].as_str() {
                "backup" => after.made = Some(self.changed(&self.path(SOURCES[0]))),
                "forget" => after.forgotten = named(WhichRepository::Main, &arguments[1..]),
                _ => {}
            },
            Operation::Prune { .. } | Operation::Copy { .. } => {}
        }
        after
    }

    fn changed(&mut self, source: &Path) -> Expected {
        if size(source) > LARGEST_SOURCE {
            fs::remove_dir_all(source).unwrap();
            fs::create_dir(source).unwrap();
        }
        let steps = if fs::read_dir(source).unwrap().next().is_none() { 60 } else { 20 };
        change(source, &mut self.random, steps, LARGEST_FILE);
        Expected::Tree { source: source.to_owned(), listing: Arc::new(Listing::of(source)) }
    }

    fn command(&self, plan: &Plan, owner: &str, beside: bool) -> Command {
        if let Operation::Restic { arguments } = &plan.operation {
            return self.restic(WhichRepository::Main, arguments);
        }
        let task = Task {
            main: self.repository(WhichRepository::Main),
            second: self.repository(WhichRepository::Second),
            password: self.password.clone(),
            owner: owner.to_owned(),
            dead: self.dead.clone(),
            wait_ms: if beside { LOCK_WAIT_MS } else { 0 },
            log: self.path("faults"),
            trouble: plan.trouble,
            operation: plan.operation.clone(),
        };
        let mut command = Command::new(&self.settings.worker);
        command.arg(serde_json::to_string(&task).unwrap());
        command
    }

    pub(super) fn password(&self, place: WhichRepository) -> &str {
        match place {
            WhichRepository::Main => &self.password,
            WhichRepository::Second => SECOND_PASSWORD,
        }
    }

    /// Genuine restic.
    pub(super) fn restic(&self, place: WhichRepository, arguments: &[String]) -> Command {
        let mut command = Command::new(variable("LIFEBOAT_RESTIC"));
        command
            .env("RESTIC_REPOSITORY", self.repository(place))
            .env("RESTIC_PASSWORD", self.password(place))
            .args(arguments)
            .arg("--no-cache");
        command
    }

    fn count_faults(&mut self) {
        for line in fs::read_to_string(self.path("faults")).unwrap_or_default().lines() {
            *self.summary.faults.entry(line.to_owned()).or_default() += 1;
        }
        let _ = fs::remove_file(self.path("faults"));
    }

    /// A process must succeed, fail with a known cause or be killed. It must never panic.
    fn judge(&mut self, number: usize, plan: &Plan, beside: bool, ended: &ChildEnd) -> Result<()> {
        let row = self.summary.operations.entry(plan.operation.name()).or_default();
        row[0] += 1;
        match ended.code {
            Some(0) => row[1] += 1,
            Some(_) => row[2] += 1,
            None => row[3] += 1,
        }
        match ended.code {
            None if plan.trouble.death.is_some() => self.summary.killed_at_a_request += 1,
            None => self.summary.killed_by_the_clock += 1,
            Some(0) => self.after[number].ended_well = true,
            Some(RESTIC_LOCKED) if beside => {}
            Some(code) => {
                ensure!(code == 1, "it ended with {code}");
                let cause = beside || plan.trouble.faults + plan.trouble.stale > 0;
                ensure!(cause, "it failed without a cause");
            }
        }
        for id in acknowledged(&ended.stdout) {
            self.summary.acknowledged += 1;
            match self.after[number].made.clone() {
                Some(expected) => {
                    self.ledger.0.push(Kept {
                        id: id.clone(),
                        place: WhichRepository::Main,
                        expected,
                        original: id,
                        cycle: self.summary.cycles,
                    });
                }
                // For copies, the repository records their originals.
                None => self.after[number].copies.push(id),
            }
        }
        Ok(())
    }
}

/// The snapshots that the process reported: our worker on a line, restic in JSON.
fn acknowledged(stdout: &str) -> Vec<String> {
    let ids = stdout.lines().filter_map(|line| match line.strip_prefix("snapshot ") {
        Some(id) => Some(id.to_owned()),
        None => Some(serde_json::from_str::<Value>(line).ok()?["snapshot_id"].as_str()?.to_owned()),
    });
    ids.collect()
}

/// The size in bytes of all files below a directory.
fn size(directory: &Path) -> u64 {
    let entries = Listing::of(directory).0;
    let sizes = entries.values().map(|entry| entry.blocks * 512);
    sizes.sum()
}
