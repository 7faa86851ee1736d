//! What a backup from an untrusted location may not bring: whatever gives rights or stands between clients and the API
//! server, or tells Lifeboat what to do. Whoever can write into a bucket must not become an administrator by somebody else's
//! restore.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::GroupResource;

/// Annotation of a location, "true": others can write into its bucket, and its content is not trusted.
pub const UNTRUSTED: &str = "lifeboat.io/untrusted";
/// Annotation of a Restore, "true": restore all of it all the same.
pub const ALLOW_PRIVILEGED: &str = "lifeboat.io/allow-privileged";

/// Whether objects of a type give rights, stand in the way of requests, or make Lifeboat itself act: the template of a
/// Schedule has commands in it.
pub fn is_privileged(resource: &GroupResource) -> bool {
    let group = resource.group.as_str();
    matches!(
        group,
        "rbac.authorization.k8s.io"
            | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "certificates.k8s.io"
            | "velero.io"
            | "appcatalog.appscode.com"
            | "stash.appscode.com"
    ) || group.ends_with(".stash.appscode.com")
}

/// Whether the annotations of a Restore allow it all the same.
pub fn is_allowed(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(ALLOW_PRIVILEGED)).is_some_and(|value| value == "true")
}

/// The warning for an item that is left out.
pub fn left_out(item: &str, location: &str) -> String {
    format!(
        "{item} was left out, because location {location} is untrusted; to restore it, check it and set annotation {ALLOW_PRIVILEGED}: \"true\" on the Restore"
    )
}

/// The warning for a pod whose hooks, which are commands from the backup, do not run.
pub fn hooks_left_out(pod: &str, location: &str) -> String {
    left_out(&format!("the restore hook in the annotations of pod {pod}"), location)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("clusterrolebindings.rbac.authorization.k8s.io", true)]
    #[case("mutatingwebhookconfigurations.admissionregistration.k8s.io", true)]
    #[case("customresourcedefinitions.apiextensions.k8s.io", true)]
    #[case("apiservices.apiregistration.k8s.io", true)]
    #[case("schedules.velero.io", true)]
    #[case("backupconfigurations.stash.appscode.com", true)]
    #[case("snapshots.repositories.stash.appscode.com", true)]
    #[case("deployments.apps", false)]
    #[case("pods", false)]
    fn rights_and_gates_are_privileged(#[case] resource: &str, #[case] expected: bool) {
        assert_eq!(is_privileged(&GroupResource::parse(resource)), expected);
    }
}
