//! `lifeboat install`: everything is read and checked first; then custom resources, namespace, rights, Secrets,
//! Deployment and, where a bucket was named, the first location. Running it again brings an installation up to date.

mod options;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use lifeboat_api::crds;
use lifeboat_cluster::apply::ObjectName;
use lifeboat_cluster::wait::{Look, until};
use lifeboat_cluster::{Attempt, apply, rights, workloads};
use lifeboat_operator::password;
use lifeboat_plan::{foreign, install, password as password_plan};
use serde_json::Value;

pub(crate) use options::Args;
use options::Checked;

use super::backup_location::wait_until_available;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, args: &Args) -> Result<(), CliError> {
    let checked = options::check(&settings.namespace, args)?;
    if checked.dry_run {
        return print_objects(&checked);
    }
    let client = settings.client().await?;
    refuse_beside_others(&client, checked.adopt).await?;
    step("custom resource definitions");
    lifeboat_cluster::crds::install(&client, &crds::installed()).await?;
    if checked.crds_only {
        return Ok(());
    }
    let mut applied = Vec::new();
    for object in install::objects(&checked.options) {
        let name = apply::apply(&client, &object).await?;
        step(&name.to_string());
        if name.kind == "Namespace" {
            apply_secrets(&client, settings, &checked).await?;
        }
        applied.push(name);
    }
    take_back_other_rights(&client, settings, &applied).await?;
    if let Some(location) = &checked.location {
        step(&apply::apply(&client, location).await?.to_string());
    }
    if checked.wait {
        wait_until_running(&client, settings, checked.timeout).await?;
        if checked.location.is_some() {
            wait_until_available(&client, &settings.namespace, "default", checked.timeout).await?;
        }
    }
    say_what_to_know(settings, &checked, &client).await
}

/// An earlier installation may have had other rights (the whole cluster, other namespaces): they end here.
async fn take_back_other_rights(
    client: &Client,
    settings: &Settings,
    applied: &[ObjectName],
) -> Result<(), CliError> {
    for name in rights::held(client, &settings.namespace).await? {
        if !applied.contains(&name) && apply::delete(client, &name).await? {
            step(&format!("taken back: {name}"));
        }
    }
    Ok(())
}

/// The Secrets are not among the objects: a password is made once and never replaced.
async fn apply_secrets(client: &Client, settings: &Settings, checked: &Checked) -> Result<(), CliError> {
    let existing = password::read(client, &settings.namespace).await?;
    let random = password::random_password();
    let plan = password_plan::plan(existing.as_ref(), checked.password.as_deref(), &random)
        .map_err(|error| CliError::refused(error.to_string()))?;
    password::carry_out(&Api::<Secret>::namespaced(client.clone(), &settings.namespace), plan).await?;
    if let Some(secret) = &checked.credentials {
        step(&apply::apply(client, secret).await?.to_string());
    }
    Ok(())
}

/// Two servers over the same objects would both work on them, and one would not know it.
async fn refuse_beside_others(client: &Client, adopt: bool) -> Result<(), CliError> {
    let found = foreign::live(&workloads::list(client).await?);
    if found.is_empty() {
        return Ok(());
    }
    let list = found.iter().map(|f| format!("{} ({})", f.product, f.workload)).collect::<Vec<_>>().join(", ");
    if adopt {
        eprintln!(
            "Taking over beside {list}; scale it to 0 replicas, or both will work on the same objects."
        );
        return Ok(());
    }
    Err(CliError::refused(format!("this cluster is served by {list}"))
        .help("scale it to 0 replicas first, or pass --adopt to install beside it and take its objects over"))
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
            "`kubectl -n {namespace} describe pods` tells why; `kubectl -n {namespace} logs deploy/lifeboat` what it says"
        ))
    })
}

fn print_objects(checked: &Checked) -> Result<(), CliError> {
    let to_value =
        |crd| serde_json::to_value(crd).map_err(|error| CliError::failed("cannot write YAML", error));
    let mut objects = crds::installed().iter().map(to_value).collect::<Result<Vec<Value>, _>>()?;
    if !checked.crds_only {
        objects.extend(install::objects(&checked.options));
        objects.extend(checked.location.clone());
    }
    match checked.output {
        Output::Json => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
            println!("{}", printer::json(&list)?);
        }
        Output::Yaml | Output::Table => print!("{}", printer::documents(&objects)?),
    }
    if checked.credentials.is_some() {
        let (name, key) = install::CLOUD_CREDENTIALS;
        eprintln!("Not printed: Secret {name} (key {key}) with the credentials that were given.");
    }
    Ok(())
}

async fn say_what_to_know(settings: &Settings, checked: &Checked, client: &Client) -> Result<(), CliError> {
    let secret = password::read(client, &settings.namespace).await?;
    let namespace = &settings.namespace;
    println!("\nLifeboat is installed in namespace {namespace}.");
    match &checked.options.rights {
        install::Rights::Full => {
            println!(
                "  Rights: it can back up and restore anything in the cluster; that is cluster-admin in effect."
            );
            println!("          Whoever may create objects in namespace {namespace} has those rights too.");
        }
        install::Rights::Namespaces(names) => {
            println!("  Rights: namespaces {} only; cluster-wide it may only look.", names.join(", "));
        }
    }
    for fact in password_plan::facts(secret.as_ref()).iter().filter(|fact| !fact.holds) {
        println!("  To do:  {}", fact.message);
    }
    if checked.location.is_none() {
        println!(
            "  Next:   say where backups go: lifeboat backup-location create default --default --provider aws …"
        );
    } else {
        println!("  Next:   lifeboat backup-location get");
    }
    Ok(())
}

fn step(what: &str) {
    eprintln!("  {what}");
}
