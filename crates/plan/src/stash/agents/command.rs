//! The form of an agent's command, with its placeholders and arguments. Pure.

use lifeboat_api::stash::BackupAgentSpec;

use super::line::{LineError, Shape, is_for_a_shell, shape};
use super::own::OwnCommand;
use super::placeholders::{Field, Values};
use super::programs::{program, program_with_arguments, programs, takes_arguments};
use super::{AgentError, Database, Use, arguments, built_in};

/// A BackupAgent.
#[derive(Clone, Copy, Debug)]
pub struct AgentFacts<'a> {
    pub name: &'a str,
    pub spec: &'a BackupAgentSpec,
    /// What `"$@"` is in its commands, if the agent itself says so.
    pub arguments: &'a [String],
}

/// What a command is to do.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub purpose: Use,
    pub database: &'a Database,
    /// More arguments, of the Restic.
    pub args: &'a [String],
    pub values: &'a Values,
    /// The user of the database, if the server knows it.
    pub user: Option<&'a str>,
}

/// A command whose form is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentCommand {
    /// A program and its arguments, without a shell.
    Program { argv: Vec<String> },
    /// The sides of one plain pipeline, each for a shell of its own.
    Pipeline { sides: Vec<CommandLine> },
    /// A line with other operators, for one shell with pipefail.
    Line(CommandLine),
    /// Our own program does it.
    Own(OwnCommand),
}

/// A line for a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// How messages name it.
    pub name: String,
    pub line: String,
    /// The arguments `"$@"`.
    pub arguments: Vec<String>,
}

/// Decides how a command is run.
pub fn command(agent: AgentFacts<'_>, wanted: Wanted<'_>) -> Result<AgentCommand, AgentError> {
    let words = match wanted.purpose {
        Use::Backup => &agent.spec.commands.backup,
        Use::Recovery => &agent.spec.commands.recovery,
    };
    if let Some(sides) = built_in::for_all_databases(agent, wanted) {
        let field = format!("spec.commands.{}", wanted.purpose.field());
        return Deciding { agent, wanted, field: &field }.all_databases(sides);
    }
    let deciding = |field: &str| format!("spec.commands.{}{field}", wanted.purpose.field());
    match words.as_slice() {
        [] => Err(AgentError::NoCommand { agent: agent.name.to_owned(), field: wanted.purpose.field() }),
        [line] if is_for_a_shell(line) => Deciding { agent, wanted, field: &deciding("[0]") }.line(line),
        words if OwnCommand::is_own(words) => Ok(AgentCommand::Own(OwnCommand::parse(words))),
        words => {
            let mut argv = Vec::new();
            for (index, word) in words.iter().enumerate() {
                let field = deciding(&format!("[{index}]"));
                argv.extend(
                    wanted.values.in_argument(Deciding { agent, wanted, field: &field }.place(), word)?,
                );
            }
            Ok(AgentCommand::Program { argv })
        }
    }
}

struct Deciding<'a> {
    agent: AgentFacts<'a>,
    wanted: Wanted<'a>,
    field: &'a str,
}

impl Deciding<'_> {
    fn place(&self) -> Field<'_> {
        Field { agent: self.agent.name, name: self.field, purpose: self.wanted.purpose }
    }

    fn line(&self, text: &str) -> Result<AgentCommand, AgentError> {
        // The shape is that of the agent's own text: a value never adds a side.
        let sides = match self.shape(text)? {
            Shape::Whole => {
                programs(text).try_for_each(|name| self.must_fit(Some(name)))?;
                let name = program_with_arguments(text);
                let arguments = if takes_arguments(text) { self.arguments(name)? } else { Vec::new() };
                let line = self.wanted.values.in_line(self.place(), text)?;
                return Ok(AgentCommand::Line(CommandLine { name: "the line".to_owned(), line, arguments }));
            }
            Shape::Pipeline(sides) => sides,
        };
        let sides = sides.into_iter().enumerate().map(|(number, side)| {
            let name = program(side);
            self.must_fit(name)?;
            let arguments = if takes_arguments(side) { self.arguments(name)? } else { Vec::new() };
            let name = name.map_or_else(|| format!("command {}", number + 1), str::to_owned);
            let line = self.wanted.values.in_line(self.place(), side)?;
            Ok(CommandLine { name, line, arguments })
        });
        Ok(AgentCommand::Pipeline { sides: sides.collect::<Result<_, AgentError>>()? })
    }

    fn shape<'t>(&self, text: &'t str) -> Result<Shape<'t>, AgentError> {
        shape(text).map_err(|error| {
            let (agent, field) = (self.agent.name.to_owned(), self.field.to_owned());
            match error {
                LineError::Unclosed(quote) => AgentError::Unclosed { agent, field, quote },
                LineError::EmptySide => AgentError::EmptySide { agent, field },
            }
        })
    }

    /// What `"$@"` is for a program.
    fn arguments(&self, program: Option<&str>) -> Result<Vec<String>, AgentError> {
        let Wanted { purpose, database, args, values, .. } = self.wanted;
        let mut all = Vec::new();
        if self.agent.arguments.is_empty() {
            all = match purpose {
                Use::Backup => arguments::of_backup(program, database),
                Use::Recovery => arguments::of_recovery(database, self.dump_names_its_databases()),
            };
        }
        for (index, argument) in self.agent.arguments.iter().enumerate() {
            let field = format!("spec.arguments[{index}]");
            let place = Field { name: &field, ..self.place() };
            all.extend(values.in_argument(place, argument)?);
        }
        all.extend(args.iter().cloned());
        Ok(all)
    }

    /// Whether the program of a dump can dump these databases.
    fn must_fit(&self, program: Option<&str>) -> Result<(), AgentError> {
        if self.wanted.purpose != Use::Backup {
            return Ok(());
        }
        let (agent, field) = (self.agent.name.to_owned(), self.field.to_owned());
        match (program, self.wanted.database) {
            (Some("pg_dump"), Database::All) => Err(AgentError::OneDatabase { agent, field }),
            (Some("pg_dumpall"), Database::Named(name)) => {
                Err(AgentError::AllDatabases { agent, field, database: name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Whether a dump by this agent says which databases it is for.
    fn dump_names_its_databases(&self) -> bool {
        let [line] = self.agent.spec.commands.backup.as_slice() else { return false };
        program_with_arguments(line).is_some_and(arguments::names_its_databases)
    }

    /// The sides of a built-in agent for all databases.
    fn all_databases(&self, sides: Vec<CommandLine>) -> Result<AgentCommand, AgentError> {
        let filled = sides.into_iter().map(|side| {
            let line = self.wanted.values.in_line(self.place(), &side.line)?;
            Ok(CommandLine { line, ..side })
        });
        Ok(AgentCommand::Pipeline { sides: filled.collect::<Result<_, AgentError>>()? })
    }
}
