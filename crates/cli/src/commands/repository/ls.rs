//! `ls`: lists the files of a snapshot.

mod ncdu;

use std::cmp::Reverse;
use std::path::PathBuf;

use lifeboat_repository::ls::{Listed, LsNode, LsOptions, ls, mode_text};
use lifeboat_repository::node::{Node, NodeKind};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::{FoundSnapshot, Selection};
use serde_json::json;

use ncdu::Ncdu;

use super::output::{self, ShownSnapshot};
use super::select::{self, FilterArgs};
use super::session::Session;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id, prefix of an id, or "latest"; with ":/folder" only the content of that folder
    #[arg(value_name = "SNAPSHOT[:FOLDER]", value_parser = select::selection())]
    snapshot: Selection,
    /// Only these directories
    #[arg(value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    long: LongArgs,
    /// Include subdirectories of the given directories
    #[arg(long)]
    recursive: bool,
    /// Sort by name, size, time, mtime, atime, ctime or extension
    #[arg(short, long, value_enum, default_value = "name")]
    sort: Order,
    /// Reverse the order
    #[arg(long)]
    reverse: bool,
    /// Output for ncdu: `ls latest --ncdu | ncdu -f -`
    #[arg(long, conflicts_with_all = ["sort", "reverse", "long"])]
    ncdu: bool,
}

/// How nodes are printed.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct LongArgs {
    /// Show mode, owner, size and time
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Show sizes with units
    #[arg(long)]
    pub(crate) human_readable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    Name,
    Size,
    Time,
    Mtime,
    Atime,
    Ctime,
    Extension,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let filter = args.filter.resolve(&session.settings);
    let finding = select::one(&repository, &args.snapshot, &filter);
    let (found, subfolder) = session.interruptible(finding).await?;
    let options = LsOptions { subfolder, directories: args.directories.clone(), recursive: args.recursive };
    if args.ncdu {
        return for_ncdu(session, &repository, &found, &options).await;
    }
    let sorted = args.sort != Order::Name || args.reverse;
    let mut kept = Vec::new();
    head(session, &found)?;
    let output = session.settings.output;
    let long = args.long;
    let mut each = |listed: Listed| {
        if let Listed::Node { path, node, on_the_way: false } = listed {
            // Sorted output and YAML need all nodes first; everything else is printed as it is read.
            if sorted || output == Output::Yaml {
                kept.push((path, node));
            } else {
                show(output, long, &path, &node);
            }
        }
        Ok(())
    };
    let lock = session.lock_for_reading();
    ls(&repository, found.1.tree, &options, lock, &mut each, &session.interrupted).await?;
    sort(&mut kept, args.sort, args.reverse);
    if output == Output::Yaml {
        let nodes: Vec<_> = kept.iter().map(|(path, node)| LsNode::new(path, node)).collect();
        printer::text(&printer::yaml(&nodes)?);
    } else {
        for (path, node) in &kept {
            show(output, long, path, node);
        }
    }
    Ok(())
}

async fn for_ncdu(
    session: &Session,
    repository: &Repository,
    found: &FoundSnapshot,
    options: &LsOptions,
) -> Result<(), CliError> {
    if session.settings.output != Output::Table {
        return Err(
            CliError::usage("--ncdu cannot be combined with another format").help("leave out --json and -o")
        );
    }
    let (mut ncdu, begin) = Ncdu::begin(&found.1)?;
    printer::text(&begin);
    let mut each = |listed: Listed| {
        printer::text(&ncdu.step(&listed));
        Ok(())
    };
    let lock = session.lock_for_reading();
    ls(repository, found.1.tree, options, lock, &mut each, &session.interrupted).await?;
    printer::text(Ncdu::end());
    Ok(())
}

fn head(session: &Session, found: &FoundSnapshot) -> Result<(), CliError> {
    if !session.is_json() {
        session.say(format!(
            "snapshot {} of {} at {}:",
            found.0.short(),
            found.1.hostname,
            units::moment(&found.1.time)
        ));
        return Ok(());
    }
    let mut message = serde_json::to_value(ShownSnapshot::from(found))
        .map_err(|error| CliError::failed("cannot write JSON", error))?;
    message["message_type"] = json!("snapshot");
    message["struct_type"] = json!("snapshot");
    output::line_of_json(&message)
}

fn show(output: Output, long: LongArgs, path: &[u8], node: &Node) {
    if output == Output::Json {
        // A node consists of text and numbers, so it always serializes.
        let _ = output::line_of_json(&LsNode::new(path, node));
    } else {
        printer::bytes(&line(long, path, node));
    }
}

/// A node as a line of text: its path, with --long also mode, owner, size and time. Names are printed unescaped, so
/// that scripts can use them.
pub(crate) fn line(long: LongArgs, path: &[u8], node: &Node) -> Vec<u8> {
    if !long.long {
        return [path, b"\n"].concat();
    }
    let size = if long.human_readable { units::bytes(node.size) } else { node.size.to_string() };
    let target: &[&[u8]] = if node.kind == NodeKind::Symlink { &[b" -> ", &node.link_target] } else { &[] };
    let time = jiff::Timestamp::new(node.mtime.seconds, 0).unwrap_or_default();
    let time = time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let start = format!("{} {:>5} {:>5} {size:>6} {time} ", mode_text(node.mode), node.uid, node.gid);
    [start.as_bytes(), path, &target.concat(), b"\n"].concat()
}

fn sort(nodes: &mut [(Vec<u8>, Box<Node>)], order: Order, reverse: bool) {
    let extension = |path: &[u8]| -> Vec<u8> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let at = name.iter().rposition(|byte| *byte == b'.');
        at.map(|at| name[at..].to_vec()).unwrap_or_default()
    };
    match order {
        Order::Name => {}
        Order::Size => nodes.sort_by_key(|(_, node)| Reverse(node.size)),
        Order::Time | Order::Mtime => nodes.sort_by_key(|(_, node)| Reverse(node.mtime)),
        Order::Atime => nodes.sort_by_key(|(_, node)| Reverse(node.atime)),
        Order::Ctime => nodes.sort_by_key(|(_, node)| Reverse(node.ctime)),
        Order::Extension => nodes.sort_by_cached_key(|(path, _)| extension(path)),
    }
    if reverse {
        nodes.reverse();
    }
}
