//! Which namespaces may use a Repository: its own, and those that its usagePolicy allows. Without a policy only its
//! own, as in upstream.

use std::collections::BTreeMap;

use lifeboat_api::stash::{NamespacesFrom, RepositorySpec};

use crate::selector::Selector;

/// Whether objects of a namespace with these labels may refer to a Repository of the namespace `own`.
pub fn may_use(spec: &RepositorySpec, own: &str, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
    if own == namespace {
        return true;
    }
    let Some(policy) = &spec.usage_policy else { return false };
    let allowed = &policy.allowed_namespaces;
    match &allowed.from {
        NamespacesFrom::All => true,
        NamespacesFrom::Selector => {
            let selector = allowed.selector.as_ref().and_then(|selector| Selector::new(selector).ok());
            selector.is_some_and(|selector| selector.matches(labels))
        }
        // A value that this version does not know allows no further namespaces.
        NamespacesFrom::Same | NamespacesFrom::Other(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::own(json!(null), "shop", true)]
    #[case::no_policy(json!(null), "bank", false)]
    #[case::same(json!({"allowedNamespaces": {"from": "Same"}}), "bank", false)]
    #[case::all(json!({"allowedNamespaces": {"from": "All"}}), "bank", true)]
    #[case::selected(json!({"allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}}), "bank", true)]
    #[case::not_selected(json!({"allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}}), "bank", false)]
    #[case::no_selector(json!({"allowedNamespaces": {"from": "Selector"}}), "bank", false)]
    #[case::unknown(json!({"allowedNamespaces": {"from": "Friends"}}), "bank", false)]
    fn a_namespace_may_use_a_repository_by_its_policy(
        #[case] policy: serde_json::Value,
        #[case] namespace: &str,
        #[case] expected: bool,
    ) {
        let spec = RepositorySpec {
            usage_policy: serde_json::from_value(policy).unwrap(),
            ..RepositorySpec::default()
        };
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        assert_eq!(may_use(&spec, "shop", namespace, &labels), expected);
    }
}
