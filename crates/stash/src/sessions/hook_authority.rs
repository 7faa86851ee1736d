//! The certificate authorities that an object's hooks trust: reads the ConfigMap or Secret that its annotation names.
//! Called before each hook that makes a call over HTTPS.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use lifeboat_cluster::Attempt;
use lifeboat_control::Core;
use lifeboat_plan::stash::hook_trust::{AUTHORITY_KEY, AuthorityKind, AuthorityRef, HookTrust};

use super::hooks::HookFailure;

/// How a call verifies the server that it reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verification {
    /// Certificates (PEM) that are trusted in addition to the system's.
    pub(super) ca: Option<String>,
    pub(super) skip_verify: bool,
}

/// Reads the annotations of the object that has the hooks, and the authority that they name.
pub(super) async fn verification(
    core: &Core,
    namespace: &str,
    annotations: &BTreeMap<String, String>,
) -> Result<Verification, HookFailure> {
    Ok(match HookTrust::of(|name| annotations.get(name).map(String::as_str))? {
        HookTrust::System => Verification::default(),
        HookTrust::Anybody => Verification { skip_verify: true, ..Verification::default() },
        HookTrust::Also(reference) => {
            let ca = certificates(core, namespace, &reference).await?;
            Verification { ca: Some(ca), ..Verification::default() }
        }
    })
}

async fn certificates(core: &Core, namespace: &str, reference: &AuthorityRef) -> Result<String, HookFailure> {
    let AuthorityRef { kind, name } = reference;
    let attempt = format!("read {reference} of namespace {namespace}");
    let content = match kind {
        AuthorityKind::ConfigMap => {
            let api: Api<ConfigMap> = Api::namespaced(core.client.clone(), namespace);
            let found = api.get_opt(name).await.attempt(attempt).map_err(HookFailure::Api)?;
            let found = found.ok_or_else(|| reference.missing(namespace))?;
            found.data.and_then(|mut data| data.remove(AUTHORITY_KEY)).map(String::into_bytes)
        }
        AuthorityKind::Secret => {
            let api: Api<Secret> = Api::namespaced(core.client.clone(), namespace);
            let found = api.get_opt(name).await.attempt(attempt).map_err(HookFailure::Api)?;
            let found = found.ok_or_else(|| reference.missing(namespace))?;
            found.data.and_then(|mut data| data.remove(AUTHORITY_KEY)).map(|content| content.0)
        }
    };
    Ok(reference.certificates(namespace, content)?)
}

#[cfg(test)]
mod tests {
    use lifeboat_control::testing::ApiServer;
    use lifeboat_mover::task;
    use lifeboat_plan::stash::hook_trust::{HOOK_CA, HOOK_SKIP_VERIFY};
    use lifeboat_plan::stash::hooks::{Call, CallBody, HttpCall, Method};
    use rstest::rstest;
    use serde_json::json;

    use super::super::hooks::in_task;
    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----";

    /// Kubernetes probes accept any certificate, but the body of a hook may contain secrets.
    #[test]
    fn a_call_verifies_unless_it_is_told_not_to() {
        let call = |verification| {
            let call = HttpCall {
                method: Method::Post,
                url: "https://shop:8443/quiesce".into(),
                headers: Vec::new(),
                body: CallBody::Text("secret".into()),
            };
            match in_task(Call::Http(call), verification) {
                task::Call::Http { ca, skip_verify, .. } => (ca, skip_verify),
                task::Call::Tcp { .. } => panic!(),
            }
        };
        assert_eq!(call(Verification::default()), (None, false));
        let own = Verification { ca: Some(PEM.into()), skip_verify: false };
        assert_eq!(call(own), (Some(PEM.into()), false));
        assert_eq!(call(Verification { ca: None, skip_verify: true }), (None, true));
    }

    async fn followed(annotation: (&str, &str)) -> Result<Verification, String> {
        let server = ApiServer::default();
        server.put(
            "/api/v1/namespaces/shop/configmaps/own-ca",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": PEM}}),
        );
        server.put(
            "/api/v1/namespaces/shop/secrets/own-ca",
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"ca.crt": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"}}),
        );
        server.put(
            "/api/v1/namespaces/shop/secrets/auth",
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": "czNjcmV0"}}),
        );
        let annotations = BTreeMap::from([(annotation.0.to_owned(), annotation.1.to_owned())]);
        let followed = verification(&server.core().await, "shop", &annotations).await;
        followed.map_err(|error| error.to_string())
    }

    #[rstest]
    #[case::nothing(("team", "a"), None, false)]
    #[case::config_map((HOOK_CA, "configmap/own-ca"), Some(PEM), false)]
    #[case::secret((HOOK_CA, "secret/own-ca"), Some(PEM), false)]
    #[case::anybody((HOOK_SKIP_VERIFY, "true"), None, true)]
    #[tokio::test]
    async fn a_call_trusts_what_the_annotations_say(
        #[case] annotation: (&str, &str),
        #[case] ca: Option<&str>,
        #[case] skip_verify: bool,
    ) {
        let expected = Verification { ca: ca.map(str::to_owned), skip_verify };
        assert_eq!(followed(annotation).await, Ok(expected));
    }

    #[rstest]
    #[case::missing("configmap/gone", "ConfigMap gone does not exist in namespace shop")]
    #[case::another_secret("secret/auth", "Secret auth of namespace shop has no key ca.crt")]
    #[tokio::test]
    async fn an_authority_that_is_missing_is_named(#[case] value: &str, #[case] says: &str) {
        let message = followed((HOOK_CA, value)).await.unwrap_err();
        assert!(message.contains(says), "{message}");
    }
}
