//! `snapshots`: lists the snapshots of the repository.

use std::collections::BTreeMap;

use lifeboat_kopia::{Snapshot, snapshots};
use lifeboat_repository::node::NodeTime;
use serde::Serialize;

use super::select::FilterArgs;
use crate::args::Output;
use crate::commands::repository::output;
use crate::commands::repository::session::Session;
use crate::error::CliError;
use crate::printer;
use crate::units;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
}

/// A snapshot as JSON and YAML show it.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    source: String,
    host: &'a str,
    user: &'a str,
    path: &'a str,
    description: &'a str,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<&'a str>,
    size: u64,
    files: u64,
    directories: u64,
    errors: u64,
    tags: &'a BTreeMap<String, String>,
    pins: &'a [String],
}

impl<'a> From<&'a Snapshot> for Shown<'a> {
    fn from(snapshot: &'a Snapshot) -> Self {
        Self {
            id: &snapshot.id,
            source: snapshot.source.to_string(),
            host: &snapshot.source.host,
            user: &snapshot.source.user,
            path: &snapshot.source.path,
            description: &snapshot.description,
            time: text(snapshot.start),
            end: snapshot.end.map(text),
            incomplete: snapshot.incomplete.as_deref(),
            size: snapshot.size,
            files: snapshot.files,
            directories: snapshot.directories,
            errors: snapshot.errors,
            tags: &snapshot.tags,
            pins: &snapshot.pins,
        }
    }
}

fn text(time: NodeTime) -> String {
    let mut text = String::new();
    time.write(&mut text);
    text
}

/// A time as tables show it.
pub(super) fn moment(time: NodeTime) -> String {
    let time = jiff::Timestamp::new(time.seconds, 0).unwrap_or_default();
    units::moment(&time.to_zoned(jiff::tz::TimeZone::system()))
}

pub(super) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = super::open(session).await?;
    let filter = args.filter.resolve();
    let finding = async { Ok(snapshots(&repository, &filter).await?) };
    let found = session.interruptible(finding).await?;
    if session.settings.output != Output::Table {
        return output::summary(session, &found.iter().map(Shown::from).collect::<Vec<_>>(), "");
    }
    let rows = found.iter().map(|snapshot| {
        let tags: Vec<String> = snapshot.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        vec![
            snapshot.id.clone(),
            moment(snapshot.start),
            snapshot.source.to_string(),
            units::bytes(snapshot.size),
            snapshot.files.to_string(),
            snapshot.incomplete.clone().unwrap_or_else(|| "complete".to_owned()),
            tags.join("\n"),
        ]
    });
    let table = printer::table(&["ID", "TIME", "SOURCE", "SIZE", "FILES", "STATE", "TAGS"], rows);
    printer::line(&table.trim_fmt());
    session.say(format!("{} snapshots", found.len()));
    Ok(())
}
