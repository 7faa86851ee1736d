//! A plugin program that misbehaves on request: by the annotation `fail` of an item, by names of keys and volumes. With
//! MISBEHAVING_CALLS=1 (the default) it accepts one call at a time, like a stock plugin.

mod storage;
mod volumes;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lifeboat_plugin_sdk::{
    BackupItemAction, BackupOutput, Error, Object, Plugin, ResourceId, RestoreInput, RestoreItemAction,
    RestoreOutput, Result, Selector, Served, async_trait,
};

fn main() -> Served {
    let calls = std::env::var("MISBEHAVING_CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    Plugin::new()
        .concurrent_calls(calls)
        .backup_item_action("example.io/misbehaving", Misbehaving)
        .restore_item_action("example.io/misbehaving", Misbehaving)
        .object_store("example.io/misbehaving", storage::Files::default())
        .volume_snapshotter("example.io/misbehaving", volumes::Volumes::default())
        .serve()
}

struct Misbehaving;

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Counts concurrent calls.
struct Running;

impl Running {
    fn begin() -> Self {
        MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl BackupItemAction for Misbehaving {
    fn applies_to(&self) -> Selector {
        Selector::everything()
    }

    async fn execute(&self, mut item: Object, _backup: &Object) -> Result<BackupOutput> {
        let _running = Running::begin();
        let mut additional = Vec::new();
        match item.annotation("fail").unwrap_or_default() {
            "error" => return Err(Error::new("the test requested a failure")),
            "panic" => oops(),
            "crash" => std::process::exit(7),
            "hang" => std::future::pending::<()>().await,
            "slow" => tokio::time::sleep(Duration::from_millis(300)).await,
            "flood" => flood(),
            "huge" => item["data"]["a"] = "x".repeat(32 * 1024 * 1024).into(),
            "other kind" => item["kind"] = "Secret".into(),
            "no object" => item.0 = 5.into(),
            "escape" => additional.push(ResourceId::new("secrets", "..", "../../etc/passwd")),
            "itself" => additional.push(ResourceId::new("configmaps", item.namespace(), item.name())),
            "thousands" => {
                additional.extend((0..5_000).map(|n| ResourceId::new("secrets", "ns", format!("s{n}"))));
            }
            "too many" => {
                additional.extend((0..20_000).map(|n| ResourceId::new("secrets", "ns", format!("s{n}"))));
            }
            "unknown type" => additional.push(ResourceId::new("unicorns", "ns", "a").in_group("example.io")),
            _ => {}
        }
        if item.is_object() {
            item.set_annotation("most", &MOST.load(Ordering::SeqCst).to_string());
        }
        Ok(BackupOutput::new(item).with_additional_items(additional))
    }
}

#[async_trait]
impl RestoreItemAction for Misbehaving {
    fn applies_to(&self) -> Selector {
        Selector::everything()
    }

    async fn execute(&self, input: RestoreInput) -> Result<RestoreOutput> {
        Ok(RestoreOutput::new(input.item).with_items_wait_for(Duration::from_secs(3)))
    }

    async fn are_additional_items_ready(&self, items: &[ResourceId], _restore: &Object) -> Result<bool> {
        match items.first().map(|item| item.name.as_str()) {
            Some("error") => Err(Error::new("the test requested a failure")),
            Some("never") => Ok(false),
            Some(name) if name.starts_with("until-") => {
                until(name.trim_start_matches("until-")).await;
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}

/// Tells the test that the question arrived, and waits for its file.
async fn until(file: &str) {
    let directory = std::env::temp_dir();
    let _ = std::fs::write(directory.join(format!("asked-{file}")), "");
    while !directory.join(file).exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Panics, without a panic in our own source.
fn oops() {
    let nothing: Vec<u8> = Vec::new();
    std::hint::black_box(&nothing)[1..].iter().for_each(drop);
}

fn flood() {
    let line = [b'x'; 200];
    let mut out = std::io::stderr().lock();
    for _ in 0..200_000 {
        let _ = out.write_all(&line);
        let _ = out.write_all(b"\n");
    }
}
