//! Agents: the image and the commands that a BackupAgent names, and how a mover runs them. Takes the spec of an agent and what
//! a Restic or Recovery says; gives a command whose form is decided ([`AgentCommand`]), its environment, and warnings. The
//! mover's side is `run/agent.rs` of crate `mover`.
//!
//! - [`command`]: form, placeholders and arguments of a command.
//! - [`Connection::of_url`]: a connection URL as host, port and database; [`Connection::env`] as `DB_*` variables.
//! - [`default_agents`]: the agents that exist after an installation.
//! - [`OwnCommand`]: the arguments of the agent `stash`, which our program carries out.

mod arguments;
mod built_in;
mod command;
mod connection;
mod line;
mod own;
mod placeholders;
mod programs;
#[cfg(test)]
mod tests;

pub use arguments::Database;
pub use built_in::{DefaultAgent, DefaultImages, default_agents};
pub use command::{AgentCommand, AgentFacts, CommandLine, Wanted, command};
pub use connection::Connection;
pub use own::{OwnCommand, OwnNames};
pub use placeholders::Values;

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Backup,
    Recovery,
}

impl Use {
    /// The field of `spec.commands`.
    pub fn field(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Recovery => "recovery",
        }
    }
}

/// Why an agent cannot be used. The message names agent, field and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    #[error("BackupAgent {agent}: spec.commands.{field} is empty; write the command, or use another agent")]
    NoCommand { agent: String, field: &'static str },
    #[error(
        "BackupAgent {agent}: {field}: {{{{{name}}}}} is unknown; expected {{{{RepoName}}}}, {{{{RepoDir}}}}, {{{{Host}}}}, \
         {{{{Snapshot}}}} or {{{{Paths}}}}"
    )]
    UnknownPlaceholder { agent: String, field: String, name: String },
    #[error("BackupAgent {agent}: {field}: \"{{{{\" is not closed; write \"}}}}\" after the name")]
    UnclosedPlaceholder { agent: String, field: String },
    #[error("BackupAgent {agent}: {field}: {{{{{name}}}}} has no value in a {purpose}; remove it")]
    NoValue { agent: String, field: String, name: String, purpose: &'static str },
    #[error(
        "BackupAgent {agent}: {field}: the value of {{{{{name}}}}} has blanks or shell signs; write the placeholder outside of quotes \
         and here-documents, and it is quoted for you"
    )]
    Quoted { agent: String, field: String, name: String },
    #[error("BackupAgent {agent}: {field}: {quote} is not closed; close it")]
    Unclosed { agent: String, field: String, quote: &'static str },
    #[error(
        "BackupAgent {agent}: {field}: no command stands on one side of a \"|\"; write one, or remove it"
    )]
    EmptySide { agent: String, field: String },
    #[error(
        "BackupAgent {agent}: {field} runs pg_dump, which dumps one database, and database is \"all\"; write pg_dumpall, or \
         name a database"
    )]
    OneDatabase { agent: String, field: String },
    #[error(
        "BackupAgent {agent}: {field} runs pg_dumpall, which dumps all databases, and database is {database:?}; write \
         pg_dump, or set database to \"all\""
    )]
    AllDatabases { agent: String, field: String, database: String },
    #[error("connectionURL.url {url:?} is no address ({problem}); write it like mysql.example.com:3306")]
    Url { url: String, problem: String },
    #[error(
        "connectionURL.url has a user or a password; put them into a Secret and name it in connectionURL.credentials"
    )]
    Userinfo,
    #[error("database {name:?} is no name of a database; expected text that does not begin with \"-\"")]
    DatabaseName { name: String },
}
