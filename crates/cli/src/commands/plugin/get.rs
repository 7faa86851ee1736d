//! `lifeboat plugin get`: lists the server's plugins, those that it cannot use, and the images that keep new servers
//! from starting.

use std::time::Duration;

use lifeboat_cluster::objects;
use lifeboat_plan::plugin_images::ContainerProblem;
use lifeboat_plan::velero::server_status::Details;
use serde_json::{Value, json};

use super::deployment;
use crate::args::OutputArg;
use crate::error::CliError;
use crate::settings::Settings;
use crate::{printer, server_status};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many seconds to wait for the server
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = crate::args::seconds)]
    timeout: u64,
    #[command(flatten)]
    output: OutputArg,
}

pub(crate) async fn run(settings: &Settings, args: &Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let answer = server_status::ask(&client, &settings.namespace, Duration::from_secs(args.timeout)).await?;
    let details = Details::read(&answer);
    // A user who may send requests to the server may lack the right to read its pods, and a server outside of the
    // cluster has no pods.
    let problems = match deployment::read(&client, settings).await {
        Ok(found) => deployment::problems(&client, &settings.namespace, &objects::to_json(&found)).await,
        Err(_) => Ok(Vec::new()),
    };
    let problems = problems.unwrap_or_default();
    printer::print(args.output.output, &value(&details, &problems), || {
        printer::table(&["NAME", "KIND", "PROGRAM", "STATUS"], rows(&details, &problems))
    })
}

fn value(details: &Details, problems: &[ContainerProblem]) -> Value {
    let images: Vec<_> = problems
        .iter()
        .map(|problem| {
            json!({"container": problem.container, "image": problem.image, "reason": problem.kind.reason(),
                "message": problem.message})
        })
        .collect();
    json!({"plugins": details.plugins, "problems": details.problems, "images": images})
}

fn rows(details: &Details, problems: &[ContainerProblem]) -> Vec<Vec<String>> {
    let mut plugins = details.plugins.clone();
    plugins.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    let none = || "<none>".to_owned();
    let used = plugins.into_iter().map(|plugin| {
        let program = plugin.program.unwrap_or_else(|| "built in".to_owned());
        vec![plugin.name, plugin.kind, program, "Ready".to_owned()]
    });
    let unused = details.problems.iter().map(|problem| {
        vec![none(), none(), problem.program.clone(), format!("NotUsed: {}", one_line(&problem.message))]
    });
    let images = problems.iter().map(|problem| {
        let status = format!("{}: {}", problem.kind.reason(), one_line(&problem.message));
        vec![problem.container.clone(), none(), problem.image.clone(), status]
    });
    used.chain(unused).chain(images).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use lifeboat_plan::plugin_images::ProblemKind;
    use lifeboat_plan::velero::server_status::{ListedPlugin, ListedProblem};

    use super::*;

    #[test]
    fn plugins_problems_and_images_are_one_table() {
        let plugin = |kind: &str, name: &str, program: Option<&str>| ListedPlugin {
            kind: kind.into(),
            name: name.into(),
            program: program.map(str::to_owned),
        };
        let details = Details {
            plugins: vec![
                plugin("ObjectStore", "velero.io/aws", Some("/plugins/velero-plugin-for-aws")),
                plugin("BackupItemAction", "velero.io/pod", None),
            ],
            problems: vec![ListedProblem {
                program: "/plugins/x".into(),
                message: "it is\nno plugin".into(),
            }],
        };
        let problem = ContainerProblem {
            container: "gcp".into(),
            image: "velero/gcp:v0".into(),
            kind: ProblemKind::Image,
            message: "not found".into(),
        };
        let rows = rows(&details, &[problem]);
        let text: Vec<String> = rows.iter().map(|row| row.join(" | ")).collect();
        assert_eq!(
            text,
            [
                "velero.io/pod | BackupItemAction | built in | Ready",
                "velero.io/aws | ObjectStore | /plugins/velero-plugin-for-aws | Ready",
                "<none> | <none> | /plugins/x | NotUsed: it is no plugin",
                "gcp | <none> | velero/gcp:v0 | PluginImageNotPulled: not found",
            ]
        );
    }
}
