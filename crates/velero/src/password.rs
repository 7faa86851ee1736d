//! The repository password of this installation: makes sure that the Secret has one (see `plan::password`), reads it
//! for the controllers, which show whether it was ever exported, and shows the same in the metrics.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Event, watcher};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::velero::names;
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_plan::password::{
    self, EXPORTED_ANNOTATION, PasswordError, PasswordPlan, PasswordSecret, SECRET,
};
use rand::distr::{Alphanumeric, SampleString};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;

/// How long the controllers wait for the first try.
const FIRST_TRY: Duration = Duration::from_secs(15);

/// How often others may write the Secret at the same time before that is an error.
const CONFLICTS: usize = 5;

/// Why the Secret could not be checked or written.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Password(#[from] PasswordError),
}

/// Tries once, with a time limit; false if [`ensure`] has to try later.
pub(crate) async fn first_try(context: &Context) -> bool {
    let settled = timeout(FIRST_TRY, settle(&context.client, &context.namespace, None)).await;
    match settled {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => warn(&error),
        Err(_elapsed) => tracing::warn!("cannot check the repository password in time"),
    }
    false
}

/// Makes sure that the Secret has a password; retries until it has.
pub(crate) async fn ensure(context: &Context, shutdown: &CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(Duration::from_secs(10)) => {}
        }
        match settle(&context.client, &context.namespace, None).await {
            Ok(()) => return,
            Err(error) => warn(&error),
        }
    }
}

fn warn(error: &SettleError) {
    tracing::warn!(error = error as &dyn std::error::Error, "cannot check the repository password");
}

/// Keeps the metrics of the password up to date with the Secret, also if there is no location yet.
pub(crate) async fn follow(context: &Context, shutdown: &CancellationToken) {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &context.namespace);
    let only = dynamic::watching().fields(&format!("metadata.name={SECRET}"));
    let mut changes = pin!(watcher(secrets, only).default_backoff());
    let mut listed = None;
    loop {
        let change = tokio::select! {
            () = shutdown.cancelled() => return,
            change = changes.next() => change,
        };
        match change {
            Some(Ok(Event::Init)) => listed = None,
            Some(Ok(Event::InitApply(secret))) => listed = Some(holds(secret)),
            Some(Ok(Event::InitDone)) => show(context, listed.as_ref()),
            Some(Ok(Event::Apply(secret))) => {
                show(context, Some(&holds(secret)));
                repair(context).await;
            }
            Some(Ok(Event::Delete(_))) => {
                show(context, None);
                tracing::warn!(
                    "Secret {SECRET} was deleted: a new repository password is created; keep the old one for existing repositories"
                );
                repair(context).await;
            }
            Some(Err(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the watch of the repository password failed; trying again"
                );
            }
            None => return,
        }
    }
}

/// Repairs the Secret after it was changed: a key may be missing.
async fn repair(context: &Context) {
    if let Err(error) = settle(&context.client, &context.namespace, None).await {
        warn(&error);
    }
}

fn show(context: &Context, secret: Option<&PasswordSecret>) {
    let exported = secret.is_some_and(|secret| password::exported_at(secret).is_some());
    context.metrics.set_password(exported, password::uses_public_default(secret));
}

/// Makes sure that the Secret has a password: `given`, or a random one. If another process (a server beside `lifeboat
/// install`) writes it at the same time, one of the two gets a conflict; then the Secret is read again and decided
/// on.
pub async fn settle(client: &Client, namespace: &str, given: Option<&str>) -> Result<(), SettleError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut conflicts = 0;
    loop {
        let existing = read(client, namespace).await?;
        let plan = password::plan(existing.as_ref(), given, &random_password())?;
        match carry_out(&secrets, plan).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes the plan, if the Secret has not changed since it was read: after a conflict the plan must be made again.
async fn carry_out(secrets: &Api<Secret>, plan: PasswordPlan) -> Result<(), ApiError> {
    let attempt = format!("write Secret {SECRET}");
    match plan {
        PasswordPlan::Keep => Ok(()),
        PasswordPlan::Create { key, password } => {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(SECRET.to_owned()),
                    labels: Some(labels()),
                    ..ObjectMeta::default()
                },
                data: Some([(key.to_owned(), ByteString(password.into_bytes()))].into()),
                ..Secret::default()
            };
            secrets.create(&PostParams::default(), &secret).await.attempt(attempt).map(drop)
        }
        PasswordPlan::AddKey { key, password, version } => {
            // A new password was not exported yet.
            let patch = serde_json::json!({
                "metadata": {
                    "resourceVersion": version,
                    "annotations": {EXPORTED_ANNOTATION: null},
                    "labels": labels(),
                },
                "stringData": {key: password},
            });
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            secrets.patch(SECRET, &params, &Patch::Merge(patch)).await.attempt(attempt).map(drop)
        }
    }
}

