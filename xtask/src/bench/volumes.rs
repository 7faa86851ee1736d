//! `cargo xtask bench volumes`: pods with a volume each, backed up twice and restored by Lifeboat, by genuine Velero with
//! its node agent, and by plain restic on the same directories as the floor, one after the other, on the box. Every restore is
//! compared with what was there. `bench/README.md` says what is equal and what is not.

mod agents;
mod app;
mod bucket;
mod content;
mod floor;
mod pods;
mod product;
mod report;
mod work;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::{cluster_box, image, run};
use app::App;
use bucket::Bucket;
use content::Content;
use product::{Product, Ready};
use report::Row;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many pods, each with one volume
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// MB in each volume
    #[arg(long, value_name = "MB", default_value_t = 100, value_parser = clap::value_parser!(u32).range(4..))]
    size: u32,
    /// How many of the box's nodes have pods
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    nodes: u8,
    /// Only these products
    #[arg(long, value_enum, value_delimiter = ',')]
    products: Vec<Product>,
    /// Store the rows here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A program to measure instead of the release build; its image must be in the box
    #[arg(long, hide = true)]
    lifeboat: Option<PathBuf>,
    /// The image of its movers
    #[arg(long, hide = true, default_value = image::LIFEBOAT)]
    image: String,
}

/// What is done with the data, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    First,
    /// After 1 % of the data has changed.
    Second,
    /// Of the second backup, after everything is gone.
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
    let was_up = cluster_box::is_up();
    if !was_up {
        cluster_box::up()?;
    }
    let rows = measure(args);
    if !was_up {
        cluster_box::down()?;
    }
    let rows = rows?;
    print!("{}", report::table(&rows));
    super::close(began, &report::verdicts(&rows), &rows, args.json.as_deref())
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
    let program = program(args)?;
    let environment = cluster_box::environment()?;
    // Before Velero's agents are there: it would refuse later.
    run::output(Command::new(&program).envs(&environment).args(["install", "--crds-only"]))?;
    // A place of its own for each run: what is in the bucket would be synced.
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let bucket = Bucket::new(&environment, format!("bench-volumes-{stamp}"));
    let app = App::new(&environment, args.pods, args.nodes)?;
    let content = Content::new(args.size);
    app.create()?;
    content.fill(&app.directories()?)?;
    let mut rows = Vec::new();
    for product in products(args) {
        content.reset(&app.directories()?)?;
        let name = product.name();
        let ready = Ready::prepare(product, (&program, &args.image), &environment, &bucket, app.nodes())?;
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
        // Twice as much storage and more would be needed if all stayed to the end.
        bucket.clear(&name)?;
    }
    Ok(rows)
}

fn products(args: &Args) -> Vec<Product> {
    let chosen = |product: &Product| args.products.is_empty() || args.products.contains(product);
    Product::value_variants().iter().copied().filter(chosen).collect()
}

fn one(product: &Ready, work: Work, args: &Args, app: &App, bucket: &Bucket) -> Result<Row> {
    super::process::quiet();
    let before = bucket.size(&product.name())?;
    let taken = product.work(work, app)?;
    #[allow(clippy::cast_precision_loss)] // for people
    let uploaded_mb = bucket.size(&product.name())?.saturating_sub(before) as f64 / 1e6;
    let row = Row {
        work: work.name().to_owned(),
        product: product.name(),
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
