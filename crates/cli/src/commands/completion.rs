//! `lifeboat completion SHELL`: prints the shell's completion script.

use clap_complete::{Shell, generate};

use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell to complete in
    shell: Shell,
}

#[allow(clippy::unnecessary_wraps)] // every command has this shape
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    generate(args.shell, &mut super::command(), "lifeboat", &mut std::io::stdout());
    Ok(())
}
