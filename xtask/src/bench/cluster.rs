//! `cargo xtask bench cluster`: Lifeboat and genuine Velero back up and restore the same objects in turns, each as a
//! process on this machine against the box and its storage; every restore is compared with what was there.
//! `bench/README.md` says what is equal and what is not.

mod case;
mod identity;
mod load;
mod product;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;

use crate::{cluster_box, run};
use case::Bench;
use load::Load;
use product::{Product, Products};
use report::Row;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only so many objects, and only config maps and secrets unless --data says otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    objects: Option<u32>,
    /// Store the rows here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these data
    #[arg(long, value_enum, value_delimiter = ',')]
    data: Vec<Data>,
    /// Only these products
    #[arg(long, value_enum, value_delimiter = ',')]
    products: Vec<Product>,
    /// How often each product makes each backup; restores are made once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// A program to measure instead of the release build, to try the bench itself
    #[arg(long, hide = true)]
    lifeboat: Option<PathBuf>,
    /// Likewise the program that fills the cluster
    #[arg(long, hide = true)]
    load: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    /// Config maps and secrets of 1.5 kB in 20 namespaces
    Config,
    /// 40 types
    Mixed,
    /// The same, restored with an action in Go that is for every item
    Action,
    /// 1,000 schedules and 5,000 backups that nobody works on
    Rest,
}

impl Data {
    /// What the program that fills the cluster calls these objects.
    fn objects(self) -> String {
        if self == Self::Action { Self::Config.name() } else { self.name() }
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// What is measured with which objects by whom.
struct Case {
    data: Data,
    objects: u32,
    products: Vec<Product>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let began = Instant::now();
    let load = Load::build(args.load.clone())?;
    let program = match &args.lifeboat {
        Some(program) => program.clone(),
        None => release()?,
    };
    let was_up = cluster_box::is_up();
    cluster_box::up()?;
    let environment = cluster_box::environment()?;
    let rows = measure(args, load, program, &environment);
    if !was_up {
        cluster_box::down()?;
    }
    let rows = rows?;
    print!("{}", report::tables(&rows));
    super::close(began, &report::verdicts(&rows), &rows, args.json.as_deref())
}

fn release() -> Result<PathBuf> {
    run::run(run::cargo().args(["build", "--quiet", "--release", "--package", "lifeboat"]))?;
    Ok(run::target_directory()?.join("release/lifeboat"))
}

fn measure(
    args: &Args,
    load: Load,
    program: PathBuf,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<Row>> {
    let products = Products::prepare(program, environment)?;
    let bench = Bench { products: &products, load: load.at(environment, &products), rounds: args.rounds };
    let mut rows = Vec::new();
    for case in cases(args) {
        let began = Instant::now();
        rows.extend(bench.run(&case)?);
        let seconds = began.elapsed().as_secs();
        eprintln!("{} with {} objects: {seconds} s", case.data.name(), case.objects);
    }
    Ok(rows)
}

/// Velero with its defaults runs with the smallest data only: it takes minutes.
fn cases(args: &Args) -> Vec<Case> {
    let wanted = |data: Data| match (args.data.as_slice(), args.objects) {
        ([], None) => true,
        ([], Some(_)) => data == Data::Config,
        (chosen, _) => chosen.contains(&data),
    };
    let all = [Product::Velero, Product::VeleroTuned, Product::Lifeboat];
    let with_action = [Product::Lifeboat, Product::VeleroTunedAction, Product::LifeboatAction];
    let case = |data, objects, products: &[Product]| Case { data, objects, products: products.to_vec() };
    let cases = match args.objects {
        Some(objects) => {
            vec![
                case(Data::Config, objects, &all),
                case(Data::Mixed, objects, &all[1..]),
                case(Data::Action, objects, &with_action),
            ]
        }
        None => vec![
            case(Data::Config, 10_000, &all),
            case(Data::Config, 50_000, &all[1..]),
            case(Data::Mixed, 10_000, &all[1..]),
            case(Data::Action, 10_000, &with_action),
        ],
    };
    let at_rest = case(Data::Rest, 6000, &[Product::Velero, Product::Lifeboat]);
    let mut cases: Vec<Case> = cases.into_iter().chain([at_rest]).filter(|case| wanted(case.data)).collect();
    if !args.products.is_empty() {
        for case in &mut cases {
            case.products.retain(|product| args.products.contains(product));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(objects: Option<u32>, data: &[Data]) -> Args {
        Args {
            objects,
            json: None,
            data: data.to_vec(),
            products: Vec::new(),
            rounds: 1,
            lifeboat: None,
            load: None,
        }
    }

    #[test]
    fn velero_with_its_defaults_runs_with_ten_thousand_objects_only() {
        let cases = cases(&args(None, &[]));
        let sizes: Vec<(u32, usize)> = cases.iter().map(|case| (case.objects, case.products.len())).collect();
        assert_eq!(sizes, [(10_000, 3), (50_000, 2), (10_000, 2), (10_000, 3), (6000, 2)]);
    }

    #[test]
    fn a_number_of_objects_means_config_maps_and_secrets_by_all() {
        let cases = cases(&args(Some(500), &[]));
        assert_eq!(cases.len(), 1);
        assert_eq!((cases[0].data, cases[0].objects, cases[0].products.len()), (Data::Config, 500, 3));
    }
}
