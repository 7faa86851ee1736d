//! Which items of a backup a Restore selects: by type, namespace, scope and labels, with upstream's rules. Created
//! once per restore; called for every item of the index, and without labels for additional items.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_api::common::LabelSelector;

use crate::glob::GlobError;
use crate::includes::Includes;
use crate::policy::items::{ItemFilters, ItemPolicies, ItemPolicyError, Opinion};
use crate::selector::{Selector, SelectorError};

/// Types that are never restored: they describe this cluster, or Lifeboat itself.
pub const NEVER_RESTORED: [&str; 9] = [
    "nodes",
    "events",
    "events.events.k8s.io",
    "backups.velero.io",
    "restores.velero.io",
    "resticrepositories.velero.io",
    "csinodes.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "backuprepositories.velero.io",
];

/// Types whose objects are requests that Lifeboat carries out. A restored one would be carried out again: a
/// DeleteBackupRequest in a backup would delete a backup, a RestoreSession would overwrite volumes. Upstream restores some of
/// them.
pub const COMMANDS: [&str; 12] = [
    "deletebackuprequests.velero.io",
    "downloadrequests.velero.io",
    "serverstatusrequests.velero.io",
    "podvolumebackups.velero.io",
    "podvolumerestores.velero.io",
    "datauploads.velero.io",
    "datadownloads.velero.io",
    "volumepluginbackups.velero.io",
    "volumepluginrestores.velero.io",
    "backupsessions.stash.appscode.com",
    "restoresessions.stash.appscode.com",
    "restorebatches.stash.appscode.com",
];

/// Whether a restore never creates objects of this type, even as additional items.
pub fn is_never_created(resource: &GroupResource) -> bool {
    let name = resource.to_string();
    NEVER_RESTORED.contains(&name.as_str()) || COMMANDS.contains(&name.as_str())
}

/// Types that actions see regardless of the filters, because volumes need them; they are not created.
const ALWAYS: [&str; 1] = ["datauploads.velero.io"];

/// Why an item is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    Type,
    Namespace,
    Labels,
    /// Excluded by the Restore's resource policies.
    PolicyType,
    PolicyLabels,
    PolicyName,
    /// Cluster-scoped, and `includeClusterResources` is false.
    ClusterScoped,
    /// Cluster-scoped, and the Restore selects namespaces.
    OnlyNamespaces,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Type => "its type is not included",
            Self::Namespace => "its namespace is not included",
            Self::Labels => "its labels do not match",
            Self::PolicyType => "the resource policies do not list its kind for its namespace",
            Self::PolicyLabels => "its labels do not match the resource policies",
            Self::PolicyName => "its name does not match the resource policies",
            Self::ClusterScoped => "it is cluster-scoped, and spec.includeClusterResources is false",
            Self::OnlyNamespaces => {
                "it is cluster-scoped, and only some namespaces are restored; set spec.includeClusterResources to have it"
            }
        })
    }
}

/// Why a filter cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error(transparent)]
    Pattern(#[from] GlobError),
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error("resource policies: {0}")]
    Policies(#[from] ItemPolicyError),
}

/// Names to include and to exclude.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameLists<'a> {
    pub included: &'a [String],
    pub excluded: &'a [String],
}

/// The items that a restore selects, as its API gives them.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    pub namespaces: NameLists<'a>,
    pub types: NameLists<'a>,
    /// An item must match at least one of them; empty means that labels are not checked.
    pub selectors: Vec<&'a LabelSelector>,
    /// Whether cluster-scoped items are restored; None: unless namespaces are selected.
    pub cluster: Option<bool>,
}

/// The compiled filters of a Restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreFilter {
    namespaces: Includes,
    resources: Includes,
    /// An item must match at least one of them; empty means that labels are not checked.
    selectors: Vec<Selector>,
    cluster: Option<bool>,
    policies: ItemFilters,
}

impl RestoreFilter {
    pub fn new(selection: &Selection<'_>, catalogue: &Catalogue) -> Result<Self, FilterError> {
        let mut excluded = selection.types.excluded.to_vec();
        excluded.extend(NEVER_RESTORED.iter().chain(&COMMANDS).map(|&name| name.to_owned()));
        let selectors = selection.selectors.iter().copied();
        Ok(Self {
            namespaces: Includes::new(selection.namespaces.included, selection.namespaces.excluded)?,
            resources: types(selection.types.included, &excluded, catalogue)?,
            selectors: selectors
                .map(Selector::new)
                .filter(|selector| selector.as_ref().map_or(true, |selector| !selector.is_everything()))
                .collect::<Result<_, _>>()?,
            cluster: selection.cluster,
            policies: ItemFilters::default(),
        })
    }

