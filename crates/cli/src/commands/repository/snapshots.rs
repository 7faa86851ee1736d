//! `snapshots`: lists the snapshots of the repository.

use std::collections::HashMap;

use lifeboat_repository::snapshots::{FoundSnapshot, Group, GroupBy, GroupKey, group, newest_first};
use serde::Serialize;

use super::output::{self, ShownSnapshot, snapshot_table};
use super::select::{self, FilterArgs};
use super::session::Session;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ids, prefixes of ids, or "latest" [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Omit paths
    #[arg(short, long)]
    compact: bool,
    /// Only the newest N of each host and paths, or of each group
    #[arg(long, value_name = "N")]
    latest: Option<usize>,
    /// Like --latest 1
    #[arg(long, hide = true, conflicts_with = "latest")]
    last: bool,
    /// Group by host, paths and/or tags
    #[arg(short, long, value_name = "host,paths,tags")]
    group_by: Option<GroupBy>,
}

#[derive(Serialize)]
struct ShownGroup<'a> {
    group_key: &'a GroupKey,
    snapshots: Vec<ShownSnapshot<'a>>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let filter = args.filter.resolve(&session.settings);
    let finding = |_| select::known(&repository, &args.snapshots, &filter);
    let found = session.reading(&repository, finding).await?;
    let latest = args.latest.or(args.last.then_some(1));
    let by = args.group_by.unwrap_or(GroupBy::NOTHING);
    let grouped = by != GroupBy::NOTHING;
    let mut groups = group(found, by);
    for group in &mut groups {
        if let Some(count) = latest {
            keep_latest(&mut group.snapshots, count, grouped);
        }
        // restic's lists end with the newest snapshot.
        group.snapshots.reverse();
    }
    print(session, &groups, grouped, args.compact)
}

fn print(session: &Session, groups: &[Group], grouped: bool, compact: bool) -> Result<(), CliError> {
    let shown = |group: &Group| -> Vec<serde_json::Value> {
        group
            .snapshots
            .iter()
            .filter_map(|found| serde_json::to_value(ShownSnapshot::from(found)).ok())
            .collect()
    };
    match session.settings.output {
        Output::Table => {
            for group in groups {
                if grouped {
                    printer::line(&format!("snapshots for ({}):", group.key));
                }
                printer::line(&snapshot_table(&group.snapshots, compact).trim_fmt());
                if grouped {
                    printer::line("");
                }
            }
            let count: usize = groups.iter().map(|group| group.snapshots.len()).sum();
            session.say(format!("{count} snapshots"));
            Ok(())
        }
        _ if grouped => {
            let groups: Vec<_> = groups
                .iter()
                .map(|group| ShownGroup {
                    group_key: &group.key,
                    snapshots: group.snapshots.iter().map(ShownSnapshot::from).collect(),
                })
                .collect();
            output::summary(session, &groups, "")
        }
        _ => output::summary(session, &groups.iter().flat_map(shown).collect::<Vec<_>>(), ""),
    }
}

/// Keeps the newest of each host and paths, or of the group; newest first.
fn keep_latest(snapshots: &mut Vec<FoundSnapshot>, count: usize, grouped: bool) {
    newest_first(snapshots);
    if grouped {
        return snapshots.truncate(count);
    }
    let mut seen: HashMap<(String, Vec<String>), usize> = HashMap::new();
    snapshots.retain(|(_, snapshot)| {
        let mut paths = snapshot.paths.clone();
        paths.sort_unstable();
        let number = seen.entry((snapshot.hostname.clone(), paths)).or_default();
        *number += 1;
        *number <= count
    });
}
