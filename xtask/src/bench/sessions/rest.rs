//! A server at rest with many BackupConfigurations on many Repositories: its memory, and its requests to the API server.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::objects::{self, NEVER, RepositoryName};
use super::report::Row;
use super::requests::Counter;
use super::site::{DATA, Site};
use crate::bench::process;
use crate::run;

/// How many BackupConfigurations share a Repository.
const ON_ONE: u32 = 10;
/// How long the schedules may take until all of them are in force.
const PATIENCE: Duration = Duration::from_mins(20);
/// How long the server may settle after that.
const SETTLE: Duration = Duration::from_mins(2);
const INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn measure(site: &Site, configurations: u32, minutes: u32) -> Result<Row> {
    site.drop_namespace(DATA)?;
    site.put_namespace(DATA)?;
    let counter = Counter::start(&site.kubectl(DATA))?;
    let server = site.server_at(&site.plain_kubeconfig(&counter.url())?, &[])?;
    site.apply(&objects_at_rest(site, configurations))?;
    let wanted = usize::try_from(configurations)?;
    let tries = PATIENCE.as_secs() / INTERVAL.as_secs();
    let mut ready = 0;
    for _ in 0..tries {
        ready = count_ready(site)?;
        if ready >= wanted {
            break;
        }
        thread::sleep(INTERVAL);
    }
    ensure!(ready >= wanted, "{ready} of {wanted} schedules are in force\n{}", server.last_words());
    thread::sleep(SETTLE);
    let before = counter.counts();
    let cpu = process::cpu(server.pid())?;
    thread::sleep(Duration::from_mins(u64::from(minutes)));
    let counts = counter.counts().since(&before);
    let (peak, rss) = process::memory(server.pid()).with_context(|| server.last_words())?;
    let row = Row {
        wall_s: Some(f64::from(minutes) * 60.0),
        cpu_s: Some(process::cpu(server.pid())? - cpu),
        server_mb: Some(peak),
        rest_mb: Some(rss),
        sessions: Some(configurations),
        requests: Some(counts.others),
        lease_requests: Some(counts.leases),
        watches: Some(counts.watches),
        ..Row::new("rest", "lifeboat", 0)
    };
    eprintln!("{}", row.line());
    if counts.others > 0 {
        eprintln!("requests at rest: {}", counter.last_others().join(", "));
    }
    drop(server);
    site.bucket.clear("rest")?;
    site.drop_namespace(DATA)?;
    Ok(row)
}

fn objects_at_rest(site: &Site, configurations: u32) -> Vec<Value> {
    let repository = |number: u32| format!("rest-{:03}", number / ON_ONE);
    let mut all = vec![objects::claim(DATA, "data")];
    for number in (0..configurations).step_by(ON_ONE as usize) {
        let name = repository(number);
        let prefix = site.bucket.prefix(&format!("rest/{name}"));
        all.push(objects::repository(
            RepositoryName { namespace: DATA, name: &name },
            &site.storage,
            &prefix,
        ));
    }
    for number in 0..configurations {
        let repository = repository(number);
        let of = RepositoryName { namespace: DATA, name: &repository };
        all.push(objects::configuration(DATA, &format!("rest-{number:04}"), of, "data", NEVER));
    }
    all
}

fn count_ready(site: &Site) -> Result<usize> {
    let get = ["get", "backupconfigurations.stash.appscode.com", "-o"];
    let phases = "jsonpath={range .items[*]}{.status.phase}{\"\\n\"}{end}";
    let text = run::output(site.kubectl(DATA).command().args(get).arg(phases))?;
    Ok(text.lines().filter(|phase| *phase == "Ready").count())
}