    /// Adds resource policies, which override the Restore's label selectors.
    pub fn with_policies(
        mut self,
        policies: &ItemPolicies,
        catalogue: &Catalogue,
    ) -> Result<Self, FilterError> {
        self.policies = policies.resolve(catalogue)?;
        Ok(self)
    }

    /// Whether the filter looks at labels.
    pub fn asks_for_labels(&self) -> bool {
        !self.selectors.is_empty() || !self.policies.is_empty()
    }

    /// Whether the Restore selects an item of the backup.
    pub fn judge(&self, item: &ItemId, kind: &str, labels: &BTreeMap<String, String>) -> Result<(), LeftOut> {
        self.judge_additional(item)?;
        if item.namespace.is_none() && self.cluster != Some(true) && !self.namespaces.is_everything() {
            return Err(LeftOut::OnlyNamespaces);
        }
        if is_always(&item.resource) {
            return Ok(());
        }
        match self.policies.judge(item, kind, labels) {
            Opinion::Take => return Ok(()),
            Opinion::LeaveType => return Err(LeftOut::PolicyType),
            Opinion::LeaveLabels => return Err(LeftOut::PolicyLabels),
            Opinion::LeaveName => return Err(LeftOut::PolicyName),
            Opinion::None => {}
        }
        let matches = self.selectors.is_empty() || self.selectors.iter().any(|one| one.matches(labels));
        if matches { Ok(()) } else { Err(LeftOut::Labels) }
    }

    /// Whether an additional item is restored: labels are not checked.
    pub fn judge_additional(&self, item: &ItemId) -> Result<(), LeftOut> {
        let always = is_always(&item.resource);
        if !always && !takes_type(&self.resources, &item.resource) {
            return Err(LeftOut::Type);
        }
        match &item.namespace {
            Some(namespace) if !always && !self.namespaces.takes(namespace) => Err(LeftOut::Namespace),
            None if self.cluster == Some(false) => Err(LeftOut::ClusterScoped),
            // A namespace into which nothing is restored is not created either.
            None if is_namespace(&item.resource) && !self.namespaces.takes(&item.name) => {
                Err(LeftOut::Namespace)
            }
            _ => Ok(()),
        }
    }
}

/// The types whose status is restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFilter {
    types: Option<Includes>,
    annotation: &'static str,
}

impl StatusFilter {
    /// `lists`: the types; None for none. `annotation`: the name of the annotation with which an object overrides them.
    pub fn new(
        lists: Option<NameLists<'_>>,
        annotation: &'static str,
        catalogue: &Catalogue,
    ) -> Result<Self, FilterError> {
        let types = lists.map(|lists| types(lists.included, lists.excluded, catalogue)).transpose()?;
        Ok(Self { types, annotation })
    }

    /// The name of the annotation with which an object overrides the list.
    pub fn annotation(&self) -> &'static str {
        self.annotation
    }

    /// An annotation of the object overrides the Restore's list.
    pub fn takes(&self, resource: &GroupResource, annotation: Option<&str>) -> bool {
        match annotation.map(|text| text.trim().to_lowercase()).as_deref() {
            Some("true") => true,
            Some("false") => false,
            _ => self.types.as_ref().is_some_and(|types| takes_type(types, resource)),
        }
    }
}

/// Compiles lists of types, each under its full name if the cluster serves it.
fn types(included: &[String], excluded: &[String], catalogue: &Catalogue) -> Result<Includes, GlobError> {
    let full = |names: &[String]| -> Vec<String> {
        names.iter().flat_map(|name| full_names(name, catalogue)).collect()
    };
    Includes::new(&full(included), &full(excluded))
}

fn full_names(name: &str, catalogue: &Catalogue) -> Vec<String> {
    let known = catalogue.resolve(name);
    if known.is_empty() {
        return vec![name.to_lowercase()];
    }
    known.iter().map(|known| known.id.to_string()).collect()
}

/// Matches by full name; a type that only the backup knows also matches by its plural.
fn takes_type(types: &Includes, resource: &GroupResource) -> bool {
    let full = resource.to_string();
    let plural = &resource.resource;
    let included = types.includes(&full) || types.includes(plural);
    included && !types.excludes(&full) && (resource.group.is_empty() || !excludes_plural(types, plural))
}

/// `events` in a list means the core group; other plurals may name types that the cluster does not serve yet.
fn excludes_plural(types: &Includes, plural: &str) -> bool {
    !NEVER_RESTORED.contains(&plural) && types.excludes(plural)
}

fn is_always(resource: &GroupResource) -> bool {
    ALWAYS.contains(&resource.to_string().as_str())
}

fn is_namespace(resource: &GroupResource) -> bool {
    resource.group.is_empty() && resource.resource == "namespaces"
}

#[cfg(test)]
mod tests {
    use lifeboat_api::velero::RestoreSpec;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::velero::restore::validate::{selection, status_filter};

