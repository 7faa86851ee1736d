//! The command line: arguments are resolved to settings, a command runs, a printer prints. The binary only calls
//! `main`. Standard output is for data, standard error for messages.
#![allow(clippy::print_stderr)] // this crate is the terminal; standard output goes through `printer`

mod allocator;
mod args;
mod commands;
mod download;
mod error;
pub mod generate;
mod go_flags;
mod kubectl_stash;
mod nouns;
mod objects;
mod printer;
mod restic;
mod runtime;
mod server_status;
mod settings;
mod units;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};

use commands::Cli;

pub use commands::command;

/// Runs the program with the process's own arguments.
pub fn main() -> ExitCode {
    allocator::give_large_blocks_back();
    // Every TLS connection of the process uses this provider. An error means that it is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    if restic::is_called() {
        return finish(restic::run);
    }
    if kubectl_stash::is_called() {
        return finish(kubectl_stash::run);
    }
    let mut tree = with_namespace(command(), std::env::var("VELERO_NAMESPACE").ok());
    tree.build();
    let arguments = go_flags::plain(&tree, std::env::args_os());
    let cli = match tree.try_get_matches_from(arguments).and_then(|matches| parsed(&matches)) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    finish(|| runtime::run(commands::run(cli)))
}

fn parsed(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    cli.global.namespace_is_given = matches.value_source("namespace") == Some(ValueSource::CommandLine);
    Ok(cli)
}

fn finish(work: impl FnOnce() -> Result<(), error::CliError>) -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            if !error.is_silent() {
                show(error);
            }
            code
        }
    }
}

/// Lines are not wrapped here: terminals wrap them, and a flag that is split over two lines could not be copied.
fn show(error: error::CliError) {
    let _ =
        miette::set_hook(Box::new(|_| Box::new(miette::MietteHandlerOpts::new().wrap_lines(false).build())));
    eprintln!("{:?}", miette::Report::new(error));
}

/// Stock Velero's variable sets the namespace if no flag does.
fn with_namespace(command: clap::Command, namespace: Option<String>) -> clap::Command {
    match namespace.filter(|name| !name.is_empty()) {
        // The command tree needs the name for as long as the program runs.
        Some(name) => command.mut_arg("namespace", |arg| arg.default_value(&*name.leak())),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::upstreams(Some("velero"), &["lifeboat", "crds"], "velero")]
    #[case::a_flag_goes_before(Some("velero"), &["lifeboat", "-n", "mine", "crds"], "mine")]
    #[case::empty(Some(""), &["lifeboat", "crds"], "lifeboat")]
    #[case::none(None, &["lifeboat", "crds"], "lifeboat")]
    fn the_namespace_may_come_from_upstreams_variable(
        #[case] variable: Option<&str>,
        #[case] line: &[&str],
        #[case] expected: &str,
    ) {
        let tree = with_namespace(command(), variable.map(str::to_owned));
        let matches = tree.try_get_matches_from(line).unwrap();
        assert_eq!(Cli::from_arg_matches(&matches).unwrap().global.namespace, expected);
    }

    #[rstest]
    #[case::none(&["lifeboat", "stash", "trigger", "app"], None)]
    #[case::before(&["lifeboat", "-n", "shop", "stash", "trigger", "app"], Some("shop"))]
    #[case::between(&["lifeboat", "stash", "-n", "shop", "trigger", "app"], Some("shop"))]
    #[case::after(&["lifeboat", "stash", "trigger", "app", "-n", "shop"], Some("shop"))]
    fn the_namespace_of_the_server_is_not_that_of_stash_objects(
        #[case] line: &[&str],
        #[case] expected: Option<&str>,
    ) {
        let tree = with_namespace(command(), Some("velero".to_owned()));
        let global = parsed(&tree.try_get_matches_from(line).unwrap())
            .map_err(|error| error.to_string())
            .unwrap()
            .global;
        assert_eq!(global.namespace_is_given.then_some(global.namespace.as_str()), expected);
    }
}
