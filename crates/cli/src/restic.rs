//! The name `restic`: called by it, the program accepts restic's command line and short forms for pipes: `… | restic -r
//! R backup` and `restic -r R restore | …`. The commands are those of `lifeboat repository`; in the commands of a
//! BackupAgent, `agent` hands them to the mover.

mod agent;
mod others;

use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::commands::repository::{self, CommonArgs};
use crate::error::CliError;
use crate::{printer, runtime};

/// Back up and restore; restic's command line, carried out by Lifeboat
#[derive(Parser)]
#[command(name = "restic", disable_version_flag = true, max_term_width = 110)]
#[command(subcommand_required = true, arg_required_else_help = true, args_override_self = true)]
struct Restic {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(flatten)]
    Repository(repository::Command),
    #[command(flatten)]
    Other(others::Command),
}

/// Whether the program was started by that name.
pub(crate) fn is_called() -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|name| Path::new(&name).file_name().is_some_and(|name| name == "restic"))
}

/// Runs the arguments of the process as restic would.
pub(crate) fn run() -> Result<(), CliError> {
    let parsed = command().try_get_matches().and_then(|matches| Restic::from_arg_matches(&matches));
    let restic = match parsed {
        Ok(restic) => restic,
        Err(error) => {
            use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
            // `restic key` without a subcommand prints the help too.
            let help = [DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion];
            if help.contains(&error.kind()) {
                printer::text(&error.render().to_string());
                return Ok(());
            }
            let _ = error.print();
            // restic exits with 1 for wrong usage.
            return Err(CliError::restic(1, ""));
        }
    };
    match restic.command {
        Command::Repository(command) if agent::is_meant(&restic.common) => {
            agent::run(&restic.common, &command)
        }
        Command::Repository(mut command) => {
            command.as_restic();
            runtime::run(repository::run_command(restic.common, command))
        }
        Command::Other(other) => others::run(other, &restic.common),
    }
}

/// In restic `-o` is a setting of the storage; JSON is requested with --json.
pub(crate) fn command() -> clap::Command {
    Restic::command()
        .mut_arg("output", |argument| argument.short(None).hide(true))
        .mut_arg("option", |argument| argument.short('o'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tree_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn dash_o_is_a_setting_of_the_storage() {
        let matches =
            command().try_get_matches_from(["restic", "-o", "s3.region=eu", "-r", "x", "snapshots"]).unwrap();
        let restic = Restic::from_arg_matches(&matches).unwrap();
        assert_eq!(restic.common.option, ["s3.region=eu"]);
    }
}
