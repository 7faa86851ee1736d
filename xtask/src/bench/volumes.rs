//! `cargo xtask bench volumes`: pods with one volume each, backed up twice and restored by Lifeboat, by genuine Velero with
//! its node agent, and by plain restic on the same directories as the lower bound, one after the other, on the box. Every
//! restore is compared with the original data. With `--baseline` two builds of Lifeboat take turns instead.
//! `bench/README.md` says what is equal and what is not.

mod agents;
pub(super) mod app;
pub(super) mod bucket;
pub(super) mod content;
mod floor;
mod pods;
mod product;
mod report;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::baseline::{self, Build};
use crate::{cluster_box, image, run};
use app::App;
use bucket::Bucket;
use content::Content;
use product::{Candidate, Product, Ready};

pub(super) use product::MoverNamespace;
use report::Row;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of pods, each with one volume
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// MB in each volume
    #[arg(long, value_name = "MB", default_value_t = 100, value_parser = clap::value_parser!(u32).range(4..))]
    size: u32,
    /// How many of the box's nodes have pods
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    nodes: u8,
    /// Only these products
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "baseline")]
    products: Vec<Product>,
    /// Measure this older build of Lifeboat (static, as in an image) and the new one in turns, without restic and Velero; fail
    /// if the median of a time or of a peak memory is more than 1.10 times the old one
    #[arg(long, value_name = "OLD_BINARY")]
    baseline: Option<PathBuf>,
    /// With --baseline: how often each build makes both backups and the restore [default: 5]
    #[arg(long, value_name = "N", requires = "baseline", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Write the rows to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A program to measure instead of the release build. Without --baseline its image must be in the box
    #[arg(long, value_name = "BINARY")]
    lifeboat: Option<PathBuf>,
    /// The image of its movers
    #[arg(long, hide = true, default_value = image::LIFEBOAT, conflicts_with = "baseline")]
    image: String,
}

/// What is done with the data, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    First,
    /// A backup after 1 % of the data has changed.
    Second,
    /// A restore of the second backup, after everything was deleted.
    Restore,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Restore => "restore",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let began = Instant::now();
    super::require_program(args.baseline.as_deref())?;
    let was_up = cluster_box::is_up();
    if !was_up {
        cluster_box::up()?;
    }
    let rows = measure(args);
    if !was_up {
        cluster_box::down()?;
    }
    let rows = rows?;
    if args.baseline.is_some() {
        return super::close_compared(began, &report::figures(&rows), &rows, args.json.as_deref());
    }
    print!("{}", report::table(&rows));
    super::close(began, &report::verdicts(&rows), &rows, args.json.as_deref())
}

/// The products to measure, in this order.
fn candidates(args: &Args) -> Result<Vec<Candidate>> {
    if let Some(old) = &args.baseline {
        let new = match &args.lifeboat {
            Some(program) => program.clone(),
            None => image::binary(image::Profile::Release)?,
        };
        let both = [of_build(Build::Old, old)?, of_build(Build::New, &new)?];
        return Ok(baseline::turns(&both, args.rounds.unwrap_or(baseline::ROUNDS)));
    }
    let (program, image) = (program(args)?, &args.image);
    let candidate = |product: Product| {
        let (program, image) = (program.clone(), image.clone());
        Candidate { product, name: product.name(), program, image }
    };
    Ok(products(args).into_iter().map(candidate).collect())
}

/// A build whose movers run from its own image, which is loaded into the box. Its server runs without an image.
fn of_build(build: Build, program: &Path) -> Result<Candidate> {
    let name = build.product().to_owned();
    let (archive, image) = image::lifeboat_tagged(program, &format!("bench-{name}"))?;
    cluster_box::load(&[archive])?;
    Ok(Candidate { product: Product::Lifeboat, name, program: program.to_owned(), image })
}

fn program(args: &Args) -> Result<PathBuf> {
    if let Some(program) = &args.lifeboat {
        return Ok(program.clone());
    }
    let archive = image::lifeboat(image::Profile::Release)?;
    cluster_box::load(&[archive])?;
    image::binary(image::Profile::Release)
}

fn measure(args: &Args) -> Result<Vec<Row>> {
    let candidates = candidates(args)?;
    let newest = &candidates.last().context("no product is chosen")?.program;
    let environment = cluster_box::environment()?;
    // Before Velero's agents run: `install` would refuse later.
    run::output(Command::new(newest).envs(&environment).args(["install", "--crds-only"]))?;
    // Each run has its own prefix, because backups that are in the bucket would be synced.
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let bucket = Bucket::new(&environment, format!("bench-volumes-{stamp}"));
    let app = App::new(&environment, app::NAMESPACE, args.pods, args.nodes)?;
    let content = Content::new(args.size);
    app.create()?;
    content.fill(&app.directories()?)?;
    let mut rows = Vec::new();
    for candidate in &candidates {
        content.reset(&app.directories()?)?;
        let name = &candidate.name;
        let ready = Ready::prepare(candidate, &environment, &bucket, app.nodes())?;
        let mut measured = |work| -> Result<()> {
            rows.push(
                one(&ready, work, args, &app, &bucket)
                    .with_context(|| format!("{} by {name}", work.name()))?,
            );
            Ok(())
        };
        measured(Work::First)?;
        content.change(&app.directories()?)?;
        let before = content::fingerprints(&app.directories()?)?;
        measured(Work::Second)?;
        ready.lose(&app)?;
        measured(Work::Restore)?;
        app.wait()?;
        let after = content::fingerprints(&app.directories()?)?;
        ensure!(after == before, "volumes restored by {name} have another content");
        // More than twice as much storage would be needed if the data of all products stayed until the end.
        bucket.clear(name)?;
    }
    Ok(rows)
}

fn products(args: &Args) -> Vec<Product> {
    let chosen = |product: &Product| args.products.is_empty() || args.products.contains(product);
    Product::value_variants().iter().copied().filter(chosen).collect()
}

fn one(product: &Ready, work: Work, args: &Args, app: &App, bucket: &Bucket) -> Result<Row> {
    super::process::quiet();
    let before = bucket.size(product.name())?;
    let taken = product.work(work, app)?;
    #[allow(clippy::cast_precision_loss)] // for people
    let uploaded_mb = bucket.size(product.name())?.saturating_sub(before) as f64 / 1e6;
    let row = Row {
        work: work.name().to_owned(),
        product: product.name().to_owned(),
        volumes: args.pods,
        size_mb: args.size,
        wall_s: taken.wall_s,
        cpu_s: taken.cpu_s,
        server_mb: taken.server_mb,
        agent_mb: taken.agent_mb,
        mover_mb: taken.mover_mb,
        uploaded_mb: (work != Work::Restore).then_some(uploaded_mb),
    };
    eprintln!("{}", row.line());
    Ok(row)
}
