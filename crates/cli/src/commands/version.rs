//! `lifeboat version`: prints the version of this program, and that of the server from a ServerStatusRequest.

use std::time::Duration;

use serde_json::json;

use crate::args::{Output, OutputArg};
use crate::error::CliError;
use crate::settings::Settings;
use crate::{printer, server_status};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Do not ask the server
    #[arg(long)]
    client_only: bool,
    /// How many seconds to wait for the server
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = crate::args::seconds)]
    timeout: u64,
    #[command(flatten)]
    output: OutputArg,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = env!("CARGO_PKG_VERSION");
    let server = if args.client_only { None } else { Some(ask(settings, args.timeout).await) };
    let (server_version, problem) = match server {
        None => (None, None),
        Some(Ok(version)) => (Some(version), None),
        Some(Err(error)) => (None, Some(error)),
    };
    let value = json!({"client": {"version": client}, "server": server_version.as_ref().map(|v| json!({"version": v}))});
    match args.output.output {
        Output::Table => {
            printer::line(&format!("Client: v{client}"));
            if let Some(version) = server_version {
                printer::line(&format!("Server: {version}"));
            }
        }
        Output::Json => printer::line(&printer::json(&value)?),
        Output::Yaml => printer::text(&printer::yaml(&value)?),
    }
    problem.map_or(Ok(()), Err)
}

async fn ask(settings: &Settings, seconds: u64) -> Result<String, CliError> {
    let client = settings.client().await?;
    let answer = server_status::ask(&client, &settings.namespace, Duration::from_secs(seconds)).await;
    let answer = answer.map_err(|error| {
        let namespace = &settings.namespace;
        error.help(format!(
            "is the server running? `kubectl -n {namespace} get pods` shows its pods, or use --client-only"
        ))
    })?;
    Ok(answer["status"]["serverVersion"].as_str().unwrap_or_default().to_owned())
}
