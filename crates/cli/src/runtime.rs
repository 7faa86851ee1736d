//! The async runtime of one invocation. Called by `main` and by `restic`.

use crate::error::CliError;

/// Runs a command to its end. Blocking calls that are still running then (such as a read from an idle pipe) are not
/// waited for.
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
