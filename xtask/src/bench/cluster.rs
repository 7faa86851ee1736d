//! `cargo xtask bench cluster`: Lifeboat and genuine Velero back up and restore the same objects in turns, each as a
//! process on this machine against the box and its storage; every restore is compared with the original objects.
//! With `--baseline` two builds of Lifeboat take turns instead. `bench/README.md` says what is equal and what is not.

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

use super::baseline;
use crate::{cluster_box, image, run};
use case::Bench;
use load::Load;
use product::{Product, Products, Programs};
use report::Row;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this number of objects, and only config maps and secrets unless --data is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    objects: Option<u32>,
    /// Write the rows to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these data
    #[arg(long, value_enum, value_delimiter = ',')]
    data: Vec<Data>,
    /// Only these products
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "baseline")]
    products: Vec<Product>,
    /// Measure this older build of Lifeboat and the new one in turns, without Velero; fail if the median of a time or of a
    /// peak memory is more than 1.10 times the old one
    #[arg(long, value_name = "OLD_BINARY")]
    baseline: Option<PathBuf>,
    /// How often each product makes each backup; restores are made once [default: 1]. With --baseline how often each build makes
    /// both [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// A program to measure instead of the release build
    #[arg(long, value_name = "BINARY")]
    lifeboat: Option<PathBuf>,
    /// A program that fills the cluster, instead of building it
    #[arg(long, hide = true)]
    load: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    /// Config maps and secrets of 1.5 kB in 20 namespaces
    Config,
    /// 40 types
    Mixed,
    /// The objects of `config`, restored with an action in Go that applies to every item
    Action,
    /// 1,000 schedules and 5,000 backups with nothing to do
    Rest,
}

impl Data {
    /// The name of these objects in the program that fills the cluster.
    fn objects(self) -> String {
        if self == Self::Action { Self::Config.name() } else { self.name() }
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The number of objects whose memory use is compared with that of fewer objects.
const MANY: u32 = 50_000;

/// One measurement: the objects, and the products that are measured.
struct Case {
    data: Data,
    objects: u32,
    products: Vec<Product>,
}

impl Case {
    /// The case for two builds of Lifeboat. Ten restores of 50,000 objects take long, so they run only if `asked` is set.
    fn of_builds(mut self, asked: Option<u32>) -> Option<Self> {
        self.products = match self.data {
            Data::Action => vec![Product::BaselineAction, Product::LifeboatAction],
            _ => vec![Product::Baseline, Product::Lifeboat],
        };
        (self.objects < MANY || asked.is_some()).then_some(self)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let began = Instant::now();
    super::require_program(args.baseline.as_deref())?;
    let load = Load::build(args.load.clone())?;
    let programs = Programs { new: program(args)?, old: args.baseline.clone() };
    let was_up = cluster_box::is_up();
    cluster_box::up()?;
    let environment = cluster_box::environment()?;
    let rows = measure(args, load, programs, &environment);
    if !was_up {
        cluster_box::down()?;
    }
    let rows = rows?;
    if args.baseline.is_some() {
        return super::close_compared(began, &report::figures(&rows), &rows, args.json.as_deref());
    }
    print!("{}", report::tables(&rows));
    super::close(began, &report::verdicts(&rows), &rows, args.json.as_deref())
}

/// The program to measure. An old build comes from an image, so the new one is linked in the same way.
fn program(args: &Args) -> Result<PathBuf> {
    match (&args.lifeboat, &args.baseline) {
        (Some(program), _) => Ok(program.clone()),
        (None, Some(_)) => image::binary(image::Profile::Release),
        (None, None) => release(),
    }
}

fn release() -> Result<PathBuf> {
    run::run(run::cargo().args(["build", "--quiet", "--release", "--package", "lifeboat"]))?;
    Ok(run::target_directory()?.join("release/lifeboat"))
}

fn measure(
    args: &Args,
    load: Load,
    programs: Programs,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<Row>> {
    let in_turns = programs.old.is_some();
    let products = Products::prepare(programs, environment)?;
    let rounds = args.rounds.unwrap_or(if in_turns { baseline::ROUNDS } else { 1 });
    let bench = Bench { products: &products, load: load.at(environment, &products), rounds, in_turns };
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
            case(Data::Config, MANY, &all[1..]),
            case(Data::Mixed, 10_000, &all[1..]),
            case(Data::Action, 10_000, &with_action),
        ],
    };
    let at_rest = case(Data::Rest, 6000, &[Product::Velero, Product::Lifeboat]);
    let mut cases: Vec<Case> = cases.into_iter().chain([at_rest]).filter(|case| wanted(case.data)).collect();
    if args.baseline.is_some() {
        cases = cases.into_iter().filter_map(|case| case.of_builds(args.objects)).collect();
    }
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
            baseline: None,
            rounds: None,
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

    #[test]
    fn with_a_baseline_only_the_two_builds_take_turns_old_first() {
        let with = |args: Args| Args { baseline: Some("old".into()), ..args };
        let found = cases(&with(args(None, &[])));
        let sizes: Vec<u32> = found.iter().map(|case| case.objects).collect();
        assert_eq!(sizes, [10_000, 10_000, 10_000, 6000], "50,000 objects only where they are asked for");
        assert_eq!(found[0].products, [Product::Baseline, Product::Lifeboat]);
        assert_eq!(found[2].products, [Product::BaselineAction, Product::LifeboatAction]);
        let found = cases(&with(args(Some(50_000), &[])));
        assert_eq!((found.len(), found[0].objects), (1, 50_000));
    }
}
