//! Many sessions that are due in one second: all of them end, and there are never more Jobs at work than `--movers-at-once`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::objects::{self, RepositoryName};
use super::report::Row;
use super::site::{DATA, Site};
use crate::bench::process;
use crate::run;

/// Fewer than the nodes and the repository would take, so that this limit is the one that is met.
pub(super) const AT_ONCE: usize = 6;
/// How long everything may take until the schedules are in force, in seconds.
const PREPARATION: u64 = 90;
/// How long all sessions may take.
const PATIENCE: Duration = Duration::from_mins(30);
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn measure(site: &Site, sessions: u32) -> Result<Row> {
    site.drop_namespace(DATA)?;
    site.put_namespace(DATA)?;
    let server = site.server(&[
        &format!("--movers-at-once={AT_ONCE}"),
        "--movers-per-node=50",
        "--movers-per-repository=50",
    ])?;
    let repository = RepositoryName { namespace: DATA, name: "burst" };
    let names: Vec<String> = (0..sessions).map(|number| format!("burst-{number:03}")).collect();
    let mut all = vec![objects::repository(repository, &site.storage, &site.bucket.prefix("burst"))];
    all.extend(names.iter().map(|name| objects::claim(DATA, name)));
    site.apply(&all)?;
    let due = due_at(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
    let of = |name: &String| objects::configuration(DATA, name, repository, name, &schedule(due));
    site.apply(&names.iter().map(of).collect::<Vec<Value>>())?;
    let ready = wait(site, "backupconfigurations.stash.appscode.com", names.len(), &["Ready"], due)
        .with_context(|| server.last_words())?;
    ensure!(ready.len() == names.len(), "{} of {} schedules are in force", ready.len(), names.len());
    let jobs = Jobs::watch(site)?;
    thread::sleep(Duration::from_secs(due.saturating_sub(now())));
    let began = Instant::now();
    let until = now() + PATIENCE.as_secs();
    let ended = wait(
        site,
        "backupsessions.stash.appscode.com",
        names.len(),
        &["Succeeded", "Failed", "Skipped"],
        until,
    )
    .with_context(|| server.last_words())?;
    let wall_s = began.elapsed().as_secs_f64();
    let most = jobs.most();
    let (server_mb, _) = process::memory(server.pid())?;
    let row = Row {
        wall_s: Some(wall_s),
        server_mb: Some(server_mb),
        sessions: Some(sessions),
        succeeded: Some(ended.iter().filter(|phase| *phase == "Succeeded").count()),
        jobs_at_once: Some(most),
        jobs_limit: Some(AT_ONCE),
        ..Row::new("burst", "lifeboat", 0)
    };
    eprintln!("{}", row.line());
    drop(server);
    site.bucket.clear("burst")?;
    site.drop_namespace(DATA)?;
    Ok(row)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The first full minute after the preparation.
fn due_at(now: u64) -> u64 {
    (now + PREPARATION).div_ceil(60) * 60
}

/// The schedule of a minute of the day, in UTC.
fn schedule(at: u64) -> String {
    format!("{} {} * * *", at / 60 % 60, at / 3600 % 24)
}

/// The phases of all objects of a kind that are in one of these phases, as soon as there are so many, or at the time `until`.
fn wait(site: &Site, kind: &str, count: usize, phases: &[&str], until: u64) -> Result<Vec<String>> {
    loop {
        let get = ["get", kind, "-o", "jsonpath={range .items[*]}{.status.phase}{\"\\n\"}{end}"];
        let text = run::output(site.kubectl(DATA).command().args(get))?;
        let found: Vec<String> =
            text.lines().filter(|line| phases.contains(line)).map(str::to_owned).collect();
        if found.len() >= count || now() >= until {
            return Ok(found);
        }
        thread::sleep(INTERVAL);
    }
}

/// Counts Jobs at work from a watch: created and neither complete nor failed.
struct Jobs {
    kubectl: Child,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    at_work: BTreeSet<String>,
    most: usize,
}

impl Seen {
    /// A line of the watch: the name of a Job, and the types of its conditions.
    fn look(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { return };
        if words.any(|word| ["Complete", "Failed"].contains(&word)) {
            self.at_work.remove(name);
        } else {
            self.at_work.insert(name.to_owned());
        }
        self.most = self.most.max(self.at_work.len());
    }
}

impl Jobs {
    fn watch(site: &Site) -> Result<Self> {
        let line = "jsonpath={.metadata.name}{\" \"}{.status.conditions[*].type}{\"\\n\"}";
        let mut kubectl = site
            .kubectl(DATA)
            .command()
            .args(["get", "jobs", "--watch", "--request-timeout=7200s", "-o", line])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start kubectl")?;
        let output = kubectl.stdout.take().context("a pipe was asked for")?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let of_thread = Arc::clone(&seen);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                of_thread.lock().unwrap_or_else(PoisonError::into_inner).look(&line);
            }
        });
        Ok(Self { kubectl, seen })
    }

    fn most(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).most
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_due_at_a_full_minute_that_is_far_enough() {
        assert_eq!(due_at(0), 120);
        assert_eq!(due_at(30), 120);
        assert_eq!(due_at(31), 180);
        assert_eq!(schedule(120), "2 0 * * *");
        assert_eq!(schedule(86_400 + 3_600 * 21 + 60 * 59), "59 21 * * *");
    }

    #[test]
    fn a_job_counts_from_its_creation_to_its_end() {
        let mut seen = Seen::default();
        for line in
            ["a ", "b ", "a SuccessCriteriaMet", "a SuccessCriteriaMet Complete", "c", "b Failed", "d", ""]
        {
            seen.look(line);
        }
        assert_eq!(seen.most, 2);
        assert_eq!(seen.at_work.iter().collect::<Vec<_>>(), ["c", "d"]);
    }
}
