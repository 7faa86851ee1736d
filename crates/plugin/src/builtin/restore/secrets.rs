//! Secrets with tokens of service accounts: those that the cluster created are skipped, those that a user created are
//! restored without the old token.

use async_trait::async_trait;
use lifeboat_api::catalogue::GroupResource;
use lifeboat_plan::restore::sanitise::remove_annotations;

use crate::actions::{ActionError, AppliesTo, Lookup, RestoreInput, RestoreItemAction, RestoreOutcome};

use super::{remove, text};

pub(super) struct ServiceAccountTokens;

#[async_trait]
impl RestoreItemAction for ServiceAccountTokens {
    fn name(&self) -> &'static str {
        "velero.io/secret"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["secrets"]))
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let mut secret = input.item;
        if text(&secret, "/type") != "kubernetes.io/service-account-token" {
            return Ok(RestoreOutcome::item(secret));
        }
        let (namespace, name) = (text(&secret, "/metadata/namespace"), text(&secret, "/metadata/name"));
        let accounts = cluster.list(&GroupResource::new("", "serviceaccounts"), Some(namespace), "").await?;
        let made = |account: &str| name.starts_with(&format!("{account}-token-"));
        if accounts.iter().any(|account| made(text(account, "/metadata/name"))) {
            return Ok(RestoreOutcome::skipped(secret));
        }
        remove_annotations(&mut secret, &["kubernetes.io/service-account.uid"]);
        remove(&mut secret, "/data", "token");
        remove(&mut secret, "/data", "ca.crt");
        Ok(RestoreOutcome::item(secret))
    }
}
