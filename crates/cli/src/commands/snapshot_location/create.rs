//! `lifeboat snapshot-location create NAME`.

use kube::api::{DynamicObject, PostParams};
use lifeboat_cluster::Attempt;
use serde_json::{Value, json};

use crate::args::{Format, object_name};
use crate::commands::backup_location::spec::{ConfigArg, CredentialArg};
use crate::error::CliError;
use crate::objects::SNAPSHOT_LOCATION;
use crate::objects::create::refusal;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the location
    #[arg(value_parser = object_name)]
    name: String,
    /// Name of the volume snapshotter plugin, such as aws or example.io/thing
    #[arg(long)]
    provider: String,
    /// Settings of the plugin, such as region=…
    #[arg(long, value_name = "KEY=VALUE,…")]
    config: Option<ConfigArg>,
    /// Secret in Lifeboat's namespace with the credentials, and the key in it
    #[arg(long, value_name = "SECRET=KEY")]
    credential: Option<CredentialArg>,
    /// Labels of the location
    #[arg(long, value_name = "KEY=VALUE,…")]
    labels: Option<ConfigArg>,
    /// Print the object instead of creating it
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let object = object(&settings.namespace, &args);
    if let Some(format) = args.output {
        return printer::object(&object, format);
    }
    let client = settings.client().await?;
    let object: DynamicObject = serde_json::from_value(object)
        .map_err(|error| CliError::failed("cannot make the location", error))?;
    let api = SNAPSHOT_LOCATION.api(&client, &settings.namespace);
    api.create(&PostParams::default(), &object)
        .await
        .attempt(format!("create VolumeSnapshotLocation {}", args.name))
        .map_err(|error| refusal(error, "snapshot-location", &args.name))?;
    printer::line(&format!("Volume snapshot location {:?} created.", args.name));
    Ok(())
}

fn object(namespace: &str, args: &Args) -> Value {
    let mut spec = json!({"provider": args.provider});
    if let Some(config) = &args.config {
        spec["config"] = json!(config.0);
    }
    if let Some(credential) = &args.credential {
        spec["credential"] = json!({"name": credential.secret, "key": credential.key});
    }
    let mut metadata = json!({"name": args.name, "namespace": namespace});
    if let Some(labels) = &args.labels {
        metadata["labels"] = json!(labels.0);
    }
    json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation", "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_stands_in_the_object() {
        let mut args = Args {
            name: "main".into(),
            provider: "aws".into(),
            config: None,
            credential: None,
            labels: None,
            output: None,
        };
        assert_eq!(object("lifeboat", &args)["spec"], json!({"provider": "aws"}));
        args.config = Some("region=here".parse().unwrap());
        args.credential = Some("s=cloud".parse().unwrap());
        let spec = json!({"provider": "aws", "config": {"region": "here"}, "credential": {"name": "s", "key": "cloud"}});
        assert_eq!(object("lifeboat", &args)["spec"], spec);
    }
}
