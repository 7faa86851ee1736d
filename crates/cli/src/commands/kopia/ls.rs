//! `ls`: lists the files of a snapshot.

use lifeboat_kopia::{Listed, find, list};
use lifeboat_repository::ls::LsNode;

use super::select::{FilterArgs, Selection, selection};
use super::snapshots::moment;
use crate::args::Output;
use crate::commands::repository::ls::{LongArgs, line};
use crate::commands::repository::output;
use crate::commands::repository::session::Session;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Id, start of an id, or "latest"; with ":/folder" only the content of that folder
    #[arg(value_name = "SNAPSHOT[:FOLDER]", value_parser = selection())]
    snapshot: Selection,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    long: LongArgs,
    /// Omit the content of subdirectories
    #[arg(long)]
    no_recursion: bool,
}

pub(super) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = super::open(session).await?;
    let filter = args.filter.resolve();
    let finding = async { Ok(find(&repository, &args.snapshot.name, &filter).await?) };
    let snapshot = session.interruptible(finding).await?;
    session.say(format!("snapshot {} of {} at {}:", snapshot.id, snapshot.source, moment(snapshot.start)));
    let output = session.settings.output;
    let mut all = Vec::new();
    let mut each = |listed: Listed<'_>| {
        let node = &listed.entry.node;
        match output {
            // A node consists of text and numbers, so it always serializes.
            Output::Json => drop(output::line_of_json(&LsNode::new(listed.path, node))),
            Output::Yaml => all.push(LsNode::new(listed.path, node)),
            Output::Table => printer::bytes(&line(args.long, listed.path, node)),
        }
    };
    let folder = args.snapshot.folder.as_deref();
    list(&repository, &snapshot, folder, !args.no_recursion, &mut each, &session.interrupted).await?;
    if output == Output::Yaml {
        printer::text(&printer::yaml(&all)?);
    }
    Ok(())
}
