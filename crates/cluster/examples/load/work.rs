//! Times one Backup or Restore from its creation to its end, while an unrelated client sends GETs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::error::Result;
use crate::fill::{self, create};
use crate::types::Type;

/// The interval between GETs, whether or not the previous one was answered.
const BETWEEN_GETS: Duration = Duration::from_millis(20);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How long a Backup or Restore may take.
const TIMEOUT: Duration = Duration::from_mins(30);

pub(crate) async fn work(client: &Client, manifest: &str, kubeconfig: &str) -> Result<()> {
    let object: Value = serde_json::from_slice(&std::fs::read(manifest)?)?;
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let probe = tokio::spawn(probe(unrelated(kubeconfig).await?, latencies.clone()));
    let (wall, status) = until_the_end(client, object).await?;
    probe.abort();
    let mut latencies = latencies.lock().map_err(|_| "a GET stopped unexpectedly")?.clone();
    latencies.sort_by(f64::total_cmp);
    let progress = &status["progress"];
    let items = progress["itemsBackedUp"].as_u64().or_else(|| progress["itemsRestored"].as_u64());
    let report = json!({
        "wall_s": wall,
        "phase": status["phase"],
        "items": items,
        "warnings": status["warnings"].as_u64().unwrap_or_default(),
        "errors": status["errors"].as_u64().unwrap_or_default(),
        "gets": latencies.len(),
        "get_p50_ms": percentile(&latencies, 50),
        "get_p99_ms": percentile(&latencies, 99),
    });
    println!("{report}");
    Ok(())
}

async fn unrelated(kubeconfig: &str) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Reads one small object until the task is stopped. A GET that is sent late counts from the time at which it was due.
async fn probe(client: Client, latencies: Arc<Mutex<Vec<f64>>>) {
    let api: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    let mut ticks = interval(BETWEEN_GETS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        let due = ticks.tick().await;
        let (api, latencies) = (api.clone(), latencies.clone());
        tokio::spawn(async move {
            if api.get("kube-root-ca.crt").await.is_ok()
                && let Ok(mut latencies) = latencies.lock()
            {
                latencies.push(due.elapsed().as_secs_f64() * 1000.0);
            }
        });
    }
}

async fn until_the_end(client: &Client, object: Value) -> Result<(f64, Value)> {
    let (plural, kind) =
        if object["kind"] == "Backup" { ("backups", "Backup") } else { ("restores", "Restore") };
    let kind = Type { api_version: "velero.io/v1", plural, kind, namespaced: true, fields: |_| Value::Null };
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (field("name"), field("namespace"));
    let api: Api<DynamicObject> = fill::api(client, &kind, Some(&namespace));
    let began = Instant::now();
    create(&api, object).await?;
    loop {
        let status = api.get(&name).await?.data["status"].take();
        let phase = status["phase"].as_str().unwrap_or_default();
        if ["Completed", "PartiallyFailed", "Failed", "FailedValidation"].contains(&phase) {
            return Ok((began.elapsed().as_secs_f64(), status));
        }
        if began.elapsed() > TIMEOUT {
            return Err(format!("{name} did not end: {status}").into());
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

/// The percentile of sorted numbers.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100);
    sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()
}
