//! `lifeboat uninstall`: removes the server, its RBAC objects and admission policies. Custom resources, Secrets (the repository
//! password!) and buckets stay, unless two flags ask for their deletion.

mod stash;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::crds;
use lifeboat_api::velero::Restore;
use lifeboat_api::velero::names::RESTORE_FINALIZER;
use lifeboat_cluster::apply::{ObjectName, delete};
use lifeboat_cluster::{Attempt, policies, rights};
use lifeboat_plan::install::{EXISTED_ANNOTATION, is_marked, mover_namespace};
use lifeboat_plan::transfer::gateway;
use lifeboat_plan::transfer::movers::job::SERVICE_ACCOUNT;

use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also delete the custom resource definitions, and with them every Backup, Schedule and location object and
    /// every object of Stash's API, and the namespace with the repository password; data in buckets stays
    #[arg(long)]
    delete_crds: bool,
    /// Confirms --delete-crds
    #[arg(long, requires = "delete_crds")]
    yes_delete_every_backup_object: bool,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    if args.delete_crds && !args.yes_delete_every_backup_object {
        return Err(CliError::refused(
            "--delete-crds deletes every Backup, Schedule and location object, every object of Stash's API and the repository password",
        )
        .help(
            "if that is what you want, export the password first (`lifeboat repository-password export`), then add \
             --yes-delete-every-backup-object",
        ));
    }
    let client = settings.client().await?;
    let namespace = our_namespace(&client, &settings.namespace).await?;
    let served = stash::served(&client, &settings.namespace).await?;
    let mut deleted = 0;
    for name in ours(&client, settings).await? {
        if delete(&client, &name).await? {
            eprintln!("  deleted {name}");
            deleted += 1;
        }
    }
    if deleted == 0 && (namespace.is_none() || !args.delete_crds) {
        return Err(CliError::not_found(format!("there is no Lifeboat in namespace {}", settings.namespace))
            .help("name its namespace with --namespace; `kubectl get deploy -A -l app.kubernetes.io/name=lifeboat` finds it"));
    }
    delete_movers(&client, &settings.namespace).await?;
    release_restores(&client, if args.delete_crds { None } else { Some(&settings.namespace) }).await?;
    if args.delete_crds || served.is_some() {
        stash::release(&client, served.as_ref().filter(|_| !args.delete_crds)).await?;
    }
    if args.delete_crds {
        delete_everything(&client, settings, namespace.as_ref()).await
    } else {
        printer::line(&format!(
            "Lifeboat is removed from namespace {}. Kept: the namespace with its Secrets and locations, the custom resource \
             definitions with every backup object, and all data in buckets.",
            settings.namespace
        ));
        Ok(())
    }
}

/// The namespace, if an installation labelled it as Lifeboat's. Other namespaces are not deleted.
async fn our_namespace(client: &Client, name: &str) -> Result<Option<Namespace>, CliError> {
    let found = Api::<Namespace>::all(client.clone())
        .get_opt(name)
        .await
        .attempt(format!("read Namespace {name}"))?;
    Ok(found.filter(|namespace| is_marked(namespace.labels())))
}

/// Deletes the movers' namespace with everything in it; of a namespace that existed before the installation only
/// Lifeboat's objects.
async fn delete_movers(client: &Client, server: &str) -> Result<(), CliError> {
    let name = mover_namespace(server);
    let Some(namespace) = our_namespace(client, &name).await? else { return Ok(()) };
    let names = if namespace.annotations().contains_key(EXISTED_ANNOTATION) {
        vec![
            object("networking.k8s.io/v1", "NetworkPolicy", Some(&name), SERVICE_ACCOUNT),
            object("v1", "ServiceAccount", Some(&name), SERVICE_ACCOUNT),
        ]
    } else {
        vec![object("v1", "Namespace", None, &name)]
    };
    for name in names {
        if delete(client, &name).await? {
            eprintln!("  deleted {name}");
        }
    }
    Ok(())
}

/// Removes the finalizers of Restores. A deleted Restore waits for a server to remove its files; without a server it
/// would keep its namespace from being deleted. Without `namespace`, Restores of all namespaces.
async fn release_restores(client: &Client, namespace: Option<&str>) -> Result<(), CliError> {
    let all = match namespace {
        Some(name) => Api::<Restore>::namespaced(client.clone(), name),
        None => Api::<Restore>::all(client.clone()),
    };
    let found = match all.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        other => other.attempt("list Restores")?,
    };
    for restore in found {
        let kept: Vec<&String> =
            restore.finalizers().iter().filter(|finalizer| *finalizer != RESTORE_FINALIZER).collect();
        if kept.len() == restore.finalizers().len() {
            continue;
        }
        let (name, namespace) = (restore.name_any(), restore.namespace().unwrap_or_default());
        let patch = serde_json::json!({"metadata": {"finalizers": kept, "resourceVersion": restore.resource_version()}});
        Api::<Restore>::namespaced(client.clone(), &namespace)
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .attempt(format!("release Restore {namespace}/{name}"))?;
    }
    Ok(())
}

async fn delete_everything(
    client: &Client,
    settings: &Settings,
    namespace: Option<&Namespace>,
) -> Result<(), CliError> {
    let mut kinds: Vec<String> = crds::installed(false).iter().map(|crd| crd.name().to_owned()).collect();
    kinds.extend(stash::our_kinds(client).await?);
    for name in kinds {
        if lifeboat_cluster::crds::delete(client, &name).await? {
            eprintln!("  deleted CustomResourceDefinition {name}");
        }
    }
    let made_by_us =
        namespace.is_some_and(|namespace| !namespace.annotations().contains_key(EXISTED_ANNOTATION));
    if made_by_us {
        let name = object("v1", "Namespace", None, &settings.namespace);
        if delete(client, &name).await? {
            eprintln!("  deleted {name}");
        }
    } else {
        eprintln!("  kept Namespace {}: it existed before Lifeboat", settings.namespace);
    }
    printer::line("Lifeboat and its objects are removed; data in buckets is unchanged.");
    Ok(())
}

/// The objects that `install` created, including RBAC objects in namespaces that were named at installation.
async fn ours(client: &Client, settings: &Settings) -> Result<Vec<ObjectName>, CliError> {
    let namespace = Some(settings.namespace.as_str());
    let mut names = vec![
        object("apps/v1", "Deployment", namespace, "lifeboat"),
        object("v1", "Service", namespace, "lifeboat-downloads"),
        object("v1", "Service", namespace, gateway::SERVICE),
    ];
    // No server acts any more on what the policies check.
    names.extend(policies::held(client, &settings.namespace).await?);
    names.extend(rights::held(client, &settings.namespace).await?);
    names.push(object("coordination.k8s.io/v1", "Lease", namespace, "lifeboat-server"));
    names.push(object("v1", "ServiceAccount", namespace, "lifeboat"));
    Ok(names)
}

fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectName {
    ObjectName {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}
