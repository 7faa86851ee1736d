//! What is not restored from an untrusted location: objects that grant permissions, intercept API requests, or make
//! Lifeboat act. A user with write access to a bucket must not become cluster administrator through another user's
//! restore.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::GroupResource;

/// Annotation of a location, "true": other users can write to its bucket, and its content is not trusted.
pub const UNTRUSTED: &str = "lifeboat.io/untrusted";
/// Annotation of a Restore, "true": restore privileged objects from an untrusted location as well.
pub const ALLOW_PRIVILEGED: &str = "lifeboat.io/allow-privileged";

/// Whether objects of a type grant permissions, intercept requests, or make Lifeboat act: the template of a Schedule
/// contains commands.
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

/// Whether the annotations of a Restore allow privileged objects.
pub fn is_allowed(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(ALLOW_PRIVILEGED)).is_some_and(|value| value == "true")
}

/// The warning for an item that is left out.
pub fn left_out(item: &str, location: &str) -> String {
    format!(
        "{item} was left out, because location {location} is untrusted; to restore it, check it and set annotation {ALLOW_PRIVILEGED}: \"true\" on the Restore"
    )
}

/// The warning for a pod whose hooks do not run, because they are commands from the backup.
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
