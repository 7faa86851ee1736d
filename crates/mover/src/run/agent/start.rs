//! Starts the commands of an agent: which processes, with which environment and pipes.

use std::io;
use std::process::{Command, Stdio};

use super::Surroundings;
use super::door::Door;
use super::messages::{NO_PIPEFAIL, NO_SHELL};
use super::sides::{Side, Streams};
use crate::report::{Cause, Failure};
use crate::run::secrets::Secrets;
use crate::task::{AGENT_SOCKET, AgentCommand, AgentLine, AgentRun, MOST_SIDES};

const SHELL: &str = "sh";
/// PATH where the environment has none.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Variables whose names begin with one of these words and `_` are for repositories, their passwords and our own settings: not
/// for the commands.
const OURS: [&str; 2] = ["RESTIC", "LIFEBOAT"];
/// What a shell does before a line with several commands: the failure of any of them is that of the line.
const STRICT: &str = "set -eo pipefail";

/// Starts all sides.
pub(super) struct Starting<'a> {
    pub(super) surroundings: &'a Surroundings,
    pub(super) door: &'a Door,
    /// Whether the commands are a source or a target.
    pub(super) cause: Cause,
    pub(super) secrets: Secrets,
}

/// The values of the variables that the task calls secret.
pub(super) fn secrets(run: &AgentRun, surroundings: &Surroundings) -> Secrets {
    let is_secret = |name: &String| run.secrets.contains(name);
    let values = surroundings.variables.iter().filter(|(name, _)| is_secret(name));
    Secrets::of(values.map(|(_, value)| value.clone()))
}

impl Starting<'_> {
    pub(super) fn start(&self, command: &AgentCommand) -> Result<Vec<Side>, Failure> {
        match command {
            AgentCommand::Program { argv } => {
                let Some((program, arguments)) = argv.split_first() else {
                    return Err(self.invalid("argv: it is empty; expected a program and its arguments"));
                };
                let mut command = self.command(program);
                command.args(arguments);
                let side = Side::start(program, command, Streams::default(), &self.secrets);
                Ok(vec![side.map_err(|error| self.not_started(program, &error))?])
            }
            AgentCommand::Pipeline { sides } => self.pipeline(sides),
            AgentCommand::Line(line) => {
                self.must_have_pipefail()?;
                let strict = AgentLine { line: format!("{STRICT}\n{}", line.line), ..line.clone() };
                Ok(vec![self.side(&strict, Streams::default())?])
            }
        }
    }

    fn pipeline(&self, lines: &[AgentLine]) -> Result<Vec<Side>, Failure> {
        if lines.is_empty() || lines.len() > MOST_SIDES {
            let found = lines.len();
            return Err(self.invalid(&format!("sides: expected 1 to {MOST_SIDES}, but there are {found}")));
        }
        let (mut sides, mut input) = (Vec::new(), None);
        for (number, line) in lines.iter().enumerate() {
            let (next, output) = if number + 1 < lines.len() {
                let (next, output) = io::pipe().map_err(|error| self.not_started("a pipe", &error))?;
                (Some(next), Some(output))
            } else {
                (None, None)
            };
            sides.push(self.side(line, Streams { input, output })?);
            input = next;
        }
        Ok(sides)
    }

    fn side(&self, line: &AgentLine, streams: Streams) -> Result<Side, Failure> {
        let mut command = self.command(SHELL);
        command.arg("-c").arg(&line.line).arg(SHELL).args(&line.arguments);
        let started = Side::start(&line.name, command, streams, &self.secrets);
        started.map_err(|error| self.no_shell(&error))
    }

    /// A program with the environment of the commands.
    fn command(&self, program: &str) -> Command {
        let variables = &self.surroundings.variables;
        let is_ours = |name: &str| name.split_once('_').is_some_and(|(first, _)| OURS.contains(&first));
        let kept = variables.iter().filter(|(name, _)| !is_ours(name));
        let mut command = Command::new(program);
        command.env_clear().envs(kept.map(|(name, value)| (name, value)));
        let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
        let path = path.filter(|path| !path.is_empty()).unwrap_or(USUAL_PATH);
        let mut own = self.door.directory().as_os_str().to_owned();
        own.push(":");
        own.push(path);
        command.env("PATH", own).env(AGENT_SOCKET, self.door.socket());
        command
    }

    fn must_have_pipefail(&self) -> Result<(), Failure> {
        let mut command = self.command(SHELL);
        command.args(["-c", STRICT]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(self.failure(NO_PIPEFAIL.to_owned())),
            Err(error) => Err(self.no_shell(&error)),
        }
    }

    fn no_shell(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::NotFound => self.failure(NO_SHELL.to_owned()),
            _ => self.not_started(SHELL, error),
        }
    }

    fn not_started(&self, program: &str, error: &io::Error) -> Failure {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let hint = if is_missing { "; is it in the agent's image?" } else { "" };
        self.failure(format!("cannot start '{program}': {error}{hint}"))
    }

    fn failure(&self, message: String) -> Failure {
        Failure { cause: self.cause, message }
    }

    fn invalid(&self, problem: &str) -> Failure {
        let side = if self.cause == Cause::Target { "target" } else { "source" };
        Failure { cause: Cause::Task, message: format!("{side}.run.command.{problem}") }
    }
}
