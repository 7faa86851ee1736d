//! Expired backups: periodically all Backups are read page by page, and a DeleteBackupRequest is created for each
//! expired one, as a user would do. The reason why one cannot be deleted is shown in upstream's label.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_api::velero::{Backup, DeleteBackupRequest, names};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::garbage::{self, GarbagePlan, LocationState};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::locations;

/// A larger difference of clocks is reported.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(5);

/// How many Backups are read at once.
const PAGE: u32 = 200;

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let frequency = context.settings.storage.garbage_frequency;
    if frequency.is_zero() {
        return shutdown.cancelled().await;
    }
    loop {
        if let Err(error) = collect(context).await {
            tracing::warn!(error = error.chain(), "cannot list expired backups");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(frequency) => {}
        }
    }
}

async fn collect(context: &Context) -> Result<(), ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, &objects::resource_of::<Backup>());
    let now = agreed_time(context).await?;
    let mut locations = BTreeMap::new();
    let mut pending = None;
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let listed = api.list(&page).await.attempt("list Backups")?;
        for backup in &listed.items {
            let json = objects::to_json(backup);
            if !garbage::has_expired(&json, now) {
                continue;
            }
            if pending.is_none() {
                pending = Some(self::pending(context).await?);
            }
            let asked = pending.iter().flatten().any(|name| *name == backup.name_any());
            let state = state(context, &json, &mut locations).await;
            carry_out(context, &api, backup, garbage::plan(&json, state, asked)).await?;
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// The earlier one of this server's time and the API server's: a clock that is ahead deletes nothing. The API server
/// writes its time into an object that it is asked to create without storing it.
async fn agreed_time(context: &Context) -> Result<Timestamp, ApiError> {
    let own = context.now();
    let api = context.objects::<DeleteBackupRequest>();
    let probe = serde_json::from_value(garbage::clock_probe());
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let attempt = "ask the API server for its time";
    let Ok(probe) = probe else { return Ok(Timestamp::MIN) };
    let made: DynamicObject = api.create(&params, &probe).await.attempt(attempt)?;
    let Some(other) = made.creation_timestamp() else {
        tracing::warn!("the API server does not tell its time: no backup expires");
        return Ok(Timestamp::MIN);
    };
    if own.duration_since(other.0).abs() > CLOCKS_APART {
        tracing::warn!(%own, api_server = %other.0, "the clocks of this server and of the API server differ: the earlier one counts");
    }
    Ok(own.min(other.0))
}

async fn carry_out(
    context: &Context,
    api: &Api<DynamicObject>,
    backup: &DynamicObject,
    plan: GarbagePlan,
) -> Result<(), ApiError> {
    let label = |value: Value| json!({"metadata": {"labels": {names::GC_FAILURE: value}}});
    let name = backup.name_any();
    let patch = match plan {
        GarbagePlan::Keep => return Ok(()),
        GarbagePlan::Label(reason) => {
            tracing::warn!(backup = name, reason, "an expired backup cannot be deleted");
            Some(label(reason.into()))
        }
        GarbagePlan::Request { unlabel } => {
            tracing::info!(backup = name, "the backup has expired: requesting its deletion");
            request(context, &name, &backup.uid().unwrap_or_default()).await?;
            unlabel.then(|| label(Value::Null))
        }
    };
    match patch {
        Some(patch) => match objects::merge(api, backup, patch).await {
            Err(error) if !error.is_conflict() && !error.is_not_found() && !error.is_invalid() => Err(error),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

async fn request(context: &Context, name: &str, uid: &str) -> Result<(), ApiError> {
    let resource = objects::resource_of::<DeleteBackupRequest>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    let attempt = format!("request the deletion of Backup {name}");
    let Ok(object) = serde_json::from_value(garbage::request(name, uid)) else { return Ok(()) };
    api.create(&PostParams::default(), &object).await.attempt(attempt).map(drop)
}

/// The backups with a DeleteBackupRequest that is not answered yet.
async fn pending(context: &Context) -> Result<BTreeSet<String>, ApiError> {
    let resource = objects::resource_of::<DeleteBackupRequest>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    let listed = api.list(&ListParams::default()).await.attempt("list DeleteBackupRequests")?;
    let text = |object: &DynamicObject, path: &str| {
        object.data.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let open = listed.items.iter().filter(|request| text(request, "/status/phase") != "Processed");
    Ok(open.map(|request| text(request, "/spec/backupName")).collect())
}

/// What is known about the location of a backup; each is read once per run.
async fn state(
    context: &Context,
    backup: &Value,
    known: &mut BTreeMap<String, LocationState>,
) -> LocationState {
    let name = backup.pointer("/spec/storageLocation").and_then(Value::as_str).unwrap_or_default();
    if let Some(state) = known.get(name) {
        return *state;
    }
    let state = match locations::find(context, name).await {
        Ok(location) => LocationState::of(&location),
        Err(error) => error.state(),
    };
    known.insert(name.to_owned(), state);
    state
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lifeboat_control::Clock;
    use lifeboat_control::testing::{Requests, Verb, When};
    use rstest::rstest;

    use super::*;
    use crate::testing::Cluster;

    fn backup(name: &str, location: &str, expiration: &str) -> Value {
        json!({
            "apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name},
            "spec": {"storageLocation": location},
            "status": {"phase": "Completed", "expiration": expiration},
        })
    }

    #[tokio::test]
    async fn the_deletion_of_an_expired_backup_is_asked_for_once() {
        let cluster = Cluster::new().await;
        cluster.put("backups", &backup("old", "default", "2000-01-01T00:00:00Z"));
        cluster.put("backups", &backup("new", "default", "2999-01-01T00:00:00Z"));
        for _ in 0..2 {
            collect(&cluster.context).await.unwrap();
        }
        let requests = cluster.names("deletebackuprequests");
        assert_eq!(requests.len(), 1);
        assert!(requests[0].starts_with("old-"));
        let request = cluster.get("deletebackuprequests", &requests[0]).unwrap();
        assert_eq!(request["metadata"]["labels"]["velero.io/backup-uid"], "uid-old");

        // An answered request does not prevent the next run from asking again.
        cluster.change("deletebackuprequests", &requests[0], &json!({"status": {"phase": "Processed"}}));
        collect(&cluster.context).await.unwrap();
        assert_eq!(cluster.names("deletebackuprequests").len(), 2);
    }

    #[rstest]
    #[case::of_this_server(true)]
    #[case::of_the_api_server(false)]
    #[tokio::test]
    async fn a_clock_that_is_a_year_ahead_deletes_nothing(#[case] own: bool) {
        let mut cluster = Cluster::new().await;
        let now = Timestamp::now();
        let at = |hours: i64| (now + SignedDuration::from_hours(hours)).to_string();
        cluster.put("backups", &backup("next-month", "default", &at(24 * 30)));
        cluster.put("backups", &backup("old", "default", &at(-1)));
        let ahead = Clock::new(move || now + SignedDuration::from_hours(24 * 365));
        if own {
            let mut core = cluster.context.core.as_ref().clone();
            core.clock = ahead;
            cluster.context.core = Arc::new(core);
        } else {
            cluster.server.set_clock(ahead);
        }
        collect(&cluster.context).await.unwrap();
        let requests = cluster.names("deletebackuprequests");
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert!(requests[0].starts_with("old-"), "{requests:?}");
    }

    #[tokio::test]
    async fn without_a_second_clock_no_backup_expires() {
        let cluster = Cluster::new().await;
        cluster.put("backups", &backup("old", "default", "2000-01-01T00:00:00Z"));
        let list = "/apis/velero.io/v1/namespaces/lifeboat/deletebackuprequests";
        cluster.server.fail(Requests::new(Verb::Create, list), When::Nth(1), 500);
        collect(&cluster.context).await.unwrap_err();
        assert!(cluster.names("deletebackuprequests").is_empty());
    }

    #[tokio::test]
    async fn what_keeps_a_backup_from_going_is_shown_and_taken_back() {
        let cluster = Cluster::new().await;
        cluster.put("backups", &backup("old", "default", "2000-01-01T00:00:00Z"));
        cluster.put("backups", &backup("lost", "nowhere", "2000-01-01T00:00:00Z"));
        cluster.change("backupstoragelocations", "default", &json!({"spec": {"accessMode": "ReadOnly"}}));
        collect(&cluster.context).await.unwrap();
        let label = |name: &str| {
            cluster.get("backups", name).unwrap()["metadata"]["labels"][names::GC_FAILURE].clone()
        };
        assert_eq!((label("old"), label("lost")), ("BSLReadOnly".into(), "BSLNotFound".into()));
        assert!(cluster.names("deletebackuprequests").is_empty());

        cluster.change("backupstoragelocations", "default", &json!({"spec": {"accessMode": "ReadWrite"}}));
        collect(&cluster.context).await.unwrap();
        assert_eq!(label("old"), Value::Null);
        assert_eq!(cluster.names("deletebackuprequests").len(), 1);
    }
}
