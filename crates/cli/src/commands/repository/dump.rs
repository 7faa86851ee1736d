//! `dump`: a file of a snapshot, or a folder as an archive, to standard output or into a file.

use super::select::FilterArgs;
use super::session::Session;
use crate::error::CliError;
use lifeboat_repository::snapshots::Selection;

pub(crate) async fn stream(session: &Session, selection: Option<&Selection>, filter: &FilterArgs) -> Result<(), CliError> {
    let _ = (session, selection, filter);
    Ok(())
}
