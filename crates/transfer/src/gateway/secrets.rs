//! The Secret that the gateways of all replicas share: the key of tokens, and the certificate authority that movers
//! trust. Any replica creates and renews it; if two do so at the same time, one gets a conflict and reads the Secret
//! that the other wrote.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_control::Core;
use lifeboat_plan::time;
use lifeboat_plan::transfer::gateway::{AUTHORITY_LIFE, AuthorityPlan, SECRET, authority_plan};
use lifeboat_web::gateway::{Authority, CertificateError};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde_json::{Value, json};

/// Keys of the Secret.
const TOKEN: &str = "token.key";
const CURRENT: [&str; 3] = ["ca.crt", "ca.key", "ca.end"];
const NEXT: [&str; 3] = ["next-ca.crt", "next-ca.key", "next-ca.end"];

/// The label that excludes the Secret from backups, because another cluster creates its own.
const EXCLUDED: &str = "velero.io/exclude-from-backup";

/// The size of the key of tokens.
const TOKEN_KEY: usize = 32;

/// How often others may write the Secret at the same time before that is an error.
const CONFLICTS: usize = 5;

/// The content of the Secret.
#[derive(Debug)]
pub(super) struct GatewaySecrets {
    pub(super) token: SecretSlice<u8>,
    /// Signs the certificates of the replicas.
    pub(super) authority: Authority,
    pub(super) authority_end: Timestamp,
    /// The authorities that movers trust, as PEM: also the one that will follow.
    pub(super) trusted: String,
}

/// Why the Secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecretsError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl SecretsError {
    /// The error with its causes.
    pub(super) fn chain(&self) -> String {
        match self {
            Self::Api(error) => error.chain(),
            Self::Certificate(error) => {
                let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
                format!("{error}{}", cause.unwrap_or_default())
            }
        }
    }
}

/// Reads the Secret; creates missing keys and authorities, and renews old ones.
pub(super) async fn ensure(core: &Core) -> Result<GatewaySecrets, SecretsError> {
    let api: Api<Secret> = Api::namespaced(core.client.clone(), &core.namespace);
    let mut conflicts = 0;
    loop {
        let found = api.get_opt(SECRET).await.attempt(format!("read Secret {SECRET}"))?;
        let data = found.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
        let (changes, known) = changed(&data, core.now())?;
        let Some(changes) = changes else { return Ok(known) };
        match write(&api, found.as_ref(), changes).await {
            Ok(()) => return Ok(known),
            Err(error) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// An authority with its end.
struct Known {
    authority: Authority,
    end: Timestamp,
}

/// What the Secret must have: the changes, if there are any, and its content after them.
fn changed(
    data: &BTreeMap<String, ByteString>,
    now: Timestamp,
) -> Result<(Option<Value>, GatewaySecrets), CertificateError> {
    let (current, next) = (known(data, CURRENT), known(data, NEXT));
    let end = |known: &Option<Known>| known.as_ref().map(|known| known.end);
    let mut changes = json!({});
    let (current, next) = match (authority_plan(end(&current), end(&next), now), current, next) {
        (AuthorityPlan::Keep, Some(current), next) => (current, next),
        (AuthorityPlan::MakeNext, Some(current), _) => {
            let next = made(now)?;
            set(&mut changes, NEXT, Some(&next));
            (current, Some(next))
        }
        (AuthorityPlan::Change, _, Some(next)) => {
            set(&mut changes, CURRENT, Some(&next));
            set(&mut changes, NEXT, None);
            (next, None)
        }
        _ => {
            let current = made(now)?;
            set(&mut changes, CURRENT, Some(&current));
            set(&mut changes, NEXT, None);
            (current, None)
        }
    };
    let token = if let Some(key) = data.get(TOKEN).filter(|key| key.0.len() >= TOKEN_KEY) {
        key.0.clone()
    } else {
        let key = rand::random::<[u8; TOKEN_KEY]>().to_vec();
        changes[TOKEN] = encoded(&key);
        key
    };
    let trusted = [Some(&current), next.as_ref()].into_iter().flatten();
    let trusted: Vec<&str> = trusted.map(|known| known.authority.certificate.as_str()).collect();
    let secrets = GatewaySecrets {
        token: SecretSlice::from(token),
        trusted: trusted.concat(),
        authority: current.authority,
        authority_end: current.end,
    };
    let is_changed = changes.as_object().is_some_and(|changes| !changes.is_empty());
    Ok((is_changed.then_some(changes), secrets))
}

/// An authority in the Secret; None if it is missing or not whole.
fn known(data: &BTreeMap<String, ByteString>, [certificate, key, end]: [&str; 3]) -> Option<Known> {
    let text = |name: &str| std::str::from_utf8(&data.get(name)?.0).ok().map(str::to_owned);
    let authority = Authority { certificate: text(certificate)?, key: SecretString::from(text(key)?) };
    let is_whole = authority.certificate.contains("-----BEGIN CERTIFICATE-----")
        && authority.key.expose_secret().contains("PRIVATE KEY-----");
    Some(Known { authority, end: text(end)?.parse().ok()? }).filter(|_| is_whole)
}

fn made(now: Timestamp) -> Result<Known, CertificateError> {
    let end = now.saturating_add(AUTHORITY_LIFE).unwrap_or(now);
    Ok(Known { authority: Authority::new(now, end)?, end })
}

fn set(changes: &mut Value, [certificate, key, end]: [&str; 3], to: Option<&Known>) {
    changes[certificate] = to.map_or(Value::Null, |known| encoded(known.authority.certificate.as_bytes()));
    changes[key] = to.map_or(Value::Null, |known| encoded(known.authority.key.expose_secret().as_bytes()));
    changes[end] = to.map_or(Value::Null, |known| encoded(time::seconds(known.end).as_bytes()));
}

fn encoded(content: &[u8]) -> Value {
    // Bytes always have a JSON form.
    serde_json::to_value(ByteString(content.to_vec())).unwrap_or_default()
}

/// Writes the changes, if the Secret is still as it was read.
async fn write(api: &Api<Secret>, found: Option<&Secret>, changes: Value) -> Result<(), ApiError> {
    let attempt = format!("write Secret {SECRET}");
    let labels = json!({"app.kubernetes.io/name": "lifeboat", EXCLUDED: "true"});
    let Some(found) = found else {
        let mut data = changes;
        if let Some(data) = data.as_object_mut() {
            data.retain(|_, value| !value.is_null());
        }
        let secret = json!({"metadata": {"name": SECRET, "labels": labels}, "data": data});
        // The object is plain data of this kind.
        let secret: Secret = serde_json::from_value(secret).unwrap_or_default();
        return api.create(&PostParams::default(), &secret).await.attempt(attempt).map(drop);
    };
    let patch = json!({
        "metadata": {"resourceVersion": found.resource_version(), "labels": labels},
        "data": changes,
    });
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    api.patch(SECRET, &params, &Patch::Merge(patch)).await.attempt(attempt).map(drop)
}
