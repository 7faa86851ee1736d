//! `lifeboat plugin remove NAME|IMAGE`: removes an init container from the server's Deployment, by its name or its
//! image.

use std::time::Duration;

use lifeboat_cluster::objects;
use lifeboat_plan::plugin_images::{self, text};
use serde_json::{Value, json};

use super::{WaitArgs, deployment};
use crate::error::CliError;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the init container, or its image
    #[arg(value_name = "NAME | IMAGE")]
    which: String,
    #[command(flatten)]
    wait: WaitArgs,
}

pub(crate) async fn run(settings: &Settings, args: &Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let object = deployment::read(&client, settings).await?;
    let name = find(&objects::to_json(&object), &args.which)?;
    deployment::change(&client, settings, &object, &json!({"name": name, "$patch": "delete"})).await?;
    eprintln!("  removed: init container {name}");
    if args.wait.wait {
        eprintln!("  waiting for the new server");
        deployment::wait(&client, settings, Duration::from_secs(args.wait.timeout)).await?;
    }
    Ok(())
}

fn find(deployment: &Value, which: &str) -> Result<String, CliError> {
    let present = plugin_images::containers(deployment);
    let found = present
        .iter()
        .find(|container| text(container, "name") == which)
        .or_else(|| present.iter().find(|container| text(container, "image") == which));
    if let Some(found) = found {
        return Ok(text(found, "name").to_owned());
    }
    let there: Vec<String> = present
        .iter()
        .map(|container| format!("{} ({})", text(container, "name"), text(container, "image")))
        .collect();
    let help = if there.is_empty() {
        "there are none".to_owned()
    } else {
        format!(
            "there are: {}; one image may contain several plugins, which are removed together",
            there.join(", ")
        )
    };
    Err(CliError::not_found(format!("there is no image of plugins called {which:?}")).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_its_container_or_by_itself() {
        let present =
            json!([{"name": "aws", "image": "velero/aws:v1"}, {"name": "gcp", "image": "velero/gcp:v1"}]);
        let deployment = json!({"spec": {"template": {"spec": {"initContainers": present}}}});
        assert_eq!(find(&deployment, "gcp").unwrap(), "gcp");
        assert_eq!(find(&deployment, "velero/aws:v1").unwrap(), "aws");
        let error = find(&deployment, "velero.io/aws").unwrap_err();
        assert_eq!(error.code(), 3);
        assert!(find(&json!({}), "x").is_err());
    }
}
