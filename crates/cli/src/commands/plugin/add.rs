//! `lifeboat plugin add IMAGE`: adds an init container to the server's Deployment, waits for the new server and prints
//! the plugins that were added.

use std::time::Duration;

use kube::Client;
use lifeboat_cluster::objects;
use lifeboat_plan::plugin_images::{self, text};
use lifeboat_plan::server_status::Details;
use serde_json::Value;

use super::{WaitArgs, deployment};
use crate::commands::install::image;
use crate::error::CliError;
use crate::settings::Settings;
use crate::{printer, server_status};

/// A new leader answers once the old leader's lease has expired.
const ANSWER: Duration = Duration::from_mins(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Image of plugins, such as velero/velero-plugin-for-aws:v1.14.3
    #[arg(value_parser = image)]
    image: String,
    /// When the image is pulled: Always, IfNotPresent or Never
    #[arg(long, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: String,
    #[command(flatten)]
    wait: WaitArgs,
}

pub(crate) async fn run(settings: &Settings, args: &Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let object = deployment::read(&client, settings).await?;
    let container = container(&objects::to_json(&object), &args.image, &args.image_pull_policy)?;
    // A server that does not answer now may do so with the new image.
    let before = listed(&client, settings, Duration::from_secs(5)).await.unwrap_or_default();
    deployment::change(&client, settings, &object, &container).await?;
    eprintln!("  added: init container {} (image {})", text(&container, "name"), args.image);
    if !args.wait.wait {
        return Ok(());
    }
    eprintln!("  waiting for the new server");
    deployment::wait(&client, settings, Duration::from_secs(args.wait.timeout)).await?;
    let now = listed(&client, settings, ANSWER).await?;
    say(&before, &now)
}

/// The init container to add. Refused if the Deployment has this image, or another version of it.
fn container(deployment: &Value, image: &str, policy: &str) -> Result<Value, CliError> {
    let present = plugin_images::containers(deployment);
    let taken: Vec<&str> = present.iter().map(|container| text(container, "name")).collect();
    let made = plugin_images::container(image, policy, &taken);
    let plain = plugin_images::container(image, policy, &[]);
    let same = |container: &&Value| {
        text(container, "image") == image || text(container, "name") == text(&plain, "name")
    };
    match present.iter().find(same) {
        Some(other) => {
            let (name, there) = (text(other, "name"), text(other, "image"));
            let message = if there == image {
                format!("the image {image} exists already, as init container {name}")
            } else {
                format!("another version of this image exists: {there}, as init container {name}")
            };
            Err(CliError::refused(message)
                .help(format!("remove it first with `lifeboat plugin remove {name}`")))
        }
        None => Ok(made),
    }
}

async fn listed(client: &Client, settings: &Settings, limit: Duration) -> Result<Details, CliError> {
    Ok(Details::read(&server_status::ask(client, &settings.namespace, limit).await?))
}

fn say(before: &Details, now: &Details) -> Result<(), CliError> {
    let new: Vec<_> = now.plugins.iter().filter(|plugin| !before.plugins.contains(plugin)).collect();
    for plugin in &new {
        printer::line(&format!("{} {}", plugin.kind, plugin.name));
    }
    let problems: Vec<String> = now
        .problems
        .iter()
        .filter(|problem| !before.problems.contains(problem))
        .map(|problem| format!("{}: {}", problem.program, problem.message))
        .collect();
    if !problems.is_empty() {
        let help = "`lifeboat plugin get` lists all plugins and problems; docs/using-velero-plugins.md says what to do";
        return Err(CliError::ended(problems.join("\n")).help(help));
    }
    if new.is_empty() {
        eprintln!("  no new plugin was found; `lifeboat plugin get` lists all");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::none(json!([]), "velero/velero-plugin-for-aws:v1.14.3", None)]
    #[case::another(json!([{"name": "gcp", "image": "velero/gcp:v1"}]), "velero/velero-plugin-for-aws:v1.14.3", None)]
    #[case::the_same(json!([{"name": "x", "image": "velero/a:v1"}]), "velero/a:v1", Some("exists already, as init container x"))]
    #[case::another_version(json!([{"name": "velero-a", "image": "velero/a:v1"}]), "velero/a:v2",
        Some("another version of this image exists: velero/a:v1"))]
    fn an_image_is_added_once(#[case] present: Value, #[case] image: &str, #[case] refused: Option<&str>) {
        let deployment = json!({"spec": {"template": {"spec": {"initContainers": present}}}});
        let made = container(&deployment, image, "Always");
        match refused {
            None => assert_eq!(made.unwrap()["image"], image),
            Some(message) => {
                let error = made.unwrap_err().full_text();
                assert!(error.contains(message), "{error}");
            }
        }
    }
}
