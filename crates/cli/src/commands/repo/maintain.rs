//! `lifeboat repo maintain`: asks the server to maintain repositories now and, with `--wait`, waits for the end.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::time;
use lifeboat_plan::transfer::repository_notes::MAINTAIN_SINCE;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::objects::{REPOSITORY, Selection};
use crate::printer;
use crate::settings::Settings;

/// How often the BackupRepository is read while waiting.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Wait until it has ended
    #[arg(short, long)]
    wait: bool,
}

pub(crate) async fn run(settings: &Settings, args: &Args) -> Result<(), CliError> {
    let api = REPOSITORY.api(&settings.client().await?, &settings.namespace);
    let found = REPOSITORY.chosen(&api, &args.selection.names, args.selection.selector.as_deref()).await?;
    if found.is_empty() {
        eprintln!("No repositories of volume data in namespace {}.", settings.namespace);
    }
    // Times in objects have whole seconds: a maintenance that started in this second may be an earlier one.
    let since = Timestamp::now() + SignedDuration::from_secs(1);
    for repository in &found {
        let patch = json!({"metadata": {"annotations": {MAINTAIN_SINCE: time::seconds(since)}}});
        objects::merge(&api, repository, patch).await?;
        printer::line(&format!("Maintenance of repository {:?} requested.", repository.name_any()));
    }
    let mut failed = Vec::new();
    for name in found.iter().filter(|_| args.wait).map(ResourceExt::name_any) {
        let ended = loop {
            let object = api.get(&name).await.attempt(format!("read BackupRepository {name}"))?;
            if let Some(ended) = ended(&object, since) {
                break ended;
            }
            tokio::time::sleep(PAUSE).await;
        };
        match ended {
            Ok(()) => printer::line(&format!("Repository {name:?} is maintained.")),
            Err(message) => failed.push(format!("maintenance of repository {name:?} failed: {message}")),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(CliError::ended(failed.join("; "))) }
}

/// The result of the requested maintenance, once it has ended.
fn ended(repository: &DynamicObject, since: Timestamp) -> Option<Result<(), String>> {
    let runs = repository.data.pointer("/status/recentMaintenance").and_then(Value::as_array)?;
    let run = runs.last()?;
    let begun: Timestamp = run["startTimestamp"].as_str()?.parse().ok()?;
    if begun.as_second() < since.as_second() {
        return None;
    }
    match run["result"].as_str() {
        Some("Succeeded") => Some(Ok(())),
        _ => Some(Err(run["message"].as_str().unwrap_or_default().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(json!([]), None)]
    #[case::an_earlier_one(json!([{"result": "Succeeded", "startTimestamp": "2026-11-16T11:59:59Z"}]), None)]
    #[case::this_one(json!([{"result": "Succeeded", "startTimestamp": "2026-11-16T12:00:00Z"}]), Some(Ok(())))]
    #[case::failed(
        json!([{"result": "Failed", "startTimestamp": "2026-11-16T12:00:01Z", "message": "locked"}]),
        Some(Err("locked".to_owned())))]
    fn the_run_that_was_asked_for(#[case] runs: Value, #[case] expected: Option<Result<(), String>>) {
        let object = json!({"apiVersion": "velero.io/v1", "kind": "BackupRepository", "metadata": {"name": "r"},
            "status": {"recentMaintenance": runs}});
        let object = serde_json::from_value(object).unwrap();
        assert_eq!(ended(&object, "2026-11-16T12:00:00Z".parse().unwrap()), expected);
    }
}
