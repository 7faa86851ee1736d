//! Helper of `cargo xtask bench cluster`, independent of the measured products: fills a cluster with objects, deletes
//! them, records and verifies them, and times a Backup or a Restore while an unrelated client sends small requests.
//! Every object has a label; objects without it are not changed.
#![allow(clippy::print_stdout)] // xtask reads what it prints

mod data;
mod error;
mod fill;
mod memory;
mod rest;
mod types;
mod work;

use std::process::ExitCode;

use data::Data;
use error::Result;
use kube::Client;

const USAGE: &str = "\
load fill DATA OBJECTS        create the objects (DATA is config or mixed)
load drop DATA                delete them and wait until they are gone
load remember DATA FILE       note what is there
load verify DATA FILE         compare with what was noted
load work MANIFEST KUBECONFIG create a Backup or Restore, wait for its end; GETs with the other kubeconfig meanwhile
load rest NAMESPACE SCHEDULES BACKUPS   create objects that need no work";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[&str]) -> Result<()> {
    let client = Client::try_default().await?;
    match arguments {
        ["fill", data, objects] => fill::fill(&client, Data::parse(data)?, objects.parse()?).await,
        ["drop", data] => fill::empty(&client, Data::parse(data)?).await,
        ["remember", data, file] => memory::remember(&client, Data::parse(data)?, file).await,
        ["verify", data, file] => memory::verify(&client, Data::parse(data)?, file).await,
        ["work", manifest, kubeconfig] => work::work(&client, manifest, kubeconfig).await,
        ["rest", namespace, schedules, backups] => {
            rest::fill(&client, namespace, schedules.parse()?, backups.parse()?).await
        }
        _ => Err(USAGE.into()),
    }
}
