//! Running other programs: takes a `Command`, gives its output or an error that names the program, its
//! arguments and what it said. Every module of xtask starts programs through here.
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs to the end with the terminal attached; a non-zero exit is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// Runs to the end and gives standard output; on a non-zero exit the error carries standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {}", describe(command)))?;
    if !out.status.success() {
        bail!(
            "{} ended with {}: {}",
            describe(command),
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The command line as a person would type it.
pub(crate) fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The root of this checkout.
pub(crate) fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(checkout());
    command
}

/// Runs to the end with `text` as standard input; a non-zero exit is an error.
pub(crate) fn with_input(command: &mut Command, text: &str) -> Result<()> {
    use std::io::Write;
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", describe(command)))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes()).with_context(|| format!("cannot write to {}", describe(command)))?;
    }
    let status = child.wait().with_context(|| format!("cannot wait for {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}
