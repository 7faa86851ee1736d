//! `restic` in the commands of an agent. The repository there is a name ([`AGENT_REPOSITORY`]) without an address: this
//! program hands its standard input or output to the mover that runs the commands, and waits for the answer. It opens
//! nothing, holds no lock and needs no password.

use std::io::ErrorKind;
use std::path::PathBuf;

use lifeboat_mover::agent::{Answer, Request, ask};
use lifeboat_mover::task::{AGENT_REPOSITORY, AGENT_SOCKET};

use crate::commands::repository::{Command, CommonArgs};
use crate::error::CliError;
use crate::{printer, units};

/// Whether the arguments or the environment name the repository of an agent.
pub(super) fn is_meant(common: &CommonArgs) -> bool {
    let given = common.repo.clone().or_else(|| std::env::var("RESTIC_REPOSITORY").ok());
    given.as_deref() == Some(AGENT_REPOSITORY)
}

/// Carries out the command through the mover.
pub(super) fn run(common: &CommonArgs, command: &Command) -> Result<(), CliError> {
    let request = request(command)?;
    let Some(socket) = std::env::var_os(AGENT_SOCKET).filter(|socket| !socket.is_empty()) else {
        return Err(CliError::restic(1, format!("the repository '{AGENT_REPOSITORY}' is known only to a mover")).help(
            format!("it is what {{{{RepoName}}}} stands for in the commands of a BackupAgent; {AGENT_SOCKET} is not set here"),
        ));
    };
    let file = match request {
        Request::Backup => rustix::stdio::stdin(),
        Request::Restore { .. } => rustix::stdio::stdout(),
    };
    let answer = ask(&PathBuf::from(socket), &request, file).map_err(|error| {
        let is_gone = matches!(
            error.kind(),
            ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::NotFound
        );
        let problem = if is_gone { "the mover ended the run".to_owned() } else { error.to_string() };
        CliError::restic(1, format!("`{}` failed: {problem}", request.command()))
            .help("the mover's result has the reason")
    })?;
    match answer {
        Answer::Done { bytes } => {
            if request == Request::Backup && !common.quiet {
                printer::line(&format!(
                    "snapshot of {} prepared; it is saved when all commands have succeeded",
                    units::bytes(bytes)
                ));
            }
            Ok(())
        }
        Answer::Refused { message } => Err(CliError::restic(1, message)),
    }
}

/// What the mover has to do; refuses what only a repository could answer.
fn request(command: &Command) -> Result<Request, CliError> {
    match command {
        Command::Backup(args) => {
            args.must_be_of_an_agent()?;
            Ok(Request::Backup)
        }
        Command::Restore(args) => Ok(Request::Restore { snapshot: args.snapshot_for_an_agent()? }),
        _ => Err(CliError::restic(1, "the repository of an agent supports only `backup` and `restore`")
            .help("the server does everything else: retention, maintenance and checks")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::restic::{Command as Parsed, Restic};

    fn asked(arguments: &str) -> Result<Request, String> {
        let arguments = format!("restic -r lifeboat:task {arguments}");
        let restic = Restic::try_parse_from(arguments.split(' ')).unwrap();
        assert!(is_meant(&restic.common));
        let Parsed::Repository(command) = restic.command else { panic!() };
        request(&command).map_err(|error| error.to_string())
    }

    #[rstest::rstest]
    #[case("backup", Request::Backup)]
    #[case("backup --stdin", Request::Backup)]
    #[case("restore", Request::Restore { snapshot: None })]
    #[case("restore latest", Request::Restore { snapshot: Some("latest".to_owned()) })]
    #[case("restore 0123abcd", Request::Restore { snapshot: Some("0123abcd".to_owned()) })]
    fn a_stream_is_handed_to_the_mover(#[case] arguments: &str, #[case] expected: Request) {
        assert_eq!(asked(arguments).unwrap(), expected);
    }

    #[rstest::rstest]
    #[case("backup /data", "paths")]
    #[case("backup --stdin-from-command -- true", "--stdin-from-command")]
    #[case("backup --stdin --tag a", "--tag")]
    #[case("backup --stdin --stdin-filename x.sql", "--stdin-filename")]
    #[case("backup --host x", "--host")]
    #[case("restore --target /data", "--target")]
    #[case("restore latest:/data", "folder")]
    #[case("snapshots", "only `backup` and `restore`")]
    fn what_the_server_decides_is_refused(#[case] arguments: &str, #[case] expected: &str) {
        let error = asked(arguments).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
