//! Many sessions that are due in one second: all of them end, and there are never more movers at work than `--movers-at-once`. They are in
//! namespaces of ten, each with a Repository, as those of many tenants are.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::many::{self, BOUND, IN_FORCE, Wanted};
use super::movers::Movers;
use super::objects::{self, NEVER, RepositoryName};
use super::report::Row;
use super::site::Site;
use crate::bench::process;
use crate::servers::Server;

/// Fewer than the nodes and the repositories would take, so that this limit is the one that is met.
const AT_ONCE: usize = 6;
/// How many BackupConfigurations are in one namespace.
const IN_ONE: u32 = 10;
const REPOSITORY: &str = "burst";
/// How long the server has at least to see the schedules before they are due, in seconds.
const NOTICE: u64 = 60;
/// How long all claims, and all BackupConfigurations, may take until they are ready.
const PREPARATION: Duration = Duration::from_mins(5);
/// How long all sessions may take.
const PATIENCE: Duration = Duration::from_mins(15);

pub(super) fn measure(site: &Site, sessions: u32) -> Result<Row> {
    let tenants = site.tenants(sessions.div_ceil(IN_ONE))?;
    let server = site.server(&[
        &format!("--movers-at-once={AT_ONCE}"),
        "--movers-per-node=50",
        "--movers-per-repository=50",
    ])?;
    let burst = Burst { site, namespaces: &tenants.names, sessions };
    let row = burst.run(&server).with_context(|| server.last_words())?;
    eprintln!("{}", row.line());
    drop(server);
    site.bucket.clear("burst")?;
    Ok(row)
}

struct Burst<'a> {
    site: &'a Site,
    namespaces: &'a [String],
    sessions: u32,
}

impl Burst<'_> {
    fn run(&self, server: &Server) -> Result<Row> {
        let count = usize::try_from(self.sessions)?;
        // A session whose claim has no volume yet would wait for that instead of for its turn.
        self.site.apply(&self.places())?;
        self.await_all(&BOUND, count, "claims have a volume")?;
        self.site.apply(&self.configurations(NEVER))?;
        self.await_all(&IN_FORCE, count, "BackupConfigurations are Ready")?;
        let due = due_at(now());
        self.site.apply(&self.configurations(&schedule(due)))?;
        self.await_all(&IN_FORCE, count, "new schedules are in force")?;
        ensure!(
            now() < due,
            "the schedules were in force only after they had been due; make --sessions smaller"
        );
        let movers = Movers::watch(self.site)?;
        thread::sleep(Duration::from_secs(due.saturating_sub(now())));
        let began = Instant::now();
        let has_ended =
            |words: &[&str]| matches!(words, [name, "Succeeded" | "Failed" | "Skipped"] if is_due(name, due));
        let wanted = Wanted { is_so: &has_ended, ..SESSIONS };
        many::wait(self.site, &wanted, count, PATIENCE)?;
        let wall_s = began.elapsed().as_secs_f64();
        let most = movers.most()?;
        let has_succeeded = |words: &[&str]| matches!(words, [name, "Succeeded"] if is_due(name, due));
        let succeeded = many::count_of(&many::list(self.site, &wanted)?, has_succeeded);
        let (server_mb, _) = process::memory(server.pid())?;
        Ok(Row {
            wall_s: Some(wall_s),
            server_mb: Some(server_mb),
            sessions: Some(self.sessions),
            succeeded: Some(succeeded),
            movers_at_once: Some(most),
            movers_limit: Some(AT_ONCE),
            ..Row::new("burst", "lifeboat", 0)
        })
    }

    fn await_all(&self, wanted: &Wanted<'_>, count: usize, what: &str) -> Result<()> {
        let found = many::wait(self.site, wanted, count, PREPARATION)?;
        ensure!(found >= count, "{found} of {count} {what} after {} s", PREPARATION.as_secs());
        Ok(())
    }

    /// The namespace and the name of each BackupConfiguration.
    fn names(&self) -> impl Iterator<Item = (&String, String)> {
        let namespaces = self.namespaces.iter().flat_map(|name| std::iter::repeat_n(name, IN_ONE as usize));
        namespaces.zip(0..self.sessions).map(|(namespace, number)| (namespace, format!("burst-{number:03}")))
    }

    /// Repositories and claims.
    fn places(&self) -> Vec<Value> {
        let repository = |namespace: &String| {
            let prefix = self.site.bucket.prefix(&format!("burst/{namespace}"));
            objects::repository(RepositoryName { namespace, name: REPOSITORY }, &self.site.storage, &prefix)
        };
        let claims = self.names().map(|(namespace, name)| objects::claim(namespace, &name));
        self.namespaces.iter().map(repository).chain(claims).collect()
    }

    fn configurations(&self, schedule: &str) -> Vec<Value> {
        let configuration = |(namespace, name): (&String, String)| {
            let repository = RepositoryName { namespace, name: REPOSITORY };
            objects::configuration(namespace, &name, repository, &name, schedule)
        };
        self.names().map(configuration).collect()
    }
}

/// Sessions by name and phase.
const SESSIONS: Wanted<'static> = Wanted {
    kind: "backupsessions.stash.appscode.com",
    fields: "{.metadata.name} {.status.phase}",
    is_so: &|_| false,
};

/// Whether a session is that of this due time: its name ends with the second.
fn is_due(name: &str, due: u64) -> bool {
    name.rsplit_once('-').is_some_and(|(_, second)| second == due.to_string())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The first full minute after the notice.
fn due_at(now: u64) -> u64 {
    (now + NOTICE).div_ceil(60) * 60
}

/// The schedule of a minute of the day, in UTC.
fn schedule(at: u64) -> String {
    format!("{} {} * * *", at / 60 % 60, at / 3600 % 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_due_at_a_full_minute_that_is_far_enough() {
        assert_eq!(due_at(0), 60);
        assert_eq!(due_at(1), 120);
        assert_eq!(due_at(60), 120);
        assert_eq!(schedule(120), "2 0 * * *");
        assert_eq!(schedule(86_400 + 3_600 * 21 + 60 * 59), "59 21 * * *");
    }

    #[test]
    fn a_session_by_hand_or_of_another_minute_does_not_count() {
        assert!(is_due("burst-007-1200", 1200));
        for other in ["burst-007-1260", "burst-007", "1200", "burst-007-01200"] {
            assert!(!is_due(other, 1200), "{other}");
        }
    }
}
