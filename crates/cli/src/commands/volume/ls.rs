//! `lifeboat volume ls BACKUP [VOLUME[:PATH]]`: lists the volumes of a backup, or the files in one of them.

use lifeboat_repository::ls::{Listed, LsNode, LsOptions, ls};

use super::bucket::{BucketArgs, OpenBucket, failed};
use super::volumes::Volume;
use super::{Wanted, wanted};
use crate::args::{Output, OutputArg};
use crate::commands::repository::ls::{LongArgs, line};
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;
use crate::units::bytes;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the backup
    backup: String,
    /// A volume, as the list shows it; with ":/PATH" a directory or file in it
    #[arg(value_name = "VOLUME[:PATH]", value_parser = wanted)]
    volume: Option<Wanted>,
    /// Include subdirectories
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    output: OutputArg,
    #[command(flatten)]
    bucket: BucketArgs,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let bucket = OpenBucket::open(settings, &args.bucket, &args.backup).await?;
    match &args.volume {
        None => {
            let volumes = bucket.volumes(&args.backup).await?;
            if volumes.is_empty() && args.output.output == Output::Table {
                eprintln!("Backup {} has no volumes.", args.backup);
                return Ok(());
            }
            printer::print(args.output.output, &volumes, || table(&volumes))
        }
        Some(wanted) => files(&bucket, &args, wanted).await,
    }
}

fn table(volumes: &[Volume]) -> comfy_table::Table {
    let rows = volumes.iter().map(|volume| {
        let snapshot = volume.snapshot.as_deref().map(|id| id.get(..8).unwrap_or(id)).unwrap_or_default();
        let size = volume.size.map(bytes).unwrap_or_default();
        vec![volume.name.clone(), volume.way.to_owned(), size, volume.result.clone(), snapshot.to_owned()]
    });
    printer::table(&["VOLUME", "WAY", "SIZE", "RESULT", "SNAPSHOT"], rows)
}

async fn files(bucket: &OpenBucket, args: &Args, wanted: &Wanted) -> Result<(), CliError> {
    let (repository, snapshot) = bucket.snapshot(&args.backup, &wanted.volume).await?;
    let directory = wanted.path.as_deref().unwrap_or("/");
    let options = LsOptions {
        directories: if args.recursive && wanted.path.is_none() {
            Vec::new()
        } else {
            vec![directory.into()]
        },
        recursive: args.recursive,
        subfolder: None,
    };
    let output = args.output.output;
    let mut found = Vec::new();
    let mut count = 0_u64;
    let mut each = |listed: Listed| {
        if let Listed::Node { path, node, on_the_way: false } = listed {
            count += 1;
            // The requested directory is not listed as one of its own entries.
            if node.is_directory() && path == directory.as_bytes() {
                return Ok(());
            }
            if output == Output::Table {
                printer::bytes(&line(LongArgs { long: true, human_readable: false }, &path, &node));
            } else {
                found.push((path, node));
            }
        }
        Ok(())
    };
    let session = &bucket.session;
    let listing =
        ls(&repository, snapshot.tree, &options, session.lock_for_reading(), &mut each, &session.interrupted);
    listing.await.map_err(failed)?;
    if count == 0 && wanted.path.is_some() {
        return Err(CliError::not_found(format!("volume {} has no {directory}", wanted.volume))
            .help(format!("`lifeboat volume ls {} {}` shows what it has", args.backup, wanted.volume)));
    }
    let nodes: Vec<_> = found.iter().map(|(path, node)| LsNode::new(path, node)).collect();
    match output {
        Output::Table => {}
        Output::Json => printer::line(&printer::json(&nodes)?),
        Output::Yaml => printer::text(&printer::yaml(&nodes)?),
    }
    Ok(())
}
