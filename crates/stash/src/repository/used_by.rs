//! Finds the objects that name a Repository in their specs: invokers and restores. Used for their runtimeSettings,
//! which the movers of the repository get, and before data is deleted.

use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use lifeboat_api::stash::{
    BackupBatch, BackupConfiguration, Repository, Restic, RestoreBatch, RestoreSession, RuntimeSettings,
};
use lifeboat_cluster::{ApiError, Attempt, objects};
use serde_json::Value;

use super::object;
use crate::context::Context;
use crate::policies::{Policies, Standing};

/// An object whose spec names a Repository.
#[derive(Debug)]
pub(super) struct User {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Whether it is a restore that has ended.
    is_over: bool,
    created: Timestamp,
    runtime: Option<RuntimeSettings>,
}

impl User {
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the API server checks who may write it. The spec of a restore cannot be changed, so it was checked when it was created,
    /// or never.
    fn is_checked(&self, policies: &Policies) -> bool {
        if self.kind.starts_with("Restore") {
            policies.standing(&self.kind, self.created) == Standing::Checked
        } else {
            policies.refusal(&self.kind).is_none()
        }
    }

    fn of(object: &DynamicObject, kind: &str) -> Self {
        let spec = &object.data["spec"];
        let of_members = spec["members"].as_array().into_iter().flatten();
        let of_members = of_members.map(|member| &member["runtimeSettings"]);
        let mut settings =
            std::iter::once(&spec["runtimeSettings"]).chain(of_members).filter(|value| !value.is_null());
        let phase = object.data["status"]["phase"].as_str().unwrap_or_default();
        Self {
            kind: kind.to_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            is_over: kind.starts_with("Restore")
                && matches!(phase, "Succeeded" | "Failed" | "Unknown" | "Invalid"),
            created: object.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            runtime: settings.next().and_then(|value| serde_json::from_value(value.clone()).ok()),
        }
    }
}

/// The objects of the Repository's namespace that name it, or of all namespaces that this server may serve.
pub(super) async fn users(
    context: &Context,
    repository: &Repository,
    everywhere: bool,
) -> Result<Vec<User>, ApiError> {
    let (own, name) = object::parts(repository);
    let mut kinds = vec![
        objects::resource_of::<BackupConfiguration>(),
        objects::resource_of::<BackupBatch>(),
        objects::resource_of::<RestoreSession>(),
        objects::resource_of::<RestoreBatch>(),
    ];
    if context.settings.restics {
        kinds.push(objects::resource_of::<Restic>());
    }
    let mut users = Vec::new();
    for resource in kinds {
        let apis: Vec<Api<DynamicObject>> = if everywhere {
            context.served.scope().apis(&context.client, &resource)
        } else {
            vec![objects::namespaced(&context.client, own, &resource)]
        };
        for api in apis {
            let listed = match api.list(&ListParams::default()).await {
                // A kind that is not installed has no objects.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                listed => listed.attempt(format!("list objects of kind {}", resource.kind))?,
            };
            let named = listed.items.iter().filter(|object| names(&object.data["spec"], object, own, name));
            users.extend(named.map(|object| User::of(object, &resource.kind)));
        }
    }
    Ok(users)
}

fn names(spec: &Value, object: &DynamicObject, own: &str, name: &str) -> bool {
    let of = |field: &str| spec["repository"][field].as_str().unwrap_or_default();
    let at = object.namespace().unwrap_or_default();
    let namespace = if of("namespace").is_empty() { at.as_str() } else { of("namespace") };
    of("name") == name && namespace == own
}

/// The runtimeSettings for movers that work on the repository itself: those of an object in its namespace that uses
/// it, preferably one that sets a service account, which may have a cloud identity. None if no object uses it.
/// Objects that no policy checks do not count: their authors may have no right to create pods.
pub(super) async fn runtime_settings(
    context: &Context,
    repository: &Repository,
) -> Result<Option<RuntimeSettings>, ApiError> {
    let mut users = users(context, repository, false).await?;
    let has_account = |user: &User| {
        let pod = user.runtime.as_ref().and_then(|runtime| runtime.pod.as_ref());
        pod.is_some_and(|pod| pod.service_account_name.is_some())
    };
    users.retain(|user| user.runtime.is_some() && user.is_checked(&context.policies));
    users.sort_by_key(|user| (!has_account(user), user.is_over));
    Ok(users.into_iter().next().and_then(|user| user.runtime))
}
