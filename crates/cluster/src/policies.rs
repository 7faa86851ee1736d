//! The admission policies of Lifeboat's installations, as the cluster has them. [`Policies`] is for the server, which
//! refuses users' objects that no policy checked; [`held`] for install and uninstall.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, Client, Resource, ResourceExt};
use lifeboat_plan::install::policies::{API_VERSION, FoundPolicies, FoundPolicy, is_of};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::apply::ObjectName;
use crate::rights::LABELS;
use crate::{ApiError, Attempt};

/// How long a list serves before it is read again.
const FRESH: Duration = Duration::from_secs(30);

/// Reads the policies when a caller needs them, at most once in [`FRESH`]. Clones share the list.
#[derive(Clone)]
pub struct Policies {
    client: Client,
    last: Arc<Mutex<Option<LastRead>>>,
}

/// What was read last, and when.
type LastRead = (Instant, Arc<FoundPolicies>);

impl Policies {
    pub fn new(client: Client) -> Self {
        Self { client, last: Arc::default() }
    }

    /// The policies and bindings of all installations.
    pub async fn found(&self) -> Result<Arc<FoundPolicies>, ApiError> {
        // Callers that come at once wait for one list.
        let mut last = self.last.lock().await;
        if let Some((read, found)) = last.as_ref()
            && read.elapsed() < FRESH
        {
            return Ok(found.clone());
        }
        let found = Arc::new(list(&self.client).await?);
        *last = Some((Instant::now(), found.clone()));
        Ok(found)
    }
}

/// The policies and bindings of all installations.
pub async fn list(client: &Client) -> Result<FoundPolicies, ApiError> {
    let policies =
        labelled::<ValidatingAdmissionPolicy>(client).await?.into_iter().map(|mut policy| FoundPolicy {
            name: policy.name_any(),
            annotations: std::mem::take(policy.annotations_mut()),
            spec: policy.data["spec"].take(),
        });
    let bindings = labelled::<ValidatingAdmissionPolicyBinding>(client).await?;
    Ok(FoundPolicies {
        policies: policies.collect(),
        bindings: bindings.into_iter().map(|mut binding| binding.data["spec"].take()).collect(),
    })
}

/// The policies and bindings of the installation in `namespace`; bindings first.
pub async fn held(client: &Client, namespace: &str) -> Result<Vec<ObjectName>, ApiError> {
    let mut names = Vec::new();
    for (kind, found) in [
        ("ValidatingAdmissionPolicyBinding", labelled::<ValidatingAdmissionPolicyBinding>(client).await?),
        ("ValidatingAdmissionPolicy", labelled::<ValidatingAdmissionPolicy>(client).await?),
    ] {
        let ours = found.iter().map(ResourceExt::name_any).filter(|name| is_of(name, namespace));
        names.extend(ours.map(|name| ObjectName {
            api_version: API_VERSION.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name,
        }));
    }
    Ok(names)
}

/// Objects with the labels of an installation, with all their fields, also those that this version does not know. None
/// where the API server does not know the kind.
async fn labelled<K: Resource<DynamicType = ()>>(client: &Client) -> Result<Vec<DynamicObject>, ApiError> {
    let resource = ApiResource::erase::<K>(&());
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    match api.list(&ListParams::default().labels(LABELS)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        found => Ok(found.attempt(format!("list {}", resource.plural))?.items),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::testing::{client, failure};

    fn answer(path: &str) -> (u16, Value) {
        let object = |kind: &str, name: &str, spec: Value| {
            json!({"apiVersion": API_VERSION, "kind": kind,
                "metadata": {"name": name, "annotations": {"a": "b"}}, "spec": spec})
        };
        let items = if path.ends_with("/validatingadmissionpolicies") {
            let policy = |name: &str| object("ValidatingAdmissionPolicy", name, json!({"unknown": 1}));
            json!([policy("x.lifeboat.lifeboat.io"), policy("x.other.lifeboat.io")])
        } else {
            let spec = json!({"policyName": "x.lifeboat.lifeboat.io"});
            json!([object("ValidatingAdmissionPolicyBinding", "x.lifeboat.lifeboat.io", spec)])
        };
        (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
    }

    #[tokio::test]
    async fn policies_of_all_installations_are_found_with_every_field() {
        let client = client(|asked| answer(&asked.path)).await;
        let found = list(&client).await.unwrap();
        assert_eq!(found.policies.len(), 2);
        assert_eq!(found.policies[0].name, "x.lifeboat.lifeboat.io");
        assert_eq!(found.policies[0].annotations["a"], "b");
        assert_eq!(found.policies[0].spec, json!({"unknown": 1}));
        assert_eq!(found.bindings, [json!({"policyName": "x.lifeboat.lifeboat.io"})]);
    }

    #[tokio::test]
    async fn an_installation_holds_its_own_policies_only() {
        let client = client(|asked| answer(&asked.path)).await;
        let names: Vec<String> =
            held(&client, "lifeboat").await.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "ValidatingAdmissionPolicyBinding x.lifeboat.lifeboat.io",
                "ValidatingAdmissionPolicy x.lifeboat.lifeboat.io"
            ]
        );
    }

    #[tokio::test]
    async fn a_cluster_without_the_kind_has_no_policies() {
        let client = client(|_| failure(404, "NotFound")).await;
        assert_eq!(list(&client).await.unwrap(), FoundPolicies::default());
        assert!(held(&client, "lifeboat").await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_list_serves_many_callers() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let client = client(move |request| {
            counted.fetch_add(1, Ordering::Relaxed);
            answer(&request.path)
        })
        .await;
        let policies = Policies::new(client);
        for _ in 0..3 {
            assert_eq!(policies.clone().found().await.unwrap().policies.len(), 2);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2, "one list of each kind");
        // As if the list had been read earlier.
        policies.last.lock().await.as_mut().unwrap().0 -= FRESH;
        policies.found().await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn a_failed_list_is_not_kept() {
        let client = client(|_| failure(403, "Forbidden")).await;
        let policies = Policies::new(client);
        assert_eq!(policies.found().await.unwrap_err().code(), Some(403));
        assert!(policies.last.lock().await.is_none());
    }
}
