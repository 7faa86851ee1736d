//! For tests: snapshots in the repositories of the location `default`.

use std::sync::Arc;

use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_mover::task::UID_TAG;
use lifeboat_repository::backup::{BackupOptions, Source, backup};
use lifeboat_repository::lock::LockOptions;
use lifeboat_repository::progress::Progress;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use crate::repositories::{self, RepositoryKey};

/// The password of the installation.
pub(crate) const PASSWORD: &str = "correct horse";

/// With the Secret that opens repositories, and the namespace that names the cluster.
pub(crate) fn prepare(cluster: &Cluster, password: &str) {
    use base64::Engine;
    let encoded = base64::engine::general_purpose::STANDARD.encode(password);
    cluster.put(
        "secrets",
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "velero-repo-credentials"},
            "data": {"repository-password": encoded}}),
    );
    cluster.put(
        "namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "cluster"}}),
    );
}

/// Makes a snapshot that carries the tag of a task; gives its ID.
pub(crate) async fn snapshot(cluster: &Cluster, namespace: &str, task: &str) -> String {
    tagged(cluster, namespace, &[&format!("{UID_TAG}{task}")]).await
}

/// The key of a namespace's repository in location `default`.
pub(crate) fn key(namespace: &str) -> RepositoryKey {
    repositories::key(&LocationName::new("default"), &NamespaceName::new(namespace))
}

/// Makes a snapshot with these tags; gives its ID.
pub(crate) async fn tagged(cluster: &Cluster, namespace: &str, tags: &[&str]) -> String {
    let access = repositories::ensure(&cluster.context, &key(namespace)).await.unwrap();
    let repository = repositories::open(&cluster.context, &access).await.unwrap();
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("file"), tags.join(",")).unwrap();
    let mut options = BackupOptions::new(Source::Paths(vec![source.path().to_owned()]), "host");
    options.tags = tags.iter().map(|&tag| tag.to_owned()).collect();
    let progress = Arc::new(Progress::default());
    let made =
        backup(&repository, options, &LockOptions::default(), progress, CancellationToken::new()).await;
    made.unwrap().snapshot_id.unwrap().to_string()
}

/// The IDs of all snapshots of a namespace's repository.
pub(crate) async fn snapshots(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let access = repositories::access(&cluster.context, &key(namespace)).await.unwrap();
    let repository = repositories::open(&cluster.context, &access).await.unwrap();
    let loaded = repository.load_readable_snapshots().await.unwrap();
    loaded.ids().map(|id| id.to_string()).collect()
}
