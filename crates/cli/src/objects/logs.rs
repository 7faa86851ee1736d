//! `logs`: the log of a backup or restore, which is in the bucket once its work has ended.

use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use lifeboat_api::velero::DownloadTargetKind;

use super::{Noun, phase};
use crate::download::{LinkArgs, unpack};
use crate::error::CliError;
use crate::printer::StandardOutput;
use crate::settings::Settings;

/// Whose log.
pub(crate) struct Wanted<'a> {
    pub(crate) noun: Noun,
    pub(crate) object: &'a DynamicObject,
    pub(crate) kind: DownloadTargetKind,
    /// Where the backup is kept.
    pub(crate) location: &'a str,
}

pub(crate) async fn print(
    settings: &Settings,
    client: &Client,
    wanted: Wanted<'_>,
    link: &LinkArgs,
) -> Result<(), CliError> {
    let name = wanted.object.name_any();
    let phase = phase(wanted.object);
    let one = wanted.noun.one;
    if phase == "FailedValidation" {
        return Err(CliError::not_found(format!(
            "{one} {name:?} has no log: it is FailedValidation, so it never began"
        ))
        .help(format!("`lifeboat {one} describe {name}` shows what is wrong with it")));
    }
    if !is_stored(&phase) {
        return Err(CliError::refused(format!(
            "the log of {one} {name:?} is not written yet: it is {phase}"
        ))
        .help(format!("follow it with `lifeboat {one} watch {name}`")));
    }
    let fetcher = link.fetcher(client, &settings.namespace, wanted.location).await?;
    match fetcher.open(wanted.kind, &name).await? {
        Some(answer) => unpack(answer, &mut StandardOutput).await,
        None => Err(CliError::not_found(format!("{} {name:?} has no log in its location", wanted.noun.one))
            .help("one that failed before it began writes none; `describe` shows the reason")),
    }
}

/// Phases in which the log is in the bucket, as upstream has them.
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
