//! Batches of hosts with data: against plain restic, and through the gateway against keys in place. Every round has a new repository and a
//! new server.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::objects::{self, RepositoryName};
use super::report::Row;
use super::restic::Restic;
use super::session::{self, Taken};
use super::site::{DATA, Site, VAULT};
use crate::bench::process;
use crate::bench::volumes::app::{App, name};
use crate::bench::volumes::content::Content;

/// The hosts of the batch that is compared with restic.
const FEW: u32 = 3;
/// The hosts of the batches through the gateway: as many as the box's two nodes have movers at once.
const MANY: u32 = 8;

/// Idle pods with data; each claim is a host.
struct Hosts {
    app: App,
    claims: Vec<String>,
}

impl Hosts {
    fn prepare(site: &Site, count: u32, megabytes: u32) -> Result<Self> {
        let app = App::new(&site.environment, DATA, count, 2)?;
        app.create()?;
        site.put_namespace(DATA)?;
        Content::new(megabytes).fill(&app.directories()?)?;
        Ok(Self { app, claims: (0..count).map(name).collect() })
    }

    fn directories(&self) -> Result<Vec<PathBuf>> {
        self.app.directories()
    }
}

/// One host at a time is compared: how long it took more than plain restic on its directory.
pub(super) fn against_restic(site: &Site, megabytes: u32, rounds: u16) -> Result<Vec<Row>> {
    let hosts = Hosts::prepare(site, FEW, megabytes)?;
    let restic = Restic::new(&site.storage)?;
    let mut rows = Vec::new();
    for round in 0..rounds {
        let place = format!("restic-{round}");
        process::quiet();
        let (hosts_s, wall_s) = restic.back_up(&site.bucket.restic(&place), &hosts.directories()?)?;
        let floor = Row { wall_s: Some(wall_s), hosts_s, ..Row::new("batch", "restic", round) };
        eprintln!("{}", floor.line());
        rows.push(floor);
        site.bucket.clear(&place)?;
        rows.push(batch(site, &hosts, "batch", DATA, "lifeboat", round)?);
    }
    Ok(rows)
}

/// The same hosts in turns, with a repository in their namespace and with one elsewhere.
pub(super) fn through_the_gateway(site: &Site, megabytes: u32, rounds: u16) -> Result<Vec<Row>> {
    let hosts = Hosts::prepare(site, MANY, megabytes)?;
    let mut rows = Vec::new();
    for round in 0..rounds {
        rows.push(batch(site, &hosts, "gateway", DATA, "direct", round)?);
        rows.push(batch(site, &hosts, "gateway", VAULT, "gateway", round)?);
    }
    Ok(rows)
}

/// One session of a batch of all hosts by a new server, on a new Repository in this namespace.
fn batch(site: &Site, hosts: &Hosts, work: &str, namespace: &str, product: &str, round: u16) -> Result<Row> {
    let title = format!("{work}-{product}-{round}");
    let repository = RepositoryName { namespace, name: &title };
    site.apply(&[
        objects::repository(repository, &site.storage, &site.bucket.prefix(&title)),
        objects::batch(DATA, &title, repository, &hosts.claims),
    ])?;
    let server = site.server(&[])?;
    session::ready(site, "backupbatches.stash.appscode.com", &title).with_context(|| server.last_words())?;
    process::quiet();
    let Taken { wall_s, hosts_s } = session::of_batch(site, &title).with_context(|| server.last_words())?;
    let (server_mb, _) = process::memory(server.pid())?;
    ensure!(hosts_s.len() == hosts.claims.len(), "{} hosts of {}", hosts_s.len(), hosts.claims.len());
    let hosts_s = hosts_s.into_iter().map(|(_, seconds)| seconds).collect();
    let row =
        Row { wall_s: Some(wall_s), hosts_s, server_mb: Some(server_mb), ..Row::new(work, product, round) };
    eprintln!("{}", row.line());
    // The next server would look into a Repository whose data is gone.
    for (namespace, kind) in [(DATA, "backupbatches"), (repository.namespace, "repositories")] {
        let object = format!("{kind}.stash.appscode.com/{title}");
        let delete = ["delete", object.as_str(), "--timeout=120s"];
        crate::run::output(site.kubectl(namespace).command().args(delete))?;
    }
    drop(server);
    site.bucket.clear(&title)?;
    Ok(row)
}
