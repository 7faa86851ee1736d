//! The order of types: which barrier each type is restored in. Upstream's high and low priority lists come first and
//! last, each entry with a barrier of its own. Between them are all other types, pods before the controllers that
//! would replace them, and after those the types that act on other objects. Parsed from
//! `--restore-resource-priorities` once, used for each restore.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::{Catalogue, GroupResource};

/// Upstream's lists.
const HIGH: [&str; 23] = [
    "customresourcedefinitions",
    "namespaces",
    "storageclasses",
    "volumesnapshotclass.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshots.snapshot.storage.k8s.io",
    "datauploads.velero.io",
    "persistentvolumes",
    "persistentvolumeclaims",
    "clusterroles",
    "roles",
    "serviceaccounts",
    "clusterrolebindings",
    "rolebindings",
    "secrets",
    "configmaps",
    "limitranges",
    "priorityclasses",
    "pods",
    "replicasets.apps",
    "clusterclasses.cluster.x-k8s.io",
    "endpoints",
    "services",
];
const LOW: [&str; 5] = [
    "clusterbootstraps.run.tanzu.vmware.com",
    "clusters.cluster.x-k8s.io",
    "clusterresourcesets.addons.cluster.x-k8s.io",
    "apps.kappctrl.k14s.io",
    "packageinstalls.packaging.carvel.dev",
];

/// Controllers of pods, restored after all pods and replica sets.
const CONTROLLERS: [&str; 7] = [
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "replicationcontrollers",
    "jobs.batch",
    "deployments.extensions",
    "daemonsets.extensions",
];
/// Types that act on workloads, which must exist first.
const GUARDS: [&str; 3] =
    ["cronjobs.batch", "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy"];
/// Types that intercept API requests: restored after everything that they could reject.
const GATES: [&str; 6] = [
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
];

/// The two lists, with names as users wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priorities {
    high: Vec<String>,
    low: Vec<String>,
}

/// Why a list is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrioritiesError {
    #[error(
        "{0:?} has more than one `-`; write it once, between the types to restore first and those to restore last"
    )]
    SeveralDashes(String),
    #[error("{0:?} names a type twice: {1}")]
    Twice(String, String),
}

impl Default for Priorities {
    fn default() -> Self {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self { high: list(&HIGH), low: list(&LOW) }
    }
}

impl std::fmt::Display for Priorities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.high.join(","))?;
        if self.low.is_empty() { Ok(()) } else { write!(f, ",-,{}", self.low.join(",")) }
    }
}

impl std::str::FromStr for Priorities {
    type Err = PrioritiesError;

    /// `a,b,-,y,z`: first a, then b; at the end y, then z.
    fn from_str(text: &str) -> Result<Self, PrioritiesError> {
        let names: Vec<String> =
            text.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect();
        let mut seen = std::collections::BTreeSet::new();
        if let Some(again) = names.iter().find(|name| *name != "-" && !seen.insert(name.as_str())) {
            return Err(PrioritiesError::Twice(text.to_owned(), again.clone()));
        }
        let mut parts = names.split(|name| name == "-").map(<[String]>::to_vec);
        let priorities =
            Self { high: parts.next().unwrap_or_default(), low: parts.next().unwrap_or_default() };
        if parts.next().is_some() {
            return Err(PrioritiesError::SeveralDashes(text.to_owned()));
        }
        Ok(priorities)
    }
}

impl Priorities {
    /// The barrier of each type, starting at zero. `types` are those of the backup; the catalogue resolves names.
    pub fn barriers(&self, types: &[GroupResource], catalogue: &Catalogue) -> BTreeMap<GroupResource, usize> {
        let place = |id: &GroupResource| self.place(id, catalogue);
        types.iter().map(|id| (id.clone(), place(id))).collect()
    }

