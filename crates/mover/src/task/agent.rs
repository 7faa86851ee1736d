//! The commands of a BackupAgent, as a mover runs them in the agent's image. Which of the three forms a command has, and its
//! arguments, were decided by the server.

use serde::{Deserialize, Serialize};

/// The name of the task's repository in the commands: no address, because only the program `restic` that the mover puts
/// first in PATH knows it.
pub const AGENT_REPOSITORY: &str = "lifeboat:task";
/// The environment variable of the commands with the socket on which that program reaches the mover.
pub const AGENT_SOCKET: &str = "LIFEBOAT_AGENT_SOCKET";
/// The most sides of a pipeline.
pub const MOST_SIDES: usize = 32;

/// One run of an agent's commands: a backup or a recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRun {
    pub command: AgentCommand,
    /// The names of environment variables whose values are secret: what the commands print is shown and logged without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

/// How a command is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum AgentCommand {
    /// A program and its arguments, without a shell.
    Program { argv: Vec<String> },
    /// The sides of one plain pipeline, from left to right. Each has a shell of its own, so that every exit code is known.
    Pipeline { sides: Vec<AgentLine> },
    /// A line with other operators than `|`: one shell runs it with pipefail, which it must have.
    Line(AgentLine),
}

/// A line for a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentLine {
    /// How messages name it, for example `mysqldump`.
    pub name: String,
    pub line: String,
    /// The arguments `"$@"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}
