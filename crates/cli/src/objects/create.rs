//! `create`: prints an object instead of creating it, or creates it and waits until its work has ended.

use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Client, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt};
use serde::Serialize;

use super::follow::{capital, follow};
use super::get::{Columns, table};
use super::{Noun, dynamic};
use crate::args::Output;
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

/// Flags of commands that can print the object instead of creating it.
#[derive(clap::Args)]
pub(crate) struct PrintArgs {
    /// Print the object instead of creating it
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Output>,
    /// With -o table: show all labels
    #[arg(long, requires = "output")]
    show_labels: bool,
    /// With -o table: labels to show as columns
    #[arg(short = 'L', long, value_name = "KEY,…", value_delimiter = ',', requires = "output")]
    label_columns: Vec<String>,
}

impl PrintArgs {
    /// Prints the object in the format that `--output` names.
    pub(crate) fn print<K: Serialize>(
        &self,
        output: Output,
        object: &K,
        columns: &Columns,
    ) -> Result<(), CliError> {
        let row = dynamic(object)?;
        printer::print(output, object, || {
            table(&[row], columns, &self.label_columns, self.show_labels, Timestamp::now())
        })
    }
}

/// Creates a Backup or a Restore. With `wait` it is followed to its end.
pub(crate) async fn request<K: Serialize + ResourceExt>(
    settings: &Settings,
    client: &Client,
    noun: Noun,
    object: &K,
    wait: bool,
) -> Result<(), CliError> {
    let (name, one, title) = (object.name_any(), noun.one, capital(noun.one));
    let api = noun.api(client, &settings.namespace);
    api.create(&PostParams::default(), &dynamic(object)?)
        .await
        .attempt(format!("create {title} {name}"))
        .map_err(|error| refusal(error, one, &name))?;
    printer::line(&format!("{title} {name:?} requested."));
    if !wait {
        printer::line(&format!(
            "Follow it with `lifeboat {one} watch {name}`, see it with `lifeboat {one} describe {name}`."
        ));
        return Ok(());
    }
    eprintln!("Waiting for it to end; the {one} continues if you stop waiting (Ctrl-C).");
    printer::line(&follow(noun, &api, &name).await?);
    Ok(())
}

/// The error of an object that the API server did not create. If the name is taken, the help says what to do. `command` is
/// the command of the kind, such as `backup`.
pub(crate) fn refusal(error: ApiError, command: &str, name: &str) -> CliError {
    let exists = error.is_conflict();
    let error = CliError::from(error);
    if exists {
        return error.help(format!(
            "choose another name, or delete it first with `lifeboat {command} delete {name}`"
        ));
    }
    error
}