    fn place(&self, id: &GroupResource, catalogue: &Catalogue) -> usize {
        let listed = |names: &[String]| names.iter().position(|name| means(name, id, catalogue));
        let among = |names: &[&str]| names.contains(&id.to_string().as_str());
        let high = self.high.len();
        if let Some(at) = listed(&self.high) {
            return at;
        }
        let low = high + 5;
        if let Some(at) = listed(&self.low) {
            return low + at;
        }
        let last = low + self.low.len();
        match id.to_string().as_str() {
            "pods" => high,
            "replicasets.apps" | "replicasets.extensions" => high + 1,
            _ if among(&CONTROLLERS) => high + 2,
            _ if among(&GUARDS) => last,
            "apiservices.apiregistration.k8s.io" => last + 1,
            _ if among(&GATES) => last + 2,
            _ if is_custom(id) => high + 4,
            _ => high + 3,
        }
    }
}

/// Whether a name in a list means this type; types that the cluster does not serve yet match by their full name.
fn means(name: &str, id: &GroupResource, catalogue: &Catalogue) -> bool {
    let known = catalogue.resolve(name);
    if !known.is_empty() {
        return known.iter().any(|known| known.id == *id);
    }
    let wanted = GroupResource::parse(name);
    let same_group = wanted.group == id.group || (wanted.group.is_empty() && id.group.ends_with(".k8s.io"));
    let plural = |suffix: &str| id.resource.strip_suffix(suffix) == Some(wanted.resource.as_str());
    same_group && (wanted.resource == id.resource || plural("s") || plural("es"))
}

/// API groups of Kubernetes itself have no dot, or end in k8s.io.
fn is_custom(id: &GroupResource) -> bool {
    id.group.contains('.') && !id.group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn order(priorities: &Priorities, names: &[&str]) -> Vec<usize> {
        let types: Vec<_> = names.iter().map(|name| GroupResource::parse(name)).collect();
        let barriers = priorities.barriers(&types, &Catalogue::default());
        types.iter().map(|id| barriers[id]).collect()
    }

    #[test]
    fn pods_come_before_their_controllers_and_gates_come_last() {
        let names = [
            "customresourcedefinitions.apiextensions.k8s.io",
            "namespaces",
            "volumesnapshotclasses.snapshot.storage.k8s.io",
            "persistentvolumeclaims",
            "rolebindings.rbac.authorization.k8s.io",
            "pods",
            "replicasets.apps",
            "services",
            "deployments.apps",
            "ingresses.networking.k8s.io",
            "widgets.example.com",
            "clusters.cluster.x-k8s.io",
            "cronjobs.batch",
            "apiservices.apiregistration.k8s.io",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
        ];
        let found = order(&Priorities::default(), &names);
        assert!(found.is_sorted_by(|one, other| one < other), "{found:?}");
    }

    #[test]
    fn pods_that_no_list_names_still_come_before_their_controllers() {
        let found =
            order(&"namespaces".parse().unwrap(), &["pods", "replicasets.apps", "jobs.batch", "ingresses"]);
        assert!(found.is_sorted_by(|one, other| one < other), "{found:?}");
    }

    #[test]
    fn lists_are_read_as_upstream_writes_them() {
        let given: Priorities = "a,b,-,y, z".parse().unwrap();
        assert_eq!(given.to_string(), "a,b,-,y,z");
        assert_eq!(order(&given, &["a", "b", "pods", "y", "z"]), [0, 1, 2, 7, 8]);
        assert_eq!(Priorities::default().to_string().parse::<Priorities>().unwrap(), Priorities::default());
        assert_eq!("-,z".parse::<Priorities>().unwrap().low, ["z"]);
    }

    #[rstest]
    #[case("a,-,b,-,c", PrioritiesError::SeveralDashes("a,-,b,-,c".into()))]
    #[case("a,b,-,a", PrioritiesError::Twice("a,b,-,a".into(), "a".into()))]
    fn broken_lists_are_refused(#[case] text: &str, #[case] expected: PrioritiesError) {
        assert_eq!(text.parse::<Priorities>().unwrap_err(), expected);
    }
}
