//! `lifeboat restore-wait UID`: runs as the init container of a restored pod and ends when every volume has its data.

use std::path::PathBuf;

use lifeboat_mover::wait::{VOLUMES, wait};

use super::server::stop_on_signal;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// UID of the restore
    #[arg(value_name = "UID", value_parser = file_name)]
    uid: String,
    /// Directory whose subdirectories are the volumes
    #[arg(long, value_name = "DIRECTORY", default_value = VOLUMES)]
    directory: PathBuf,
}

pub(crate) async fn run(args: Args) -> Result<(), CliError> {
    let stop = stop_on_signal()?;
    let mut say = |line: &str| printer::line(line);
    match wait(&args.directory, &args.uid, &mut say, &stop).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(CliError::ended("stopped before all volumes were restored")),
        Err(error) => {
            let message = format!("cannot read the volumes in '{}'", args.directory.display());
            Err(CliError::failed(message, error)
                .help("the pod needs its volumes mounted below this directory"))
        }
    }
}

fn file_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains('/') || text == "." || text == ".." {
        return Err("expected the UID of a restore".to_owned());
    }
    Ok(text.to_owned())
}
