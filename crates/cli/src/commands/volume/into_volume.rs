//! `lifeboat volume restore … --to-volume`: restores files of a backup into the volume of a running pod, by a mover on
//! the pod's node. The files are written into a new directory, so that no file of the application changes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::velero::{Backup, DataMovePhase, PodVolumeRestore};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::pod_volumes::files::{self, Files, Mounted};
use serde_json::Value;

use super::bucket::OpenBucket;
use super::restore::Args;
use crate::error::CliError;
use crate::objects::{BACKUP, typed};
use crate::settings::Settings;
use crate::units::bytes;

/// How often the object is read.
const PACE: Duration = Duration::from_secs(1);

/// `NAMESPACE/CLAIM` or `NAMESPACE/POD/VOLUME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    namespace: String,
    volume: String,
}

/// Why the target of the restored files is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TargetError {
    #[error("expected NAMESPACE/CLAIM, or NAMESPACE/POD/VOLUME for a volume without a claim")]
    Target,
    #[error("expected the name of a directory, without slashes")]
    Directory,
}

pub(super) fn target(text: &str) -> Result<Target, TargetError> {
    let parts: Vec<_> = text.split('/').collect();
    match parts.as_slice() {
        [namespace, volume @ ..]
            if matches!(volume.len(), 1 | 2) && parts.iter().all(|part| !part.is_empty()) =>
        {
            Ok(Target { namespace: (*namespace).to_owned(), volume: volume.join("/") })
        }
        _ => Err(TargetError::Target),
    }
}

pub(super) fn directory(text: &str) -> Result<String, TargetError> {
    if text.is_empty() || text.contains('/') || matches!(text, "." | "..") {
        return Err(TargetError::Directory);
    }
    Ok(text.to_owned())
}

pub(super) async fn run(
    settings: &Settings,
    args: &Args,
    bucket: &OpenBucket,
    target: &Target,
) -> Result<(), CliError> {
    let client = settings.client().await?;
    let object = BACKUP.find(&BACKUP.api(&client, &settings.namespace), &args.backup).await?;
    let backup: Backup = typed(&object)?;
    let (source, snapshot) = bucket.named(&args.backup, &args.volume.volume).await?;
    let to = mounted(&client, target).await?;
    let into = args.directory.clone().unwrap_or_else(|| {
        let now = Timestamp::now().strftime("%Y%m%d-%H%M%S");
        format!("restored-{}-{now}", args.backup)
    });
    let files = Files {
        lifeboat: &settings.namespace,
        backup: &args.backup,
        location: backup.spec.storage_location.as_deref().unwrap_or_default(),
        source: &source,
        snapshot: &snapshot,
        path: args.volume.path.as_deref(),
        into: &into,
    };
    let api = objects::namespaced(&client, &settings.namespace, &objects::resource_of::<PodVolumeRestore>());
    let wanted: DynamicObject = serde_json::from_value(files::object(&files, &to))
        .map_err(|error| CliError::failed("cannot make a PodVolumeRestore", error))?;
    let made = api.create(&PostParams::default(), &wanted).await.attempt("create a PodVolumeRestore")?;
    let name = made.name_any();
    let ended = bucket.session.interruptible(followed(&api, &name)).await;
    // Deleting the object also cancels a restore that is still running.
    let gone = api.delete(&name, &DeleteParams::default()).await.attempt("delete a PodVolumeRestore");
    let status = ended?;
    if let Err(error) = gone {
        eprintln!("PodVolumeRestore {name} could not be deleted: {}", error.chain());
    }
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    if text("phase") != "Completed" {
        return Err(CliError::ended(format!(
            "the restore into directory {into} is incomplete: {}",
            text("message")
        )));
    }
    let done = status["progress"]["totalBytes"].as_u64().unwrap_or_default();
    eprintln!(
        "Restored {} into directory {into} of volume {} (pod {}/{}), verified.",
        bytes(done),
        format_args!("{}/{}", target.namespace, target.volume),
        to.namespace,
        to.pod
    );
    Ok(())
}

async fn mounted(client: &Client, target: &Target) -> Result<Mounted, CliError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &target.namespace);
    let attempt = format!("list Pods of namespace {}", target.namespace);
    let pods = api.list(&ListParams::default()).await.attempt(attempt)?;
    let pods: Vec<Value> = pods.items.iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect();
    files::mounted(&pods, &target.namespace, &target.volume).map_err(|error| {
        CliError::refused(error.to_string())
            .help("start a pod that mounts it, or restore the files to this machine with --to DIRECTORY")
    })
}

/// Waits until the restore has ended and returns its status.
async fn followed(api: &Api<DynamicObject>, name: &str) -> Result<Value, CliError> {
    let mut said = String::new();
    loop {
        let found = api.get_opt(name).await.attempt(format!("read PodVolumeRestore {name}"))?;
        let Some(found) = found else {
            return Err(CliError::ended(format!("PodVolumeRestore {name} was deleted before its end")));
        };
        let status = &found.data["status"];
        if DataMovePhase::from(status["phase"].as_str().unwrap_or_default()).is_terminal() {
            return Ok(status.clone());
        }
        let line = line(status);
        if line != said {
            eprintln!("{line}");
            said = line;
        }
        tokio::time::sleep(PACE).await;
    }
}

fn line(status: &Value) -> String {
    let phase = status["phase"].as_str().filter(|phase| !phase.is_empty()).unwrap_or("New");
    let number = |field: &str| status["progress"][field].as_u64();
    match (number("bytesDone"), number("totalBytes"), status["message"].as_str()) {
        (Some(done), Some(total), _) if total > 0 => {
            format!("{phase}: {} of {}", bytes(done), bytes(total))
        }
        (_, _, Some(message)) if !message.is_empty() => format!("{phase}: {message}"),
        _ => phase.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_is_named_by_its_claim_or_its_pod() {
        let named = |text: &str| target(text).map(|target| (target.namespace, target.volume));
        assert_eq!(named("shop/data"), Ok(("shop".to_owned(), "data".to_owned())));
        assert_eq!(named("shop/db-0/cache"), Ok(("shop".to_owned(), "db-0/cache".to_owned())));
        for text in ["shop", "shop/", "/data", "a/b/c/d", ""] {
            assert!(target(text).is_err(), "{text}");
        }
        assert!(directory("back").is_ok() && directory("a/b").is_err() && directory("..").is_err());
    }

    #[test]
    fn progress_is_a_line() {
        assert_eq!(line(&Value::Null), "New");
        assert_eq!(line(&json!({"phase": "Accepted", "message": "2 before it"})), "Accepted: 2 before it");
        let status = json!({"phase": "InProgress", "progress": {"bytesDone": 1024, "totalBytes": 2048}});
        assert_eq!(line(&status), "InProgress: 1.000 KiB of 2.000 KiB");
    }
}
