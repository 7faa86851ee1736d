//! The confirmation before a deletion.

use std::io::{BufRead, IsTerminal, Write};

use crate::error::CliError;

/// Asks on a terminal; otherwise the command needs `--confirm`.
pub(crate) fn ask(question: &str) -> Result<(), CliError> {
    let refusal = || {
        CliError::refused("not confirmed; nothing was deleted")
            .help("pass --confirm to delete without a question")
    };
    if !std::io::stdin().is_terminal() {
        return Err(refusal());
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CliError::failed("cannot read the answer", error))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(refusal()) }
}

/// `backup a`, `3 backups: a, b, c`.
pub(crate) fn listing(one: &str, many: &str, names: &[String]) -> String {
    match names {
        [name] => format!("{one} {name}"),
        names => format!("{} {many}: {}", names.len(), names.join(", ")),
    }
}
