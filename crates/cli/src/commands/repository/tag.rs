//! `tag`: changes the tags of snapshots.

use lifeboat_repository::snapshots::TagList;
use lifeboat_repository::tag::{TagChange, tag};
use serde_json::json;

use super::output;
use super::select::{self, FilterArgs};
use super::session::Session;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these snapshots [default: all that match the filter]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Tags that replace the current ones; "" for none; can be repeated
    #[arg(long, value_name = "TAG[,TAG…]")]
    set: Vec<TagList>,
    /// Tags to add; can be repeated
    #[arg(long, value_name = "TAG[,TAG…]")]
    add: Vec<TagList>,
    /// Tags to remove; can be repeated
    #[arg(long, value_name = "TAG[,TAG…]")]
    remove: Vec<TagList>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let all = |lists: &[TagList]| lists.iter().flat_map(|list| list.0.clone()).collect::<Vec<_>>();
    let change = TagChange::new(all(&args.set), all(&args.add), all(&args.remove))?;
    let repository = session.open().await?;
    let filter = args.filter.resolve(&session.settings);
    let finding = select::known(&repository, &args.snapshots, &filter);
    let ids: Vec<_> = session.interruptible(finding).await?.into_iter().map(|(id, _)| id).collect();
    let changed = tag(&repository, &ids, &change, &session.settings.lock).await?;
    match session.settings.output {
        Output::Json => {
            for snapshot in &changed {
                output::line_of_json(snapshot)?;
            }
            output::line_of_json(&json!({"message_type": "summary", "changed_snapshots": changed.len()}))
        }
        Output::Yaml => {
            printer::text(&printer::yaml(&changed)?);
            Ok(())
        }
        Output::Table => {
            for snapshot in &changed {
                let (old, new) = (snapshot.old_snapshot_id.short(), snapshot.new_snapshot_id.short());
                session.say(format!("snapshot {old} is now {new}"));
            }
            session.say(format!("changed {} snapshots", changed.len()));
            Ok(())
        }
    }
}
