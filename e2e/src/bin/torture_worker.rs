//! The process of the kill harness that runs one operation: takes a task as JSON in its only argument.
#![allow(clippy::print_stderr)] // errors are for the harness's log

use std::process::ExitCode;

use lifeboat_e2e::torture;

#[tokio::main]
async fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let outcome = match serde_json::from_str(&argument) {
        Ok(task) => torture::work(&task).await,
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
