//! `lifeboat install`: reads and checks all input first, then applies custom resource definitions, namespace, RBAC,
//! Secrets, the Deployment and, if a bucket was given, the first location. Running it again updates the installation.

mod options;
mod preflight;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Api, Client};
use lifeboat_api::crds::{self, Crd};
use lifeboat_cluster::apply::ObjectName;
use lifeboat_cluster::wait::{Look, until};
use lifeboat_cluster::{Attempt, apply, policies, rights};
use lifeboat_plan::install::policies::is_policy;
use lifeboat_plan::{install, password as password_plan};
use lifeboat_velero::password;
use serde_json::Value;

use options::Checked;
pub(crate) use options::{Args, image};

use super::backup_location::{Freshness, wait_until_available};
use crate::args::Format;
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, args: &Args) -> Result<(), CliError> {
    let mut checked = options::check(&settings.namespace, args)?;
    if checked.dry_run {
        return print_objects(&checked);
    }
    let client = settings.client().await?;
    let existed = preflight::check(&client, settings, &checked).await?;
    checked.options.namespace_existed = existed.server;
    checked.options.movers.namespace_existed = existed.movers;
    let objects = if checked.crds_only { Vec::new() } else { install::objects(&checked.options) };
    let (checks, objects): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_policy);
    let mut applied = Vec::new();
    // Before the kinds that they check: no object is ever created unchecked.
    for object in &checks {
        let name = policies::apply(&client, object).await?;
        step(&name.to_string());
        applied.push(name);
    }
    step("custom resource definitions");
    lifeboat_cluster::crds::install(&client, &kinds(&checked.options)).await?;
    if checked.crds_only {
        return Ok(());
    }
    let before = Freshness::of(&client, &settings.namespace, "default").await?;
    for object in &objects {
        let name = apply::apply(&client, object).await?;
        step(&name.to_string());
        if name.kind == "Namespace" && name.name == settings.namespace {
            password::settle(&client, &settings.namespace, checked.password.as_deref())
                .await
                .map_err(|error| CliError::failed("cannot create or read the repository password", error))?;
            apply_optional(&client, checked.credentials.as_ref()).await?;
        }
        applied.push(name);
    }
    remove_others(&client, settings, &applied).await?;
    apply_optional(&client, checked.location.as_ref()).await?;
    apply_optional(&client, checked.snapshot_location.as_ref()).await?;
    if checked.wait {
        wait_until_running(&client, settings, checked.timeout).await?;
        if checked.location.is_some() {
            wait_until_available(&client, &settings.namespace, "default", &before, checked.timeout).await?;
        }
    }
    print_summary(settings, &checked, &client).await
}

/// Removes RBAC objects of an earlier installation with other rights (the whole cluster, or other namespaces), and policies of
/// one that served Stash's API, or of another version.
async fn remove_others(client: &Client, settings: &Settings, applied: &[ObjectName]) -> Result<(), CliError> {
    let held = rights::held(client, &settings.namespace).await?;
    for name in held.into_iter().chain(policies::held(client, &settings.namespace).await?) {
        if !applied.contains(&name) && apply::delete(client, &name).await? {
            step(&format!("removed: {name}"));
        }
    }
    Ok(())
}

async fn apply_optional(client: &Client, object: Option<&Value>) -> Result<(), CliError> {
    if let Some(object) = object {
        step(&apply::apply(client, object).await?.to_string());
    }
    Ok(())
}

