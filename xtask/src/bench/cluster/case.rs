//! Runs one case: fills the cluster, runs the products in turns, each in a new process, and returns rows.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::load::{LoadAt, RunResult};
use super::product::{Product, Products};
use super::report::Row;
use super::{Case, Data};
use crate::bench::process;

const SCHEDULES: u32 = 1000;
/// How long idle servers are measured, and how long they may settle before that.
const AT_REST: Duration = Duration::from_mins(1);
const SETTLE: Duration = Duration::from_secs(20);

pub(super) struct Bench<'a> {
    pub(super) products: &'a Products,
    pub(super) load: LoadAt<'a>,
    pub(super) rounds: u16,
    /// True if two builds are compared: in each round, every product makes a backup and its restore before the next product.
    pub(super) in_turns: bool,
}

impl Bench<'_> {
    pub(super) fn run(&self, case: &Case) -> Result<Vec<Row>> {
        if case.data == Data::Rest {
            let rounds = if self.in_turns { self.rounds } else { 1 };
            let turns = (0..rounds).flat_map(|_| &case.products);
            return turns.map(|product| self.at_rest(case, *product)).collect();
        }
        let data = case.data.objects();
        self.load.empty(&data)?;
        let rows = self.filled(case, &data);
        self.load.empty(&data)?;
        rows
    }

    fn filled(&self, case: &Case, data: &str) -> Result<Vec<Row>> {
        eprintln!("{data}: {} objects", case.objects);
        self.load.fill(data, case.objects)?;
        let remembered = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
        self.load.remember(data, remembered.path())?;
        let last = self.rounds - 1;
        let mut rows = Vec::new();
        for round in 0..self.rounds {
            for product in &case.products {
                let backup = self.backup(case, *product, round);
                rows.push(self.work(case, "backup", *product, &backup)?);
                if self.in_turns {
                    rows.push(self.restored(case, *product, round, remembered.path())?);
                }
            }
        }
        if !self.in_turns {
            for product in &case.products {
                rows.push(self.restored(case, *product, last, remembered.path())?);
            }
        }
        Ok(rows)
    }

    /// Deletes the objects, restores the product's backup of a round, and compares the restored objects.
    fn restored(&self, case: &Case, product: Product, round: u16, remembered: &Path) -> Result<Row> {
        let data = case.data.objects();
        self.load.empty(&data)?;
        let restore = self.restore(case, product, round);
        let row = self.work(case, "restore", product, &restore)?;
        self.load.verify(&data, remembered).with_context(|| format!("restored by {}", product.name()))?;
        Ok(row)
    }

    /// Measures one Backup or Restore by a new process.
    fn work(&self, case: &Case, work: &str, product: Product, object: &Value) -> Result<Row> {
        let server = self.products.start(product)?;
        process::quiet();
        let (cpu, requests) = (process::cpu(server.pid())?, self.products.requests(product)?);
        let ended: RunResult = self.load.work(object).with_context(|| server.last_words())?;
        let name = &object["metadata"]["name"];
        ensure!(
            ended.phase == "Completed",
            "{work} {name} by {}: {} with {} errors and {} warnings\n{}",
            product.name(),
            ended.phase,
            ended.errors,
            ended.warnings,
            server.last_words()
        );
        let (peak_rss_mb, rss_mb) = process::memory(server.pid())?;
        let items = ended.items.unwrap_or_default();
        let row = Row {
            work: work.to_owned(),
            data: format!("{}-{}", case.data.name(), case.objects),
            product: product.name(),
            wall_s: ended.wall_s,
            items,
            #[allow(clippy::cast_precision_loss)] // for people
            items_per_s: items as f64 / ended.wall_s,
            cpu_s: process::cpu(server.pid())? - cpu,
            peak_rss_mb,
            rss_mb,
            requests: self.products.requests(product)? - requests,
            action_s: match work {
                "restore" => self.products.action_seconds(product, name.as_str().unwrap_or_default())?,
                _ => None,
            },
            get_p50_ms: Some(ended.get_p50_ms),
            get_p99_ms: Some(ended.get_p99_ms),
        };
        eprintln!("{}", row.line());
        Ok(row)
    }

    /// Measures an idle server with many objects.
    fn at_rest(&self, case: &Case, product: Product) -> Result<Row> {
        self.load.rest(&self.products.home(product).namespace, SCHEDULES, case.objects - SCHEDULES)?;
        let server = self.products.start(product)?;
        thread::sleep(SETTLE);
        let (cpu, requests) = (process::cpu(server.pid())?, self.products.requests(product)?);
        thread::sleep(AT_REST);
        let (peak_rss_mb, rss_mb) = process::memory(server.pid())?;
        let row = Row {
            work: "rest".to_owned(),
            data: format!("{}-{}", case.data.name(), case.objects),
            product: product.name(),
            wall_s: AT_REST.as_secs_f64(),
            items: u64::from(case.objects),
            items_per_s: 0.0,
            cpu_s: process::cpu(server.pid())? - cpu,
            peak_rss_mb,
            rss_mb,
            requests: self.products.requests(product)? - requests,
            action_s: None,
            get_p50_ms: None,
            get_p99_ms: None,
        };
        eprintln!("{}", row.line());
        Ok(row)
    }

    fn backup(&self, case: &Case, product: Product, round: u16) -> Value {
        let mut spec = json!({
            "includedNamespaces": namespaces(case.data),
            "excludedResources": ["events", "events.events.k8s.io"],
            "storageLocation": "default",
            "snapshotVolumes": false,
            "ttl": "720h0m0s",
        });
        if case.data == Data::Mixed {
            spec["includeClusterResources"] = json!(true);
            spec["labelSelector"] = json!({"matchLabels": {"bench.lifeboat.io/data": "mixed"}});
        }
        self.object("Backup", product, &name(case, product, round), &spec)
    }

    /// The Restore of the product's backup of a round.
    fn restore(&self, case: &Case, product: Product, round: u16) -> Value {
        let name = name(case, product, round);
        let spec = json!({"backupName": name, "includedNamespaces": ["*"]});
        self.object("Restore", product, &name, &spec)
    }

    fn object(&self, kind: &str, product: Product, name: &str, spec: &Value) -> Value {
        let namespace = &self.products.home(product).namespace;
        let metadata = json!({"name": name, "namespace": namespace});
        json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    }
}

fn name(case: &Case, product: Product, round: u16) -> String {
    format!("{}-{}-{}-{round}", case.data.name(), case.objects, product.name())
}

/// The namespaces that the program `load` fills.
fn namespaces(data: Data) -> Vec<String> {
    (0..20).map(|number| format!("bench-{}-{number:02}", data.objects())).collect()
}
