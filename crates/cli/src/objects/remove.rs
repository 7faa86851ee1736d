//! `delete` for kinds of which only the object is deleted; the server does the rest.

use kube::ResourceExt;
use lifeboat_cluster::objects;

use super::ask::{ask, listing};
use super::follow::capital;
use super::{Noun, Selection};
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

/// Flags of `delete`.
#[derive(clap::Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) confirm: bool,
}

/// Deletes the selected objects. `stays` names what is not deleted with them.
pub(crate) async fn run(
    settings: &Settings,
    noun: Noun,
    args: &DeleteArgs,
    stays: &str,
) -> Result<(), CliError> {
    let selection = &args.selection;
    let api = noun.api(&settings.client().await?, &settings.namespace);
    let found = noun.chosen(&api, &selection.names, selection.selector.as_deref()).await?;
    if found.is_empty() {
        eprintln!("No {} to delete.", noun.many);
        return Ok(());
    }
    if !args.confirm {
        let names: Vec<_> = found.iter().map(ResourceExt::name_any).collect();
        ask(&format!("Delete {}?", listing(noun.one, noun.many, &names)))?;
    }
    for object in &found {
        objects::delete(&api, object).await?;
        printer::line(&format!("{} {:?} deleted; {stays}.", capital(noun.one), object.name_any()));
    }
    Ok(())
}
