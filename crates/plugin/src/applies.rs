//! Which items an action is for: its declaration is resolved once against the types of the cluster and then evaluated
//! for each type and item. Used for backups, restores and deletions; the rules are stock Velero's.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::{Catalogue, GroupResource};
use lifeboat_plan::includes::Includes;
use lifeboat_plan::selector::Selector;

use crate::actions::{ActionError, AppliesTo};

/// The items that one action is for.
#[derive(Clone, Debug)]
pub struct Applies {
    namespaces: Includes,
    resources: Includes,
    selector: Selector,
}

impl Applies {
    /// Types may be given by any of their names. A type that the cluster does not serve is kept as written, because an
    /// archive may contain it. `action` is named in errors.
    pub fn new(action: &str, applies: &AppliesTo, catalogue: &Catalogue) -> Result<Self, ActionError> {
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            ActionError::Failed(format!("the {what} of action {action} cannot be parsed: {error}"))
        };
        let resolved = |names: &[String]| -> Vec<String> {
            let resolve = |name: &String| match catalogue.resolve(name).as_slice() {
                [] => vec![name.to_lowercase()],
                found => found.iter().map(|kind| kind.id.to_string()).collect(),
            };
            names.iter().flat_map(resolve).collect()
        };
        let namespaces = Includes::new(&applies.included_namespaces, &applies.excluded_namespaces);
        let resources =
            Includes::new(&resolved(&applies.included_resources), &resolved(&applies.excluded_resources));
        Ok(Self {
            namespaces: namespaces.map_err(|error| wrong("namespaces", &error))?,
            resources: resources.map_err(|error| wrong("resources", &error))?,
            selector: Selector::parse(&applies.selector).map_err(|error| wrong("labels", &error))?,
        })
    }

    /// Whether the action is for any items of a type.
    pub fn is_for_type(&self, resource: &GroupResource) -> bool {
        self.resources.takes(&resource.to_string())
    }

    /// Whether the action is for an item of a type that it is for. An action that names namespaces is not for
    /// cluster-scoped items.
    pub fn is_for_item(&self, namespace: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
        let in_namespace = match namespace {
            Some(namespace) => self.namespaces.takes(namespace),
            None => self.namespaces.is_everything(),
        };
        in_namespace && (self.selector.is_everything() || self.selector.matches(labels))
    }

    /// Whether the action is for this item: type, namespace and labels.
    pub fn is_for(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        self.is_for_type(resource) && self.is_for_item(namespace, labels)
    }

    /// Whether the action selects items by labels.
    pub fn asks_for_labels(&self) -> bool {
        !self.selector.is_everything()
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::catalogue::ResourceType;
    use rstest::rstest;

    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn catalogue() -> Catalogue {
        let known = |group: &str, plural: &str, kind: &str| ResourceType {
            id: GroupResource::new(group, plural),
            version: "v1".into(),
            kind: kind.into(),
            singular: kind.to_lowercase(),
            preferred: true,
            ..ResourceType::default()
        };
        Catalogue::new(vec![known("apps", "deployments", "Deployment"), known("", "pods", "Pod")])
    }

    #[rstest]
    #[case::nothing_said(&[], &[], "deployments.apps", true)]
    #[case::short(&["deployments"], &[], "deployments.apps", true)]
    #[case::singular(&["deployment"], &[], "deployments.apps", true)]
    #[case::another(&["pods"], &[], "deployments.apps", false)]
    #[case::everything(&["*"], &[], "deployments.apps", true)]
    #[case::excluded(&["*"], &["deployments"], "deployments.apps", false)]
    #[case::only_in_the_archive(&["widgets.example.com"], &[], "widgets.example.com", true)]
    fn types_are_known_by_any_name(
        #[case] included: &[&str],
        #[case] excluded: &[&str],
        #[case] resource: &str,
        #[case] expected: bool,
    ) {
        let applies = AppliesTo {
            included_resources: list(included),
            excluded_resources: list(excluded),
            ..AppliesTo::default()
        };
        let applies = Applies::new("a", &applies, &catalogue()).unwrap();
        assert_eq!(applies.is_for_type(&GroupResource::parse(resource)), expected);
    }

    #[rstest]
    #[case::nothing_said(&[], &[], "", None, true)]
    #[case::named(&["shop"], &[], "", Some("shop"), true)]
    #[case::another(&["shop"], &[], "", Some("other"), false)]
    #[case::cluster_scoped_beside_namespaces(&["shop"], &[], "", None, false)]
    #[case::cluster_scoped_beside_excludes(&[], &["shop"], "", None, false)]
    #[case::labels(&[], &[], "app=web", Some("shop"), true)]
    #[case::other_labels(&[], &[], "app=db", Some("shop"), false)]
    fn items_are_judged_as_upstream_does(
        #[case] included: &[&str],
        #[case] excluded: &[&str],
        #[case] selector: &str,
        #[case] namespace: Option<&str>,
        #[case] expected: bool,
    ) {
        let applies = AppliesTo {
            included_namespaces: list(included),
            excluded_namespaces: list(excluded),
            selector: selector.to_owned(),
            ..AppliesTo::default()
        };
        let applies = Applies::new("a", &applies, &catalogue()).unwrap();
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        assert_eq!(applies.is_for(&GroupResource::parse("pods"), namespace, &labels), expected);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_action() {
        let applies = AppliesTo { selector: "a in (".to_owned(), ..AppliesTo::default() };
        let error = Applies::new("example.com/x", &applies, &catalogue()).unwrap_err();
        assert!(
            error.to_string().starts_with("the labels of action example.com/x cannot be parsed"),
            "{error}"
        );
    }
}
