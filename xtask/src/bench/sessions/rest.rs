//! A server at rest with many BackupConfigurations on many Repositories in several namespaces: its memory, and its requests to the API
//! server.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::many::{self, BOUND, IN_FORCE};
use super::objects::{self, NEVER, RepositoryName};
use super::report::Row;
use super::requests::Counter;
use super::site::{DATA, Site};
use crate::bench::process;
use crate::servers::Server;

/// How many BackupConfigurations share a Repository, and how many are in one namespace.
const ON_ONE: u32 = 10;
const IN_ONE: u32 = 50;
/// How long the claims and the schedules may take until all of them are in force.
const PATIENCE: Duration = Duration::from_mins(10);
/// The server has settled after so long without a request, and is measured after so long in any case.
const QUIET: Duration = Duration::from_secs(30);
const SETTLE: Duration = Duration::from_mins(2);
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn measure(site: &Site, configurations: u32, minutes: u32) -> Result<Row> {
    let tenants = site.tenants(configurations.div_ceil(IN_ONE))?;
    let counter = Counter::start(&site.kubectl(DATA))?;
    let server = site.server_at(&site.plain_kubeconfig(&counter.url())?, &[])?;
    let rest = Rest { site, namespaces: &tenants.names, configurations };
    rest.prepare().with_context(|| server.last_words())?;
    settle(&counter);
    let row = at_rest(&counter, &server, minutes).with_context(|| server.last_words())?;
    let row = Row { sessions: Some(configurations), ..row };
    eprintln!("{}", row.line());
    if row.requests.is_some_and(|requests| requests > 0) {
        eprintln!("requests at rest: {}", counter.last_others().join(", "));
    }
    drop(server);
    site.bucket.clear("rest")?;
    Ok(row)
}

fn at_rest(counter: &Counter, server: &Server, minutes: u32) -> Result<Row> {
    let before = counter.counts();
    let cpu = process::cpu(server.pid())?;
    thread::sleep(Duration::from_mins(u64::from(minutes)));
    let counts = counter.counts().since(&before);
    ensure!(
        counts.leases > 0,
        "no renewal of the lease was counted, so the requests went elsewhere or nowhere"
    );
    let (peak, rss) = process::memory(server.pid())?;
    Ok(Row {
        wall_s: Some(f64::from(minutes) * 60.0),
        cpu_s: Some(process::cpu(server.pid())? - cpu),
        server_mb: Some(peak),
        rest_mb: Some(rss),
        requests: Some(counts.others),
        lease_requests: Some(counts.leases),
        watches: Some(counts.watches),
        ..Row::new("rest", "lifeboat", 0)
    })
}

/// Waits until the server has done what followed from the last schedules.
fn settle(counter: &Counter) {
    let began = Instant::now();
    let (mut seen, mut since) = (counter.counts().others, Instant::now());
    while since.elapsed() < QUIET && began.elapsed() < SETTLE {
        thread::sleep(INTERVAL);
        let now = counter.counts().others;
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
}

struct Rest<'a> {
    site: &'a Site,
    namespaces: &'a [String],
    configurations: u32,
}

impl Rest<'_> {
    fn prepare(&self) -> Result<()> {
        let claims: Vec<Value> = self.namespaces.iter().map(|name| objects::claim(name, "data")).collect();
        self.site.apply(&claims)?;
        let bound = many::wait(self.site, &BOUND, claims.len(), PATIENCE)?;
        ensure!(bound >= claims.len(), "{bound} of {} claims have a volume", claims.len());
        self.site.apply(&self.objects())?;
        let wanted = usize::try_from(self.configurations)?;
        let ready = many::wait(self.site, &IN_FORCE, wanted, PATIENCE)?;
        ensure!(ready >= wanted, "{ready} of {wanted} schedules are in force");
        Ok(())
    }

    /// Repositories, each with its BackupConfigurations.
    fn objects(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for number in 0..self.configurations {
            let Some(namespace) =
                usize::try_from(number / IN_ONE).ok().and_then(|at| self.namespaces.get(at))
            else {
                continue;
            };
            let name = format!("rest-{:03}", number / ON_ONE);
            let repository = RepositoryName { namespace, name: &name };
            if number % ON_ONE == 0 {
                let prefix = self.site.bucket.prefix(&format!("rest/{name}"));
                all.push(objects::repository(repository, &self.site.storage, &prefix));
            }
            let configuration = format!("rest-{number:04}");
            all.push(objects::configuration(namespace, &configuration, repository, "data", NEVER));
        }
        all
    }
}
