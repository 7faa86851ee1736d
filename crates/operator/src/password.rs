//! The repository password of this installation: sees to it that the Secret holds one (see `plan::password`), and
//! reads it for the controllers, which tell people whether it was ever exported.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_plan::password::{self, PasswordPlan, PasswordSecret, SECRET};
use rand::distr::{Alphanumeric, SampleString};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// Sees to the Secret, trying again until it holds a password.
pub(crate) async fn ensure(context: &Context, resting: &CancellationToken) {
    loop {
        match ensure_once(context).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot see to the repository password"
            ),
        }
        tokio::select! {
            () = resting.cancelled() => return,
            () = sleep(Duration::from_secs(10)) => {}
        }
    }
}

async fn ensure_once(context: &Context) -> Result<(), ApiError> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &context.settings.namespace);
    let existing = read(&context.client, &context.settings.namespace).await?;
    let random = random_password();
    match password::plan(existing.as_ref(), None, &random) {
        Ok(plan) => carry_out(&secrets, plan).await,
        // Only a given password can be refused, and none is given here.
        Err(_) => Ok(()),
    }
}

/// Writes what was planned. Called by the server and by `lifeboat install`.
pub async fn carry_out(secrets: &Api<Secret>, plan: PasswordPlan) -> Result<(), ApiError> {
    let attempt = format!("write Secret {SECRET}");
    match plan {
        PasswordPlan::Keep => Ok(()),
        PasswordPlan::Create { key, password } => {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(SECRET.to_owned()),
                    labels: Some([("app.kubernetes.io/name".to_owned(), "lifeboat".to_owned())].into()),
                    ..ObjectMeta::default()
                },
                data: Some([(key.to_owned(), ByteString(password.into_bytes()))].into()),
                ..Secret::default()
            };
            secrets.create(&PostParams::default(), &secret).await.attempt(attempt).map(drop)
        }
        PasswordPlan::AddKey { key, password } => {
            // A new password has been exported by nobody.
            let patch = serde_json::json!({
                "metadata": {"annotations": {password::EXPORTED_ANNOTATION: null}},
                "stringData": {key: password},
            });
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            secrets.patch(SECRET, &params, &Patch::Merge(patch)).await.attempt(attempt).map(drop)
        }
    }
}

/// What the Secret holds; `None` where there is none.
pub async fn read(client: &Client, namespace: &str) -> Result<Option<PasswordSecret>, ApiError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets.get_opt(SECRET).await.attempt(format!("read Secret {namespace}/{SECRET}"))?;
    Ok(found.map(|secret| PasswordSecret {
        annotations: secret.annotations().iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        data: secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect(),
    }))
}

/// 32 letters and digits: 190 bits.
pub fn random_password() -> String {
    Alphanumeric.sample_string(&mut rand::rng(), 32)
}
