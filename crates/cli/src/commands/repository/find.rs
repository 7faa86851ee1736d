//! `find`: finds the snapshots that contain a file, or the files that use a blob, a tree or a pack.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use jiff::Zoned;
use lifeboat_repository::find::{FoundNode, Hit, Wanted, find};
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::node::NodeTime;
use lifeboat_repository::progress::Progress;
use lifeboat_repository::snapshots::{FoundSnapshot, newest_first};
use lifeboat_repository::source::patterns::{Case, Patterns};
use serde::Serialize;

use super::ls::{LongArgs, line};
use super::output;
use super::progress::Shown;
use super::select::{self, FilterArgs};
use super::session::Session;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Patterns of names or paths; ids with --blob, --tree and --pack
    #[arg(value_name = "PATTERN", required = true)]
    patterns: Vec<OsString>,
    /// Only in this snapshot; can be repeated
    #[arg(short, long = "snapshot", value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Only files modified at or after this time
    #[arg(short = 'O', long, value_name = "TIME", value_parser = units::time)]
    oldest: Option<Zoned>,
    /// Only files modified at or before this time
    #[arg(short = 'N', long, value_name = "TIME", value_parser = units::time)]
    newest: Option<Zoned>,
    #[command(flatten)]
    long: LongArgs,
    /// Oldest snapshots first
    #[arg(short = 'R', long)]
    reverse: bool,
    /// The patterns are ids of blobs
    #[arg(long, conflicts_with_all = ["tree", "pack"])]
    blob: bool,
    /// The patterns are ids of trees
    #[arg(long, conflicts_with = "pack")]
    tree: bool,
    /// The patterns are ids of packs
    #[arg(long)]
    pack: bool,
}

/// The hits in one snapshot, in restic's JSON format.
#[derive(Serialize)]
struct OfSnapshot {
    matches: Vec<FoundNode>,
    hits: usize,
    snapshot: SnapshotId,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let wanted = args.wanted()?;
    let repository = session.open().await?;
    let filter = args.filter.resolve(&session.settings);
    let finding = select::known(&repository, &args.snapshots, &filter);
    let mut snapshots = session.interruptible(finding).await?;
    newest_first(&mut snapshots);
    if args.reverse {
        snapshots.reverse();
    }
    let ids: Vec<SnapshotId> = snapshots.iter().map(|(id, _)| *id).collect();
    let mut hits = Hits {
        session,
        args: &args,
        snapshots: &snapshots,
        last: None,
        nodes: vec![],
        objects: vec![],
        unread: 0,
    };
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, None);
    let mut each = |hit| {
        hits.take(hit);
        Ok(())
    };
    let (lock, cancel) = (session.lock_for_reading(), &session.interrupted);
    let outcome = find(&repository, &ids, &wanted, lock, &mut each, &progress, cancel).await;
    shown.stop();
    outcome?;
    hits.finish()
}

impl Args {
    fn wanted(&self) -> Result<Wanted, CliError> {
        let time = |zoned: &Zoned| {
            let at = zoned.timestamp();
            NodeTime::new(at.as_second(), at.subsec_nanosecond().unsigned_abs())
        };
        let ids = || self.patterns.iter().map(|id| id.to_string_lossy().into_owned()).collect();
        if self.blob {
            return Ok(Wanted::Blobs(ids()));
        }
        if self.tree {
            return Ok(Wanted::Trees(ids()));
        }
        if self.pack {
            return Ok(Wanted::Packs(ids()));
        }
        let case = if self.ignore_case { Case::Ignored } else { Case::Matters };
        Ok(Wanted::Names {
            patterns: Patterns::parse(self.patterns.iter().map(|pattern| pattern.as_bytes()), case)?,
            oldest: self.oldest.as_ref().map(time),
            newest: self.newest.as_ref().map(time),
        })
    }
}

/// Prints hits when they are found, or collects them for JSON.
struct Hits<'a> {
    session: &'a Session,
    args: &'a Args,
    snapshots: &'a [FoundSnapshot],
    last: Option<SnapshotId>,
    nodes: Vec<OfSnapshot>,
    objects: Vec<lifeboat_repository::find::FoundObject>,
    unread: u64,
}

impl Hits<'_> {
    fn take(&mut self, hit: Hit) {
        let for_people = self.session.settings.output == Output::Table;
        match hit {
            Hit::Node { snapshot, path, node } if for_people => {
                if self.last != Some(snapshot) {
                    self.last = Some(snapshot);
                    self.session.say(format!("in snapshot {}{}:", snapshot.short(), self.when(snapshot)));
                }
                output::bars().suspend(|| printer::bytes(&line(self.args.long, &path, &node)));
            }
            Hit::Node { snapshot, path, node } => {
                if self.last != Some(snapshot) {
                    self.last = Some(snapshot);
                    self.nodes.push(OfSnapshot { matches: vec![], hits: 0, snapshot });
                }
                if let Some(matches) = self.nodes.last_mut() {
                    matches.matches.push(FoundNode::new(&path, &node));
                    matches.hits += 1;
                }
            }
            Hit::Object(object) if for_people => output::bars().suspend(|| {
                let tree = object.parent_tree.map(|id| format!(" (tree {id})")).unwrap_or_default();
                printer::line(&format!("{} {}: {}{tree}", object.object_type, object.id, object.path));
                printer::line(&format!(
                    "  in snapshot {}{}",
                    object.snapshot.short(),
                    self.when(object.snapshot)
                ));
            }),
            Hit::Object(object) => self.objects.push(object),
            Hit::Unreadable { snapshot, tree, message } => {
                self.unread += 1;
                message!("error: tree {} of snapshot {}: {message}", tree.short(), snapshot.short());
            }
        }
    }

    fn when(&self, id: SnapshotId) -> String {
        let found = self.snapshots.iter().find(|(this, _)| *this == id);
        found.map(|(_, snapshot)| format!(" of {}", units::moment(&snapshot.time))).unwrap_or_default()
    }

    fn finish(self) -> Result<(), CliError> {
        if self.session.settings.output != Output::Table {
            if self.args.blob || self.args.tree || self.args.pack {
                output::summary(self.session, &self.objects, "")?;
            } else {
                output::summary(self.session, &self.nodes, "")?;
            }
        }
        match self.unread {
            0 => Ok(()),
            count => Err(CliError::restic(1, format!("{count} directories could not be searched"))
                .help("run `check` to see what is damaged")),
        }
    }
}
