//! Actions for service accounts: the cluster role bindings that name them, and their cluster roles. A server that lacks
//! the right to read bindings reports it once for each backup and continues without them, because it was installed with
//! limited rights on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::Backup;
use serde_json::Value;

use super::cache::PerBackup;
use super::text;
use crate::actions::{ActionError, AppliesTo, BackupItemAction, BackupOutcome, ItemBlockAction, Lookup};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Adds the bindings and roles of a service account to the backup.
#[derive(Default)]
pub struct ServiceAccountAction {
    bindings: Bindings,
}

/// Puts the bindings and roles of a service account into its block.
#[derive(Default)]
pub struct ServiceAccountBlock {
    bindings: Bindings,
}

/// The bindings and roles of each service account, by `namespace/name`.
type Index = BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>;

#[derive(Default)]
struct Bindings {
    kept: PerBackup<Index>,
}

#[async_trait]
impl BackupItemAction for ServiceAccountAction {
    fn name(&self) -> &'static str {
        "velero.io/service-account"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["serviceaccounts"]))
    }

    async fn execute(
        &self,
        item: Value,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        let (additional_items, warning) = self.bindings.related(&item, backup, cluster).await?;
        let warnings = warning.into_iter().collect();
        Ok(BackupOutcome { item, additional_items, warnings, ..BackupOutcome::default() })
    }
}

#[async_trait]
impl ItemBlockAction for ServiceAccountBlock {
    fn name(&self) -> &'static str {
        "velero.io/service-account"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["serviceaccounts"]))
    }

    async fn related_items(
        &self,
        item: &Value,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<Vec<ItemId>, ActionError> {
        // The backup item action reports what cannot be read.
        Ok(self.bindings.related(item, backup, cluster).await?.0)
    }
}

impl Bindings {
    async fn related(
        &self,
        account: &Value,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<(Vec<ItemId>, Option<String>), ActionError> {
        let (index, warning) = self.index(backup, cluster).await?;
        let key = format!("{}/{}", text(account, "/metadata/namespace"), text(account, "/metadata/name"));
        let Some((bindings, roles)) = index.get(&key) else { return Ok((Vec::new(), warning)) };
        let item = |resource: &str, name: &String| ItemId::cluster(GroupResource::new(RBAC, resource), name);
        let bindings = bindings.iter().map(|name| item("clusterrolebindings", name));
        let related = bindings.chain(roles.iter().map(|name| item("clusterroles", name))).collect();
        Ok((related, warning))
    }

    /// The index and, when it was just read, what could not be read for it.
    async fn index(
        &self,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<(Arc<Index>, Option<String>), ActionError> {
        if let Some(known) = self.kept.get(backup, "") {
            return Ok((known, None));
        }
        let bindings = GroupResource::new(RBAC, "clusterrolebindings");
        let bindings = match cluster.list(&bindings, None, "").await {
            Ok(bindings) => bindings,
            Err(ActionError::Forbidden(message)) => {
                let warning = format!(
                    "ClusterRoleBindings of service accounts are not in the backup, because the server may not read them: {message}"
                );
                return Ok((self.kept.keep(backup, "", Index::new()), Some(warning)));
            }
            Err(error) => return Err(error),
        };
        let mut index = Index::new();
        for binding in bindings {
            for subject in binding["subjects"].as_array().into_iter().flatten() {
                if text(subject, "/kind") == "ServiceAccount" {
                    let key = format!("{}/{}", text(subject, "/namespace"), text(subject, "/name"));
                    let (bindings, roles) = index.entry(key).or_default();
                    bindings.insert(text(&binding, "/metadata/name").to_owned());
                    roles.insert(text(&binding, "/roleRef/name").to_owned());
                }
            }
        }
        Ok((self.kept.keep(backup, "", index), None))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, backup};
    use super::*;

    #[tokio::test]
    async fn an_account_brings_the_bindings_and_roles_that_name_it() {
        let binding = |name: &str, role: &str, namespace: &str| {
            json!({"metadata": {"name": name}, "roleRef": {"name": role},
                "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "web"},
                    {"kind": "User", "name": "web"}]})
        };
        let objects = Objects::new(&[(
            "clusterrolebindings",
            vec![
                binding("b1", "view", "shop"),
                binding("b2", "view", "shop"),
                binding("b3", "edit", "other"),
            ],
        )]);
        let account = json!({"metadata": {"namespace": "shop", "name": "web"}});
        let action = ServiceAccountAction::default();
        let outcome = action.execute(account.clone(), &backup(), &objects).await.unwrap();
        let names: Vec<_> = outcome.additional_items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["b1", "b2", "view"]);
        let unbound = json!({"metadata": {"namespace": "shop", "name": "default"}});
        assert!(action.execute(unbound, &backup(), &objects).await.unwrap().additional_items.is_empty());
        assert_eq!(objects.lists_of("clusterrolebindings"), 1);
        let related = ServiceAccountBlock::default().related_items(&account, &backup(), &objects).await;
        assert_eq!(related.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn bindings_that_may_not_be_read_are_reported_once_and_left_out() {
        let objects = Objects::default().forbidding("clusterrolebindings");
        let account = json!({"metadata": {"namespace": "shop", "name": "web"}});
        let action = ServiceAccountAction::default();
        let first = action.execute(account.clone(), &backup(), &objects).await.unwrap();
        assert!(first.additional_items.is_empty());
        assert_eq!(first.warnings.len(), 1);
        assert!(action.execute(account.clone(), &backup(), &objects).await.unwrap().warnings.is_empty());
        assert_eq!(objects.lists_of("clusterrolebindings"), 1);
        let related = ServiceAccountBlock::default().related_items(&account, &backup(), &objects).await;
        assert_eq!(related, Ok(Vec::new()));
    }
}
