//! `cargo xtask`: the one door for people and CI. Each subcommand has a module of its own.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a terminal program

mod cluster_box;
mod image;
mod run;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, try and test Lifeboat")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A real Kubernetes cluster on this machine, from packages alone
    Box(cluster_box::Args),
    /// Make the OCI archives of `lifeboat` and of the test images
    Image(image::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Box(args) => cluster_box::run(args),
        Command::Image(args) => image::run(args),
    }
}
