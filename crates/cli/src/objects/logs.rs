//! `logs`: prints the log of a backup or restore, which the server stores in the bucket once the work has ended.

use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use lifeboat_api::velero::DownloadTargetKind;

use super::{Noun, phase};
use crate::download::{LinkArgs, unpack};
use crate::error::CliError;
use crate::printer::StandardOutput;
use crate::settings::Settings;

/// The object whose log is printed.
pub(crate) struct LogRequest<'a> {
    pub(crate) noun: Noun,
    pub(crate) object: &'a DynamicObject,
    pub(crate) kind: DownloadTargetKind,
    /// The location that holds the log.
    pub(crate) location: &'a str,
}

pub(crate) async fn print(
    settings: &Settings,
    client: &Client,
    request: LogRequest<'_>,
    link: &LinkArgs,
) -> Result<(), CliError> {
    let name = request.object.name_any();
    let phase = phase(request.object);
    let one = request.noun.one;
    if phase == "FailedValidation" {
        return Err(CliError::not_found(format!(
            "{one} {name:?} has no log: it is FailedValidation, so it never started"
        ))
        .help(format!("`lifeboat {one} describe {name}` shows what is wrong with it")));
    }
    if !is_stored(&phase) {
        return Err(CliError::refused(format!(
            "the log of {one} {name:?} is not written yet: it is {phase}"
        ))
        .help(format!("follow it with `lifeboat {one} watch {name}`")));
    }
    let fetcher = link.fetcher(client, &settings.namespace, request.location).await?;
    match fetcher.open(request.kind, &name).await? {
        Some(answer) => unpack(answer, &mut StandardOutput).await,
        None => Err(CliError::not_found(format!("{} {name:?} has no log in its location", request.noun.one))
            .help("it has none if it failed before it started; `describe` shows the reason")),
    }
}

/// Phases in which the log is in the bucket; the same as in stock Velero.
fn is_stored(phase: &str) -> bool {
    matches!(
        phase,
        "Completed"
            | "PartiallyFailed"
            | "Failed"
            | "WaitingForPluginOperations"
            | "WaitingForPluginOperationsPartiallyFailed"
    )
}
