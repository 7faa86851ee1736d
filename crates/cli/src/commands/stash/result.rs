//! What a command changed, as it is printed: a sentence for people, or the object with `-o`.

use serde::Serialize;
use serde_json::Value;

use crate::args::Format;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args, Clone, Copy, Default)]
pub(super) struct ResultArg {
    /// Print the object that was created, changed or followed, and not a sentence
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

/// What was done, and the object as it is then.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) object: Value,
    pub(super) sentence: String,
}

impl ResultArg {
    /// Whether the object is printed.
    pub(super) fn is_object(self) -> bool {
        self.output.is_some()
    }

    /// The flag of a subcommand, or else that of the command above it.
    pub(super) fn or(self, above: Self) -> Self {
        Self { output: self.output.or(above.output) }
    }

    pub(super) fn print(self, object: &impl Serialize, sentence: &str) -> Result<(), CliError> {
        if let Some(format) = self.output {
            return printer::object(object, format);
        }
        printer::line(sentence);
        Ok(())
    }
}
