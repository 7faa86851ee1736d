//! The async runtime of one invocation. Called by `main` and by the command line of restic.

use crate::error::CliError;

/// Runs a command to its end. What still blocks then (a read from a pipe that nobody writes to) is not waited for.
pub(crate) fn run(command: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::failed("cannot start", source))?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    lifeboat_store::abandon_unfinished();
    outcome
}
