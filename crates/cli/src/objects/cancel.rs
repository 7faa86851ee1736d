//! `cancel`: sets the annotation that asks the server to stop. Refused for objects that have ended, because it would
//! have no effect.

use kube::ResourceExt;
use lifeboat_cluster::objects;
use lifeboat_plan::backup::CANCEL;
use serde_json::json;

use super::Noun;
use super::follow::{State, capital};
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, noun: Noun, names: &[String]) -> Result<(), CliError> {
    let api = noun.api(&settings.client().await?, &settings.namespace);
    let found = noun.chosen(&api, names, None).await?;
    for object in &found {
        let state = State::of(object);
        if state.has_ended() {
            return Err(CliError::refused(format!(
                "{} {:?} has ended ({}); there is nothing to cancel",
                noun.one,
                object.name_any(),
                state.phase
            )));
        }
    }
    for object in &found {
        objects::merge(&api, object, json!({"metadata": {"annotations": {CANCEL: "true"}}})).await?;
        let name = object.name_any();
        printer::line(&format!(
            "{} {name:?} will be stopped; it then ends Failed. Follow it with `lifeboat {} watch {name}`.",
            capital(noun.one),
            noun.one
        ));
    }
    Ok(())
}
