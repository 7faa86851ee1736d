//! `cargo xtask bench repository`: Lifeboat, restic and kopia on the same generated data in the same run, one after the
//! other in each round, so that a slow period of the machine affects all of them. `bench/README.md` says what is equal
//! and what is not.

mod case;
mod data;
mod place;
mod product;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::bench::measure;
use crate::{apt, run};
use case::{Bench, Cache, Case, Work};
use data::{Data, Set};
use place::StorageKind;
use product::Product;
use report::Row;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Vary data, place and page cache, one at a time, once (up to 60 minutes)
    #[arg(long)]
    full: bool,
    /// Write the rows to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these products
    #[arg(long, value_enum, value_delimiter = ',')]
    products: Vec<Product>,
    /// Measure only this work
    #[arg(long, value_enum, value_delimiter = ',')]
    work: Vec<Work>,
    /// Only these sets of data [default: mixed]
    #[arg(long, value_enum, value_delimiter = ',')]
    data: Vec<Set>,
    /// Only repositories on this storage [default: local]
    #[arg(long, value_enum, value_delimiter = ',')]
    place: Vec<StorageKind>,
    /// Only with this page cache [default: warm]
    #[arg(long, value_enum, value_delimiter = ',')]
    cache: Vec<Cache>,
    /// How often each product is measured [default: 3, with --full 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Leave data and the last repository in the target directory
    #[arg(long)]
    keep: bool,
    /// Scale the data down, to test the benchmark itself
    #[arg(long, hide = true, default_value_t = 1.0)]
    scale: f64,
}

const BASE: Case = Case { set: Set::Mixed, place: StorageKind::Local, cache: Cache::Warm };

pub(crate) fn run(args: &Args) -> Result<()> {
    apt::apt_install(&apt::missing(&[("time", measure::TIME)]))?;
    let began = Instant::now();
    let programs = programs(&chosen(&args.products))?;
    let work = run::target_directory()?.join("bench-repository");
    let rows = measure_cases(args, &programs, &work)?;
    let rows = report::medians(&rows);
    print!("{}", report::tables(&rows));
    println!("\nAims");
    for verdict in report::verdicts(&rows) {
        let mark = if verdict.met { "met" } else { "not met" };
        println!("- {}: {} ({mark})", verdict.aim, verdict.found);
    }
    println!("\n{} minutes; {}", began.elapsed().as_secs() / 60, super::machine());
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&rows)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn measure_cases(args: &Args, programs: &[(Product, PathBuf)], work: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut ready: Option<(Set, Data)> = None;
    for case in cases(args) {
        let data = match ready.take() {
            Some((set, data)) if set == case.set => data,
            _ => write_data(case.set, args.scale, work)?,
        };
        rows.extend(measure_case(args, case, &data, programs, work)?);
        ready = Some((case.set, data));
    }
    if !args.keep {
        fs::remove_dir_all(work).context("cannot remove the data")?;
    }
    Ok(rows)
}

fn measure_case(
    args: &Args,
    case: Case,
    data: &Data,
    programs: &[(Product, PathBuf)],
    work: &Path,
) -> Result<Vec<Row>> {
    let wanted = chosen(&args.work);
    let bench = Bench { case, data, work, wanted: &wanted };
    let mut rows = Vec::new();
    for round in 0..rounds(args) {
        eprintln!("{case:?}, round {} of {}", round + 1, rounds(args));
        // Each round starts with another product.
        let first = round % programs.len().max(1);
        for (product, program) in programs[first..].iter().chain(&programs[..first]) {
            rows.extend(bench.run(*product, program.clone())?);
        }
    }
    Ok(rows)
}

fn write_data(set: Set, scale: f64, work: &Path) -> Result<Data> {
    if work.exists() {
        fs::remove_dir_all(work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    fs::create_dir_all(work)?;
    let began = Instant::now();
    let data = Data::write(set, scale, work)?;
    let (count, bytes) = data.totals();
    eprintln!("{set:?}: {count} files, {} MB, written in {} s", bytes / 1_000_000, began.elapsed().as_secs());
    Ok(data)
}

/// The base case, or the requested cases, or with `--full` every case that differs from the base in one respect. Cases
/// with the same data follow each other, because the data is written once.
fn cases(args: &Args) -> Vec<Case> {
    if args.full {
        return vec![
            BASE,
            Case { cache: Cache::Cold, ..BASE },
            Case { place: StorageKind::S3, ..BASE },
            Case { place: StorageKind::SlowS3, ..BASE },
            Case { set: Set::Small, ..BASE },
            Case { set: Set::Large, ..BASE },
        ];
    }
    let mut all = Vec::new();
    for set in or(&args.data, BASE.set) {
        for place in or(&args.place, BASE.place) {
            all.extend(or(&args.cache, BASE.cache).into_iter().map(|cache| Case { set, place, cache }));
        }
    }
    all
}

fn or<T: Clone>(given: &[T], otherwise: T) -> Vec<T> {
    if given.is_empty() { vec![otherwise] } else { given.to_vec() }
}

fn rounds(args: &Args) -> usize {
    args.rounds.map_or(if args.full { 1 } else { 3 }, usize::from)
}

fn chosen<T: clap::ValueEnum>(given: &[T]) -> Vec<T> {
    if given.is_empty() { T::value_variants().to_vec() } else { given.to_vec() }
}

fn programs(products: &[Product]) -> Result<Vec<(Product, PathBuf)>> {
    products.iter().map(|product| Ok((*product, product.program()?))).collect()
}
