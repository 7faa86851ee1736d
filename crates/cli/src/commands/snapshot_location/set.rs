//! `lifeboat snapshot-location set NAME`: changes the credentials, as in stock Velero, and the plugin's settings.

use lifeboat_cluster::objects;
use serde_json::{Value, json};

use crate::commands::backup_location::spec::{ConfigArg, CredentialArg};
use crate::error::CliError;
use crate::objects::SNAPSHOT_LOCATION;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the location
    name: String,
    /// Secret with the credentials, and the key in it
    #[arg(long, value_name = "SECRET=KEY")]
    credential: Option<CredentialArg>,
    /// Settings of the plugin to add or change; KEY= removes one
    #[arg(long, value_name = "KEY=VALUE,…")]
    config: Option<ConfigArg>,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let patch = patch(&args);
    if patch.as_object().is_some_and(serde_json::Map::is_empty) {
        return Err(CliError::refused("no flag names anything to change")
            .help("see `lifeboat snapshot-location set --help`"));
    }
    let api = SNAPSHOT_LOCATION.api(&settings.client().await?, &settings.namespace);
    let location = SNAPSHOT_LOCATION.find(&api, &args.name).await?;
    objects::merge(&api, &location, json!({"spec": patch})).await?;
    printer::line(&format!("Volume snapshot location {:?} changed.", args.name));
    Ok(())
}

fn patch(args: &Args) -> Value {
    let mut spec = json!({});
    if let Some(credential) = &args.credential {
        spec["credential"] = json!({"name": credential.secret, "key": credential.key});
    }
    for (key, value) in args.config.iter().flat_map(|config| &config.0) {
        spec["config"][key] = if value.is_empty() { Value::Null } else { json!(value) };
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_setting_goes_and_others_stay() {
        let args = Args {
            name: "main".into(),
            credential: Some("s=cloud".parse().unwrap()),
            config: Some("region=there,profile=".parse().unwrap()),
        };
        let expected = json!({"credential": {"name": "s", "key": "cloud"}, "config": {"region": "there", "profile": null}});
        assert_eq!(patch(&args), expected);
    }
}