    fn judge(spec: &Value, resource: &str, namespace: Option<&str>) -> Result<(), LeftOut> {
        let spec: RestoreSpec = serde_json::from_value(spec.clone()).unwrap();
        let filter = RestoreFilter::new(&selection(&spec), &Catalogue::default()).unwrap();
        let item = ItemId {
            resource: GroupResource::parse(resource),
            namespace: namespace.map(Into::into),
            name: "shop".into(),
        };
        filter.judge(&item, "", &BTreeMap::from([("app".into(), "web".into())]))
    }

    #[rstest]
    #[case::everything(json!({}), "pods", Some("shop"), Ok(()))]
    #[case::never(json!({}), "nodes", None, Err(LeftOut::Type))]
    #[case::a_command(json!({}), "deletebackuprequests.velero.io", Some("lifeboat"), Err(LeftOut::Type))]
    #[case::never_by_group(json!({}), "events.events.k8s.io", Some("shop"), Err(LeftOut::Type))]
    #[case::type_not_included(json!({"includedResources": ["secrets"]}), "pods", Some("shop"), Err(LeftOut::Type))]
    #[case::type_excluded(json!({"excludedResources": ["pods"]}), "pods", Some("shop"), Err(LeftOut::Type))]
    #[case::plural_of_an_unknown_type(json!({"includedResources": ["widgets"]}), "widgets.example.com", Some("shop"), Ok(()))]
    #[case::namespace_pattern(json!({"includedNamespaces": ["sh*"]}), "pods", Some("shop"), Ok(()))]
    #[case::namespace_excluded(json!({"excludedNamespaces": ["shop"]}), "pods", Some("shop"), Err(LeftOut::Namespace))]
    #[case::cluster_scoped(json!({}), "persistentvolumes", None, Ok(()))]
    #[case::cluster_scoped_no(json!({"includeClusterResources": false}), "persistentvolumes", None, Err(LeftOut::ClusterScoped))]
    #[case::cluster_scoped_beside_namespaces(json!({"includedNamespaces": ["shop"]}), "persistentvolumes", None, Err(LeftOut::OnlyNamespaces))]
    #[case::cluster_scoped_yes(json!({"includedNamespaces": ["shop"], "includeClusterResources": true}), "persistentvolumes", None, Ok(()))]
    #[case::another_namespace(json!({"includedNamespaces": ["other"], "includeClusterResources": true}), "namespaces", None, Err(LeftOut::Namespace))]
    #[case::labels(json!({"labelSelector": {"matchLabels": {"app": "db"}}}), "pods", Some("shop"), Err(LeftOut::Labels))]
    #[case::one_of_the_selectors(json!({"orLabelSelectors": [{"matchLabels": {"app": "db"}}, {"matchLabels": {"app": "web"}}]}), "pods", Some("shop"), Ok(()))]
    #[case::always(json!({"includedNamespaces": ["shop"], "includedResources": ["pods"]}), "datauploads.velero.io", Some("velero"), Ok(()))]
    fn items_are_judged_as_upstream_does(
        #[case] spec: Value,
        #[case] resource: &str,
        #[case] namespace: Option<&str>,
        #[case] expected: Result<(), LeftOut>,
    ) {
        assert_eq!(judge(&spec, resource, namespace), expected);
    }

    #[rstest]
    #[case("nodes", true)]
    #[case("backups.velero.io", true)]
    #[case("datauploads.velero.io", true)]
    #[case("schedules.velero.io", false)]
    #[case("pods", false)]
    fn records_and_commands_are_never_created(#[case] resource: &str, #[case] expected: bool) {
        assert_eq!(is_never_created(&GroupResource::parse(resource)), expected);
    }

    #[rstest]
    #[case::not_asked(json!({}), None, false)]
    #[case::all(json!({"restoreStatus": {}}), None, true)]
    #[case::named(json!({"restoreStatus": {"includedResources": ["widgets.example.com"]}}), None, true)]
    #[case::excluded(json!({"restoreStatus": {"excludedResources": ["widgets.example.com"]}}), None, false)]
    #[case::the_object_says_yes(json!({}), Some("True"), true)]
    #[case::the_object_says_no(json!({"restoreStatus": {}}), Some("false"), false)]
    #[case::the_object_says_nonsense(json!({"restoreStatus": {}}), Some("maybe"), true)]
    fn status_is_restored_on_request(
        #[case] spec: Value,
        #[case] annotation: Option<&str>,
        #[case] expected: bool,
    ) {
        let spec: RestoreSpec = serde_json::from_value(spec).unwrap();
        let filter = status_filter(&spec, &Catalogue::default()).unwrap();
        assert_eq!(filter.takes(&GroupResource::parse("widgets.example.com"), annotation), expected);
    }
}
