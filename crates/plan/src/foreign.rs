//! Detects a Velero, a Stash, a KubeStash or a second Lifeboat that is running in the cluster. Takes a description of the
//! cluster's workloads, gives those that would compete with Lifeboat for the same objects. Only running workloads
//! count, custom resource definitions alone do not. Called by `lifeboat install`, which refuses without `--adopt`.

use std::collections::BTreeMap;

use crate::install::is_marked;

/// The parts of a Deployment or DaemonSet that identify its product.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub images: Vec<String>,
    /// The number of pods requested; 0 means that the workload is not running.
    pub replicas: i32,
}

/// A running workload of another backup tool, or of another Lifeboat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    pub product: &'static str,
    pub workload: String,
}

/// The running workloads that serve the same API groups, in the order given: other backup tools, and a Lifeboat in a
/// namespace other than `namespace`.
pub fn live(workloads: &[Workload], namespace: &str) -> Vec<Foreign> {
    workloads
        .iter()
        .filter(|workload| {
            workload.replicas > 0 && !(is_lifeboat(workload) && workload.namespace == namespace)
        })
        .filter_map(|workload| {
            product(workload).map(|product| Foreign {
                product,
                workload: format!(
                    "{} {}/{}",
                    workload.kind.to_lowercase(),
                    workload.namespace,
                    workload.name
                ),
            })
        })
        .collect()
}

fn is_lifeboat(workload: &Workload) -> bool {
    is_marked(&workload.labels)
}

fn product(workload: &Workload) -> Option<&'static str> {
    if is_lifeboat(workload) {
        return Some("Lifeboat");
    }
    let app = label(workload, "app.kubernetes.io/name").or_else(|| label(workload, "app"));
    if label(workload, "component") == Some("velero")
        || label(workload, "deploy") == Some("velero")
        || app == Some("velero")
        || runs_image(workload, &["velero"])
    {
        return Some("Velero");
    }
    let kubestash = ["kubestash", "kubestash-operator"];
    if app.is_some_and(|app| kubestash.contains(&app)) || runs_image(workload, &kubestash) {
        return Some("KubeStash");
    }
    let stash = ["stash", "stash-community", "stash-enterprise", "stash-operator"];
    if app.is_some_and(|app| stash.contains(&app)) || runs_image(workload, &stash) {
        return Some("Stash");
    }
    None
}

/// Compares the last path component of the image's repository, so that a mirrored image is recognised too.
fn runs_image(workload: &Workload, names: &[&str]) -> bool {
    workload.images.iter().any(|image| {
        let without_digest = image.split('@').next().unwrap_or(image);
        let last = without_digest.rsplit('/').next().unwrap_or(without_digest);
        names.contains(&last.split(':').next().unwrap_or(last))
    })
}

fn label<'a>(workload: &'a Workload, key: &str) -> Option<&'a str> {
    workload.labels.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn workload(labels: &[(&str, &str)], image: &str, replicas: i32) -> Workload {
        Workload {
            kind: "Deployment".into(),
            namespace: "ns".into(),
            name: "x".into(),
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            images: vec![image.into()],
            replicas,
        }
    }

    #[rstest]
    #[case::velero_by_its_label(workload(&[("component", "velero")], "x", 1), Some("Velero"))]
    #[case::velero_by_helm_label(workload(&[("app.kubernetes.io/name", "velero")], "x", 1), Some("Velero"))]
    #[case::velero_by_a_mirrored_image(workload(&[], "mirror:5000/velero/velero:v1.18.3", 1), Some("Velero"))]
    #[case::velero_by_digest(workload(&[], "velero/velero@sha256:00", 1), Some("Velero"))]
    #[case::scaled_to_zero_is_not_alive(workload(&[("component", "velero")], "x", 0), None)]
    #[case::stash(workload(&[("app.kubernetes.io/name", "stash-enterprise")], "x", 1), Some("Stash"))]
    #[case::stash_by_image(workload(&[], "appscode/stash:v0.42.0", 2), Some("Stash"))]
    #[case::kubestash(workload(&[("app.kubernetes.io/name", "kubestash-operator")], "x", 1), Some("KubeStash"))]
    #[case::kubestash_by_a_mirrored_image(workload(&[], "mirror/kubestash/kubestash:v0.20.0", 1), Some("KubeStash"))]
    #[case::kubestash_at_rest(workload(&[], "ghcr.io/kubestash/kubestash:v0.20.0", 0), None)]
    #[case::a_job_of_a_kubestash_addon(workload(&[], "ghcr.io/kubedb/postgres-restic-plugin:v0.12.0", 1), None)]
    #[case::a_velero_plugin_is_not_velero(workload(&[], "velero/velero-plugin-for-aws:v1", 1), None)]
    #[case::another_app_called_stash_of_something(workload(&[], "company/stash-notes:1", 1), None)]
    #[case::ourselves(
        workload(&[("component", "velero"), ("app.kubernetes.io/name", "lifeboat")], "lifeboat", 2), None)]
    fn recognises_live_workloads_of_other_tools(
        #[case] workload: Workload,
        #[case] product: Option<&'static str>,
    ) {
        assert_eq!(live(&[workload], "ns").first().map(|foreign| foreign.product), product);
    }

    #[test]
    fn a_lifeboat_in_another_namespace_would_fight_too() {
        let other = workload(&[("app.kubernetes.io/name", "lifeboat")], "lifeboat", 1);
        assert_eq!(live(&[other], "elsewhere")[0].product, "Lifeboat");
    }
}
