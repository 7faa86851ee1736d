//! Checks of the cluster before `install` changes anything: no other product controls the same objects, the namespace
//! can be used, the namespaces named by flags exist, the cluster has what Stash's API needs, rights are not extended without a flag, the repository password
//! can be kept.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use lifeboat_cluster::{Attempt, policies, rights, workloads};
use lifeboat_plan::install::{EXISTED_ANNOTATION, Rights, is_marked};
use lifeboat_plan::{foreign, password as password_plan};
use lifeboat_velero::password;

use super::options::Checked;
use crate::error::CliError;
use crate::settings::Settings;

/// Which namespaces existed before Lifeboat was installed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Existed {
    pub(super) server: bool,
    pub(super) movers: bool,
}

/// Refuses the installation, or returns which namespaces existed before.
pub(super) async fn check(
    client: &Client,
    settings: &Settings,
    checked: &Checked,
) -> Result<Existed, CliError> {
    no_other_product(client, settings, checked.adopt).await?;
    if checked.options.stash.is_served && !checked.crds_only && !policies::are_known(client).await? {
        return Err(CliError::refused(
            "this cluster has no ValidatingAdmissionPolicies (Kubernetes has since 1.30), and Stash's API needs them to check \
             who creates its objects",
        )
        .help("pass --stash=false to install without Stash's API"));
    }
    if checked.crds_only {
        return Ok(Existed::default());
    }
    let existed = Existed {
        server: namespace_can_be_ours(client, &settings.namespace).await?,
        movers: namespace_can_be_ours(client, &checked.options.movers.namespace).await?,
    };
    rights_do_not_grow_unasked(client, settings, checked).await?;
    if let Rights::Namespaces(names) = &checked.options.rights {
        all_exist(client, "--namespaces", names).await?;
        // In others than these, the installation puts bindings into them.
        all_exist(client, "--tenant-namespaces", &checked.options.stash.tenant_namespaces).await?;
    }
    let existing = password::read(client, &settings.namespace).await?;
    password_plan::plan(existing.as_ref(), checked.password.as_deref(), &password::random_password())
        .map_err(|error| CliError::refused(error.to_string()))?;
    Ok(existed)
}

/// Two servers for the same objects would both act on them without noticing each other.
async fn no_other_product(client: &Client, settings: &Settings, adopt: bool) -> Result<(), CliError> {
    let found = foreign::live(&workloads::list(client).await?, &settings.namespace);
    if found.is_empty() {
        return Ok(());
    }
    let list = found.iter().map(|f| format!("{} ({})", f.product, f.workload)).collect::<Vec<_>>().join(", ");
    if adopt {
        eprintln!("Installing beside {list}; scale it to 0 replicas, or both will act on the same objects.");
        return Ok(());
    }
    Err(CliError::refused(format!("another product is running in this cluster: {list}"))
        .help("scale it to 0 replicas first, or pass --adopt to install beside it and adopt its objects"))
}

/// How long to wait for a namespace that is being deleted.
const GOING: Duration = Duration::from_secs(30);

/// Install sets the namespace's Pod Security level, which would break other pods in it. Returns whether the namespace
/// existed before the first installation.
async fn namespace_can_be_ours(client: &Client, name: &str) -> Result<bool, CliError> {
    let api = Api::<Namespace>::all(client.clone());
    let read = || async { api.get_opt(name).await.attempt(format!("read Namespace {name}")) };
    let is_going = |found: &Option<Namespace>| {
        found.as_ref().is_some_and(|one| one.metadata.deletion_timestamp.is_some())
    };
    let mut found = read().await?;
    // After an uninstall the namespace is terminating for a few seconds.
    for _ in 0..GOING.as_secs() {
        if !is_going(&found) {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        found = read().await?;
    }
    let Some(namespace) = found else { return Ok(false) };
    if namespace.metadata.deletion_timestamp.is_some() {
        return Err(CliError::refused(format!("namespace {name} is being deleted"))
            .help(format!("wait until it is gone: kubectl wait --for=delete namespace/{name}")));
    }
    if is_marked(namespace.labels()) {
        return Ok(namespace.annotations().contains_key(EXISTED_ANNOTATION));
    }
    let pods = Api::<Pod>::namespaced(client.clone(), name)
        .list(&ListParams::default().limit(1))
        .await
        .attempt(format!("list Pods in {name}"))?;
    match pods.items.first() {
        None => Ok(true),
        Some(pod) => Err(CliError::refused(format!(
            "namespace {name} is not Lifeboat's: pod {} runs in it, and Lifeboat sets the Pod Security level of the namespace",
            pod.name_any()
        ))
        .help("install into another namespace with --namespace NAME; the default is lifeboat")),
    }
}

/// Running install again to upgrade must not make a cluster administrator of a server with limited rights.
async fn rights_do_not_grow_unasked(
    client: &Client,
    settings: &Settings,
    checked: &Checked,
) -> Result<(), CliError> {
    if checked.full_rights || checked.options.rights != Rights::Full {
        return Ok(());
    }
    let held = rights::held(client, &settings.namespace).await?;
    let limited: Vec<_> = held
        .iter()
        .filter(|name| name.kind == "RoleBinding" && !is_of_a_tenant(&name.name))
        .filter_map(|name| name.namespace.clone())
        .filter(|namespace| *namespace != settings.namespace)
        .filter(|namespace| *namespace != checked.options.movers.namespace)
        .collect();
    if limited.is_empty() {
        return Ok(());
    }
    Err(CliError::refused(format!("this installation is limited to namespaces {}", limited.join(", "))).help(
        format!(
            "pass --namespaces {} to keep the limit, or --full-rights to let it back up and restore anything",
            limited.join(",")
        ),
    ))
}

/// Whether a binding gives the rights that Stash's API needs, and not those of a limited installation.
fn is_of_a_tenant(binding: &str) -> bool {
    binding.ends_with(":stash:server")
}

async fn all_exist(client: &Client, flag: &str, names: &[String]) -> Result<(), CliError> {
    let api = Api::<Namespace>::all(client.clone());
    let mut missing = Vec::new();
    for name in names {
        if api.get_opt(name).await.attempt(format!("read Namespace {name}"))?.is_none() {
            missing.push(name.clone());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(CliError::not_found(format!("{flag} names {}, which do not exist", missing.join(", ")))
        .help("create them first, or leave them out"))
}
