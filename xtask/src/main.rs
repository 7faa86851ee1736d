//! `cargo xtask`: the one entry point for developers and CI. Each subcommand has its own module.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a terminal program

mod apt;
mod bench;
mod cluster_box;
mod delay;
mod demo;
mod generate;
mod image;
mod lint;
mod run;
mod s3_server;
mod servers;
mod target;
mod test;
mod tools;
mod torture;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, try and test Lifeboat")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a demo of Lifeboat on a real cluster: the box, or one that you name
    Demo(demo::Args),
    /// Run every test: lint, unit, API server, real pods
    Test(test::Args),
    /// A real Kubernetes cluster on this machine, from packages alone
    Box(cluster_box::Args),
    /// Make the OCI archives of `lifeboat` and of the test images
    Image(image::Args),
    /// Format, clippy, directions between crates, generated files
    Lint(lint::Args),
    /// Write the files that come from the code
    Gen(generate::Args),
    /// Measure Lifeboat and its peers
    Bench(bench::Args),
    /// Repeatedly kill processes that work on a repository, and check that no data is lost
    Torture(torture::Args),
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The causes on one line: the reader needs to know what to do, not where it happened.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Box(args) => cluster_box::run(args),
        Command::Image(args) => image::run(args),
        Command::Lint(args) => lint::run(&args),
        Command::Gen(args) => generate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Torture(args) => torture::run(&args),
    }
}
