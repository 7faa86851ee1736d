//! Reads the password from a file, a command, the environment, or a prompt on the terminal without echo.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use secrecy::{ExposeSecret, SecretString};

use super::settings::PasswordSource;
use crate::error::CliError;

/// How often the password is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Once,
    /// For a new password: with a typing error its owner would be locked out.
    Twice,
}

/// The password. Blocks while it is asked for or a command runs.
pub(crate) fn read(source: &PasswordSource, prompt: &str, ask: Ask) -> Result<SecretString, CliError> {
    match source {
        PasswordSource::Empty => Ok(SecretString::from("")),
        PasswordSource::Given(password) => Ok(password.clone()),
        PasswordSource::File(file) => of_file(file),
        PasswordSource::Command(command) => of_command(command),
        PasswordSource::Question => question(prompt, ask),
    }
}

/// As in restic, white space around the password (mostly the line break at the end) is removed.
pub(crate) fn of_file(file: &Path) -> Result<SecretString, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        CliError::failed(format!("cannot read the password file '{}'", file.display()), error)
    })?;
    let text = text.trim_start_matches('\u{feff}').trim();
    not_empty(SecretString::from(text), &format!("the password file '{}' is empty", file.display()))
}

fn of_command(command: &str) -> Result<SecretString, CliError> {
    let parts = split(command).ok_or_else(|| {
        CliError::usage(format!("the password command '{command}' is empty or has an open quote"))
    })?;
    let failed = || format!("cannot get a password from '{}'", parts[0]);
    let output = Command::new(&parts[0])
        .args(&parts[1..])
        .stdin(Stdio::inherit())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| CliError::failed(failed(), error))?;
    if !output.status.success() {
        return Err(CliError::failed(failed(), format!("it ended with {}", output.status)));
    }
    let text = String::from_utf8(output.stdout).map_err(|error| CliError::failed(failed(), error))?;
    not_empty(SecretString::from(text.trim()), &format!("'{}' printed no password", parts[0]))
}

fn question(prompt: &str, ask: Ask) -> Result<SecretString, CliError> {
    let missing = || {
        CliError::usage("there is no password")
            .help("give one with --password-file or RESTIC_PASSWORD; on a terminal you are asked for it")
    };
    if !std::io::stdin().is_terminal() {
        return Err(missing());
    }
    let first = not_empty(line_without_echo(&format!("enter {prompt}: "))?, "the password is empty")?;
    if ask == Ask::Twice {
        let again = line_without_echo(&format!("enter {prompt} again: "))?;
        if first.expose_secret() != again.expose_secret() {
            return Err(CliError::usage("the two passwords differ").help("nothing was done; try again"));
        }
    }
    Ok(first)
}

fn line_without_echo(prompt: &str) -> Result<SecretString, CliError> {
    let failed =
        |error: std::io::Error| CliError::failed("cannot read the password from the terminal", error);
    let input = std::io::stdin();
    let before = tcgetattr(&input).map_err(|error| failed(error.into()))?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&input, OptionalActions::Flush, &silent).map_err(|error| failed(error.into()))?;
    eprint!("{prompt}");
    let _ = std::io::stderr().flush();
    let mut line = String::new();
    let read = input.read_line(&mut line);
    let _ = tcsetattr(&input, OptionalActions::Flush, &before);
    message!();
    read.map_err(failed)?;
    Ok(SecretString::from(line.trim_end_matches(['\n', '\r'])))
}

fn not_empty(password: SecretString, problem: &str) -> Result<SecretString, CliError> {
    if password.expose_secret().is_empty() {
        return Err(
            CliError::usage(problem).help("for a repository without a password, use --insecure-no-password")
        );
    }
    Ok(password)
}

/// Splits a command like a shell: quotes keep text together, a backslash escapes the next character.
pub(crate) fn split(command: &str) -> Option<Vec<String>> {
    let (mut parts, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(characters.next()?),
            (None, blank) if blank.is_whitespace() => parts.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    parts.extend(word);
    (quote.is_none() && !parts.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_would() {
        let parts = |text| split(text).unwrap_or_default();
        assert_eq!(parts("pass show  backup"), ["pass", "show", "backup"]);
        assert_eq!(parts(r#"sh -c 'echo "a b"'"#), ["sh", "-c", r#"echo "a b""#]);
        assert_eq!(parts(r#"a\ b "c\"d" ''"#), ["a b", "c\"d", ""]);
        for wrong in ["", "  ", "'open", "back\\"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_password_file_may_end_in_a_line_break_but_must_not_be_empty() {
        let error = of_file(Path::new("/nonexistent/password")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/password"));
        assert!(of_file(Path::new("/dev/null")).unwrap_err().to_string().contains("empty"));
    }
}