/// Keeps the Secret out of backups: the password opens every repository and must not be stored beside them.
fn labels() -> BTreeMap<String, String> {
    let labels = [("app.kubernetes.io/name", "lifeboat"), (names::EXCLUDE_FROM_BACKUP, "true")];
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// The Secret's content; `None` if it does not exist.
pub async fn read(client: &Client, namespace: &str) -> Result<Option<PasswordSecret>, ApiError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets.get_opt(SECRET).await.attempt(format!("read Secret {namespace}/{SECRET}"))?;
    Ok(found.map(holds))
}

fn holds(secret: Secret) -> PasswordSecret {
    PasswordSecret {
        annotations: secret.annotations().iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        version: secret.resource_version(),
        data: secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect(),
    }
}

/// 32 letters and digits: 190 bits.
pub fn random_password() -> String {
    Alphanumeric.sample_string(&mut rand::rng(), 32)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use lifeboat_control::testing::ApiServer;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const PATH: &str = "/api/v1/namespaces/n/secrets/velero-repo-credentials";

    /// An API server with one Secret, into which another client writes `theirs` just before our first write; and the
    /// Secret as it was then.
    fn contested(stored: Option<Value>, theirs: Value) -> (ApiServer, Arc<Mutex<Option<Value>>>) {
        let (server, written) = (ApiServer::default(), Arc::new(Mutex::new(None)));
        if let Some(stored) = stored {
            server.put(PATH, stored);
        }
        let kept = written.clone();
        server.answer(move |server, asked| {
            let mut kept = kept.lock().unwrap();
            if asked.method != "GET" && kept.is_none() {
                server.put(PATH, theirs.clone());
                *kept = server.get(PATH);
            }
            None
        });
        (server, written)
    }

    fn stored(data: &Value) -> Value {
        json!({"data": data})
    }

    #[rstest]
    #[case::made(None)]
    #[case::added_to(Some(stored(&json!({}))))]
    #[tokio::test]
    async fn the_password_stays_out_of_backups(#[case] before: Option<Value>) {
        let server = ApiServer::default();
        if let Some(before) = before {
            server.put(PATH, before);
        }
        settle(&server.client().await, "n", None).await.unwrap();
        let labels = server.get(PATH).unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels["velero.io/exclude-from-backup"], "true");
    }

    #[tokio::test]
    async fn of_two_who_make_the_secret_one_password_stays() {
        let theirs = stored(&json!({"repository-password": "dGhlaXJz"}));
        let (server, written) = contested(None, theirs);
        settle(&server.client().await, "n", None).await.unwrap();
        assert!(server.get(PATH).is_some());
        assert_eq!(server.get(PATH), *written.lock().unwrap());
    }

    #[tokio::test]
    async fn of_two_who_add_a_password_to_the_secret_one_stays() {
        let theirs = stored(&json!({"repository-password": "dGhlaXJz"}));
        let (server, written) = contested(Some(stored(&json!({}))), theirs);
        settle(&server.client().await, "n", None).await.unwrap();
        assert!(server.get(PATH).is_some());
        assert_eq!(server.get(PATH), *written.lock().unwrap());
    }

    #[tokio::test]
    async fn a_given_password_that_came_second_is_refused() {
        let theirs = stored(&json!({"repository-password": "dGhlaXJz"}));
        let (server, _written) = contested(None, theirs);
        let refused = settle(&server.client().await, "n", Some("mine")).await;
        assert!(matches!(refused, Err(SettleError::Password(PasswordError::Differs))));
    }
}
