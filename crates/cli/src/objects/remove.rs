//! `delete` for kinds whose object is all there is in the cluster: the server sees to the rest.

use kube::ResourceExt;
use lifeboat_cluster::objects;

use super::ask::{ask, listing};
use super::follow::capital;
use super::{Noun, Selection};
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

/// Deletes what is selected; `stays` says what does not go with it.
pub(crate) async fn run(
    settings: &Settings,
    noun: Noun,
    selection: &Selection,
    confirmed: bool,
    stays: &str,
) -> Result<(), CliError> {
    let api = noun.api(&settings.client().await?, &settings.namespace);
    let found = noun.chosen(&api, &selection.names, selection.selector.as_deref()).await?;
    if found.is_empty() {
        eprintln!("No {} to delete.", noun.many);
        return Ok(());
    }
    if !confirmed {
        let names: Vec<_> = found.iter().map(ResourceExt::name_any).collect();
        ask(&format!("Delete {}?", listing(noun.one, noun.many, &names)))?;
    }
    for object in &found {
        objects::delete(&api, object).await?;
        printer::line(&format!("{} {:?} deleted; {stays}.", capital(noun.one), object.name_any()));
    }
    Ok(())
}
