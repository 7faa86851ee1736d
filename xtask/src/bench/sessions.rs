//! `cargo xtask bench sessions`: the limits of Stash's API on the box: a batch against plain restic on the same directories, a repository
//! behind the gateway against one with keys in place, a hundred sessions that are due in one second, and a server at rest with hundreds of
//! BackupConfigurations. Fails if a limit is exceeded. `bench/README.md` says what is measured how.

mod burst;
mod copies;
mod many;
mod movers;
mod objects;
mod report;
mod requests;
mod rest;
mod restic;
mod session;
mod site;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::{cluster_box, image};
use report::Row;
use site::Site;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these measurements
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Measurement>,
    /// MB in each host
    #[arg(long, value_name = "MB", default_value_t = 100, value_parser = clap::value_parser!(u32).range(4..))]
    size: u32,
    /// How often batches are measured; medians count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How many sessions are due in one second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,
    /// How many BackupConfigurations there are at rest
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    configurations: u32,
    /// How long the server is measured at rest, in minutes
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Write the rows to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A program to measure instead of the release build. Its movers run from an image of it
    #[arg(long, value_name = "BINARY")]
    lifeboat: Option<PathBuf>,
    /// The image of its movers, which must be in the box
    #[arg(long, hide = true, default_value = image::LIFEBOAT)]
    image: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    /// A batch of three hosts against plain restic
    Batch,
    /// Eight hosts at once, with the keys in place and through the gateway
    Gateway,
    /// Many sessions that are due in one second
    Burst,
    /// A server at rest with many BackupConfigurations
    Rest,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let began = Instant::now();
    let was_up = cluster_box::is_up();
    if !was_up {
        cluster_box::up()?;
    }
    let mut rows = Vec::new();
    let measured = measure(args, &mut rows);
    if !was_up {
        cluster_box::down()?;
    }
    // What was measured before a failure is not lost.
    if rows.is_empty() {
        return measured;
    }
    print!("{}", report::table(&rows));
    let limits = report::limits(&rows);
    let lines: Vec<String> = limits.iter().map(ToString::to_string).collect();
    super::close(began, &lines, &rows, args.json.as_deref())?;
    measured?;
    let exceeded: Vec<&str> = limits
        .iter()
        .zip(&lines)
        .filter(|(limit, _)| !limit.is_met())
        .map(|(_, line)| line.as_str())
        .collect();
    ensure!(exceeded.is_empty(), "over the limit:\n  {}", exceeded.join("\n  "));
    Ok(())
}

fn measure(args: &Args, rows: &mut Vec<Row>) -> Result<()> {
    let wanted = |measurement| args.only.is_empty() || args.only.contains(&measurement);
    let site = Site::prepare(program(args)?, args.image.clone())?;
    if wanted(Measurement::Batch) {
        rows.extend(copies::against_restic(&site, args.size, args.rounds)?);
    }
    if wanted(Measurement::Gateway) {
        rows.extend(copies::through_the_gateway(&site, args.size, args.rounds)?);
    }
    if wanted(Measurement::Burst) {
        rows.push(burst::measure(&site, args.sessions)?);
    }
    if wanted(Measurement::Rest) {
        rows.push(rest::measure(&site, args.configurations, args.minutes)?);
    }
    Ok(())
}

fn program(args: &Args) -> Result<PathBuf> {
    if let Some(program) = &args.lifeboat {
        if args.image == image::LIFEBOAT {
            cluster_box::load(&[image::lifeboat_of(program)?])?;
        }
        return Ok(program.clone());
    }
    let archive = image::lifeboat(image::Profile::Release)?;
    cluster_box::load(&[archive])?;
    image::binary(image::Profile::Release)
}
