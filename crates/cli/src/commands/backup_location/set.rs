//! `lifeboat backup-location set NAME`: changes only what the flags name. (Stock Velero's `set` removes the certificate
//! authority if none is given; this one keeps it.)

use std::path::PathBuf;
use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::common::GoDuration;
use lifeboat_cluster::objects;
use serde_json::{Value, json};

use super::spec::{self, AccessMode, ConfigArg, CredentialArg};
use super::{Freshness, api, find, is_default, listed, wait_until_available};
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the location
    name: String,
    /// Make it the default location, or with --default=false no longer the default
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    default: Option<bool>,
    /// Bucket that holds the backups
    #[arg(long)]
    bucket: Option<String>,
    /// Directory in the bucket; empty for its root
    #[arg(long)]
    prefix: Option<String>,
    /// Secret with the credentials, and the key in it
    #[arg(long, value_name = "SECRET=KEY")]
    credential: Option<CredentialArg>,
    /// File with the certificate authority of the endpoint (PEM)
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Settings of the provider to add or change; KEY= removes one
    #[arg(long, value_name = "KEY=VALUE,…")]
    config: Option<ConfigArg>,
    /// Whether backups may be created and deleted there
    #[arg(long, value_enum)]
    access_mode: Option<AccessMode>,
    /// How often to sync backups from the bucket
    #[arg(long, value_name = "DURATION")]
    backup_sync_period: Option<GoDuration>,
    /// How often to validate the location
    #[arg(long, value_name = "DURATION")]
    validation_frequency: Option<GoDuration>,
    /// Wait until the server has validated the location; fails if it is not Available
    #[arg(long)]
    wait: bool,
    /// Seconds to wait
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = crate::args::seconds)]
    timeout: u64,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let patch = patch(&args)?;
    if patch.as_object().is_some_and(serde_json::Map::is_empty) {
        return Err(CliError::refused("no flag names anything to change")
            .help("see `lifeboat backup-location set --help`"));
    }
    let client = settings.client().await?;
    let api = api(&client, &settings.namespace);
    let location = find(&api, &args.name).await?;
    let before = Freshness::of(&client, &settings.namespace, &args.name).await?;
    if args.default == Some(true) {
        // The other locations lose the default first, so that there are never two default locations.
        let others = listed(&api, None).await?;
        for other in others.iter().filter(|other| other.name_any() != args.name && is_default(other)) {
            objects::merge(&api, other, json!({"spec": {"default": false}})).await?;
            printer::line(&format!(
                "Backup storage location {:?} is no longer the default.",
                other.name_any()
            ));
        }
    }
    objects::merge(&api, &location, json!({"spec": patch})).await?;
    printer::line(&format!("Backup storage location {:?} changed.", args.name));
    if args.wait {
        let limit = Duration::from_secs(args.timeout);
        wait_until_available(&client, &settings.namespace, &args.name, &before, limit).await?;
        printer::line("It is available.");
    }
    Ok(())
}

fn patch(args: &Args) -> Result<Value, CliError> {
    let mut spec = json!({});
    if let Some(default) = args.default {
        spec["default"] = json!(default);
    }
    if let Some(credential) = &args.credential {
        spec["credential"] = json!({"name": credential.secret, "key": credential.key});
    }
    if let Some(bucket) = &args.bucket {
        spec["objectStorage"]["bucket"] = json!(bucket);
    }
    if let Some(prefix) = &args.prefix {
        spec["objectStorage"]["prefix"] = json!(prefix);
    }
    if let Some(path) = &args.cacert {
        spec["objectStorage"]["caCert"] = json!(spec::read_ca(path)?);
        spec["objectStorage"]["caCertRef"] = Value::Null;
    }
    if let Some(config) = &args.config {
        let entries = config.0.iter();
        spec["config"] = entries
            .map(|(key, value)| (key.clone(), if value.is_empty() { Value::Null } else { json!(value) }))
            .collect::<serde_json::Map<_, _>>()
            .into();
    }
    if let Some(mode) = args.access_mode {
        spec["accessMode"] = json!(mode.name());
    }
    if let Some(period) = args.backup_sync_period {
        spec["backupSyncPeriod"] = json!(period);
    }
    if let Some(frequency) = args.validation_frequency {
        spec["validationFrequency"] = json!(frequency);
    }
    Ok(spec)
}
