//! `lifeboat repository-password export`: prints the password that protects volume data and records the export, which
//! ends the warnings on every location.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use lifeboat_cluster::{Attempt, MANAGER};
use lifeboat_operator::password;
use lifeboat_plan::password::{EXPORTED_ANNOTATION, SECRET, exported_mark, to_export, uses_public_default};

use crate::error::CliError;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print the repository password, so that you can keep it outside the cluster
    ///
    /// Without it volume data cannot be restored after this cluster is lost. `lifeboat install
    /// --repository-password-file` accepts the output.
    Export(ExportArgs),
}

#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    /// Write to this file, readable by its owner only, instead of standard output
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Export(args) => export(settings, args).await,
    }
}

async fn export(settings: &Settings, args: ExportArgs) -> Result<(), CliError> {
    let client = settings.client().await?;
    let Some(secret) = password::read(&client, &settings.namespace).await? else {
        return Err(CliError::not_found(format!(
            "there is no Secret {SECRET} in namespace {}",
            settings.namespace
        ))
        .help("`lifeboat install` or the first start of the server creates it"));
    };
    let now = lifeboat_api::common::time::seconds(Timestamp::now());
    let (Some((_, value)), Some(mark)) = (to_export(&secret), exported_mark(&secret, &now)) else {
        return Err(CliError::not_found(format!("Secret {SECRET} contains no password to export"))
            .help("the server creates one within seconds; is it running? Check with `lifeboat version`"));
    };
    hand_out(value, args.file.as_deref())?;
    if uses_public_default(Some(&secret)) {
        eprintln!(
            "Repositories that Velero created use Velero's public default password; this password is for new ones."
        );
    }
    eprintln!("Keep it outside this cluster: volume data cannot be restored without it.");
    let patch = serde_json::json!({"metadata": {"annotations": {EXPORTED_ANNOTATION: mark}}});
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    Api::<Secret>::namespaced(client, &settings.namespace)
        .patch(SECRET, &params, &Patch::Merge(patch))
        .await
        .attempt(format!("record in Secret {SECRET} that the password was exported (it was)"))
        .map(drop)
        .map_err(CliError::from)
}

fn hand_out(value: &[u8], file: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = file else {
        let mut out = std::io::stdout().lock();
        return out
            .write_all(value)
            .and_then(|()| out.write_all(b"\n"))
            .map_err(|error| CliError::failed("cannot write the password", error));
    };
    let refused = |error: std::io::Error| {
        let text = format!("cannot write the password to {}", path.display());
        CliError::failed(text, error).help("the file must not exist yet and its directory must be writable")
    };
    let mut out =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(refused)?;
    out.write_all(value).and_then(|()| out.write_all(b"\n")).and_then(|()| out.sync_all()).map_err(refused)
}
