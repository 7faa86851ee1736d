//! `lifeboat stash debug operator`: the server's pods with the ends of their logs, and whether the kinds are installed.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use lifeboat_api::{appcatalog, repositories, stash};
use lifeboat_cluster::Attempt;
use lifeboat_plan::install::DEFAULT_NAMESPACE;
use serde_json::Value;

use super::report::Report;
use crate::args::namespace_name;
use crate::commands::stash::Tenant;
use crate::commands::stash::view::text;

/// Kinds that no controller serves yet.
const LATER: [&str; 4] = ["Restic", "Recovery", "BackupAgent", "BackupBlueprint"];
/// Selects the server's pods.
const SERVER: &str = "app.kubernetes.io/name=lifeboat,component=velero";

#[derive(clap::Args)]
pub(crate) struct OperatorArgs {
    /// Namespace of Lifeboat's server
    #[arg(long, value_name = "NAMESPACE", env = "LIFEBOAT_NAMESPACE", default_value = DEFAULT_NAMESPACE, value_parser = namespace_name)]
    server_namespace: String,
}

pub(super) async fn report(tenant: &Tenant, args: &OperatorArgs) -> String {
    let server = Tenant { client: tenant.client.clone(), namespace: args.server_namespace.clone() };
    let mut report = Report::new(&server);
    kinds(&mut report).await;
    pods(&mut report).await;
    report.finish()
}

/// Which kinds of Stash's API the cluster lacks.
async fn kinds(report: &mut Report<'_>) {
    report.heading("kinds");
    let all = [stash::crds(), repositories::crds(), appcatalog::crds()].concat();
    let wanted = all.iter().filter(|crd| !LATER.contains(&crd.kind()));
    let names: Vec<String> = wanted.map(|crd| crd.name().to_owned()).collect();
    let line = match lifeboat_cluster::crds::missing(&report.tenant.client, &names).await {
        Ok(missing) if missing.is_empty() => "all are installed".to_owned(),
        Ok(missing) => format!("not installed: {}", missing.join(", ")),
        Err(error) => format!("cannot be read: {}", error.chain()),
    };
    report.lines(&line);
}

async fn pods(report: &mut Report<'_>) {
    let (client, namespace) = (report.tenant.client.clone(), report.tenant.namespace.clone());
    report.heading(&format!("server in namespace {namespace}"));
    let api: Api<Pod> = Api::namespaced(client, &namespace);
    let found = api.list(&ListParams::default().labels(SERVER)).await;
    let found = match found.attempt(format!("list Pods in namespace {namespace}")) {
        Ok(found) => found.items,
        Err(error) => return report.lines(&format!("its pods cannot be read: {}", error.chain())),
    };
    if found.is_empty() {
        report.lines("it has no pods; name its namespace with --server-namespace, or install it with `lifeboat install`");
    }
    for pod in &found {
        let pod: Value = serde_json::to_value(pod).unwrap_or_default();
        let container = text(&pod["spec"]["containers"][0]["name"]).to_owned();
        report.lines(&format!("image {}", text(&pod["spec"]["containers"][0]["image"])));
        report.pod(&pod, &container).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::World;

    #[tokio::test]
    async fn the_server_and_the_kinds_are_shown() {
        let world = World::new().await;
        let args = OperatorArgs { server_namespace: "lifeboat".into() };
        let empty = report(&world.tenant, &args).await;
        assert!(
            empty.contains("not installed:") && empty.contains("restorebatches.stash.appscode.com"),
            "{empty}"
        );
        assert!(empty.contains("--server-namespace"), "{empty}");
        let pod = "/api/v1/namespaces/lifeboat/pods/server-1";
        let labels = json!({"app.kubernetes.io/name": "lifeboat", "component": "velero"});
        world.server.put(
            pod,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "velero", "image": "lifeboat:1"}]}, "status": {"phase": "Running"}}),
        );
        world.server.set_log(pod, "is the leader");
        let report = report(&world.tenant, &args).await;
        for expected in ["image lifeboat:1", "pod server-1: Running", "| is the leader"] {
            assert!(report.contains(expected), "{expected} is not in\n{report}");
        }
    }
}