async fn wait_until_running(client: &Client, settings: &Settings, limit: Duration) -> Result<(), CliError> {
    step("waiting for the server");
    let api: Api<Deployment> = Api::namespaced(client.clone(), &settings.namespace);
    until("the server", limit, async || {
        let found = api.get("lifeboat").await.attempt("read Deployment lifeboat")?;
        let wanted = found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = found.status.clone().unwrap_or_default();
        let current = status.observed_generation >= found.metadata.generation;
        let ready = status.ready_replicas.unwrap_or(0).min(status.updated_replicas.unwrap_or(0));
        let only_new = status.replicas.unwrap_or(0) == wanted;
        Ok(if current && ready >= wanted && only_new {
            Look::Done(())
        } else {
            Look::NotYet(format!("{ready} of {wanted} replicas ready"))
        })
    })
    .await
    .map_err(|error| {
        let namespace = &settings.namespace;
        CliError::from(error).help(format!(
            "`kubectl -n {namespace} describe pods` shows why; `kubectl -n {namespace} logs deploy/lifeboat` shows the log"
        ))
    })
}

/// The kinds of an installation.
fn kinds(options: &install::InstallOptions) -> Vec<Crd> {
    let restics = options.stash.is_served && options.stash.restics;
    let restics = if restics { crds::restic() } else { Vec::new() };
    [crds::installed(options.stash.is_served), restics].concat()
}

fn print_objects(checked: &Checked) -> Result<(), CliError> {
    let to_value =
        |crd| serde_json::to_value(crd).map_err(|error| CliError::failed("cannot write YAML", error));
    let mut objects = kinds(&checked.options).iter().map(to_value).collect::<Result<Vec<Value>, _>>()?;
    if !checked.crds_only {
        objects.extend(install::objects(&checked.options));
        objects.extend(checked.location.clone());
        objects.extend(checked.snapshot_location.clone());
    }
    match checked.output {
        Format::Json => printer::line(&printer::json(&printer::list(&objects))?),
        Format::Yaml => printer::text(&printer::documents(&objects)?),
    }
    if checked.credentials.is_some() {
        let (name, key) = install::CLOUD_CREDENTIALS;
        eprintln!("Not printed: Secret {name} (key {key}) with the credentials that were given.");
    }
    Ok(())
}

async fn print_summary(settings: &Settings, checked: &Checked, client: &Client) -> Result<(), CliError> {
    let secret = password::read(client, &settings.namespace).await?;
    let namespace = &settings.namespace;
    printer::line(&format!("\nLifeboat is installed in namespace {namespace}."));
    match &checked.options.rights {
        install::Rights::Full => {
            printer::line(
                "  Rights: it can back up and restore anything in the cluster; that is cluster-admin in effect.",
            );
            printer::line(&format!(
                "          Everyone who may create objects in namespace {namespace} has those rights too."
            ));
        }
        install::Rights::Namespaces(names) => {
            printer::line(&format!(
                "  Rights: namespaces {} only; cluster-wide it may only read.",
                names.join(", ")
            ));
        }
    }
    print_stash(&checked.options);
    let movers = &checked.options.movers;
    printer::line(&format!(
        "  Movers: in namespace {}; {}",
        movers.namespace,
        if movers.node_access {
            "they may read and write directories of nodes."
        } else {
            "they may not access directories of nodes (--node-access allows it, for pod volumes)."
        }
    ));
    for fact in password_plan::facts(secret.as_ref()).iter().filter(|fact| !fact.holds) {
        printer::line(&format!("  To do:  {}", fact.message));
    }
    let locations = super::backup_location::api(client, namespace);
    let locations =
        locations.list(&ListParams::default().limit(1)).await.attempt("list BackupStorageLocations")?;
    printer::line(if locations.items.is_empty() {
        "  Next:   create a location for backups: lifeboat backup-location create default --default --provider aws …"
    } else {
        "  Next:   lifeboat backup-location get"
    });
    Ok(())
}

fn print_stash(options: &install::InstallOptions) {
    if options.stash.is_served {
        let served = install::served_namespaces(options);
        let place = if served.is_empty() {
            "all namespaces".to_owned()
        } else {
            format!("namespaces {}", served.join(", "))
        };
        printer::line(&format!(
            "  Stash:  its API is served in {place}; policies check who may create its objects."
        ));
    }
}

fn step(what: &str) {
    eprintln!("  {what}");
}
