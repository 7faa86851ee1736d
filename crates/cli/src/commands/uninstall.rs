//! `lifeboat uninstall`: removes the server and its rights. Custom resources, Secrets (the repository password!) and
//! the bucket stay, unless the user says so twice.

use kube::Client;
use lifeboat_api::crds;
use lifeboat_cluster::apply::{ObjectName, delete};
use lifeboat_cluster::rights;

use crate::error::CliError;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also delete the custom resource definitions, and with them every Backup, Schedule and location object, and the
    /// namespace with the repository password; data in buckets stays
    #[arg(long)]
    delete_crds: bool,
    /// The second yes that --delete-crds needs
    #[arg(long)]
    yes_delete_every_backup_object: bool,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    if args.delete_crds && !args.yes_delete_every_backup_object {
        return Err(CliError::refused(
            "--delete-crds deletes every Backup, Schedule and location object and the repository password",
        )
        .help(
            "if that is what you want, export the password first (`lifeboat repository-password export`), then add \
             --yes-delete-every-backup-object",
        ));
    }
    let client = settings.client().await?;
    for name in ours(&client, settings).await? {
        if delete(&client, &name).await? {
            eprintln!("  deleted {name}");
        }
    }
    if args.delete_crds {
        for crd in crds::installed() {
            let name = crd.name();
            lifeboat_cluster::crds::delete(&client, name).await?;
            eprintln!("  deleted CustomResourceDefinition {name}");
        }
        let namespace = object("v1", "Namespace", None, &settings.namespace);
        if delete(&client, &namespace).await? {
            eprintln!("  deleted {namespace}");
        }
        println!("Lifeboat and its objects are gone; data in buckets is untouched.");
    } else {
        println!(
            "Lifeboat is gone from namespace {0}. Kept: the namespace with its Secrets and locations, the custom \
             resource definitions with every backup object, and all data in buckets.",
            settings.namespace
        );
    }
    Ok(())
}

/// What `install` made; rights in namespaces that were named at install included.
async fn ours(client: &Client, settings: &Settings) -> Result<Vec<ObjectName>, CliError> {
    let namespace = Some(settings.namespace.as_str());
    let mut names = vec![object("apps/v1", "Deployment", namespace, "lifeboat")];
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
