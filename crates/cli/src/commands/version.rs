//! `lifeboat version`: this program's version, and the server's, asked through a ServerStatusRequest.

use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ObjectMeta, PostParams};
use lifeboat_api::velero::ServerStatusRequest;
use lifeboat_cluster::wait::{Look, until};
use lifeboat_cluster::{Attempt, objects};
use serde_json::{Value, json};

use crate::args::{Output, OutputArg};
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Do not ask the server
    #[arg(long)]
    client_only: bool,
    /// How many seconds to wait for the server
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
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

/// Makes a request, waits for the answer, removes the request.
async fn ask(settings: &Settings, seconds: u64) -> Result<String, CliError> {
    let client = settings.client().await?;
    let resource = objects::resource_of::<ServerStatusRequest>();
    let api: Api<DynamicObject> = objects::namespaced(&client, &settings.namespace, &resource);
    let mut request = DynamicObject::new("", &resource).data(json!({"spec": {}}));
    request.metadata = ObjectMeta { generate_name: Some("lifeboat-cli-".into()), ..ObjectMeta::default() };
    let made = api
        .create(&PostParams::default(), &request)
        .await
        .attempt(format!("ask the server in namespace {} for its version", settings.namespace))?;
    let name = made.metadata.name.unwrap_or_default();
    let answer = until("the server's answer", Duration::from_secs(seconds), async || {
        let found = api.get(&name).await.attempt(format!("read ServerStatusRequest {name}"))?;
        let text = |pointer: &str| found.data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Ok(match (text("/status/phase").as_deref(), text("/status/serverVersion")) {
            (Some("Processed"), Some(version)) => Look::Done(version),
            _ => Look::NotYet("no answer".into()),
        })
    })
    .await;
    // The server removes it too; a failure here changes nothing.
    let _ = api.delete(&name, &DeleteParams::default()).await;
    answer.map_err(|error| {
        CliError::from(error).help(format!(
            "is the server running? `kubectl -n {} get pods` shows its pods, or use --client-only",
            settings.namespace
        ))
    })
}
