//! Runs other programs: takes a `Command` and returns its output or an error with the program, its arguments and its
//! error output. Every module of xtask starts programs through here. Also small helpers that box and image modules
//! share: cargo's target directory, the processor's name, bytes as text.
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Runs to the end with the terminal attached; a non-zero exit is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// Runs to the end and returns standard output; after a non-zero exit the error contains standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {}", describe(command)))?;
    standard_output(command, &out)
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

/// Cargo's target directory, including CARGO_TARGET_DIR and configuration files.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let metadata = output(cargo().args(["metadata", "--no-deps", "--offline", "--format-version=1"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).context("cannot parse the output of cargo metadata")?;
    let directory =
        metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(directory))
}

/// Runs to the end with `text` as standard input and returns standard output; errors as in [`output`].
pub(crate) fn with_input(command: &mut Command, text: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", describe(command)))?;
    if let Some(mut input) = child.stdin.take() {
        // A program that ends before it has read everything reports the reason itself.
        match input.write_all(text.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                return Err(error).with_context(|| format!("cannot write to {}", describe(command)));
            }
            _ => {}
        }
    }
    let out = child.wait_with_output().with_context(|| format!("cannot wait for {}", describe(command)))?;
    standard_output(command, &out)
}

fn standard_output(command: &Command, out: &Output) -> Result<String> {
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

/// The name of this machine's processor in Go and in image manifests.
pub(crate) fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("images are made for x86_64 and aarch64 only; this machine is {other}"),
    }
}

/// Bytes as hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes everything
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_reaches_the_program_and_its_output_comes_back() {
        assert_eq!(with_input(&mut Command::new("cat"), "two\nlines\n").expect("cat works"), "two\nlines\n");
    }

    #[test]
    fn a_program_that_refuses_its_input_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such rule >&2; exit 3"]);
        let error = with_input(&mut command, &"x".repeat(1 << 20)).expect_err("it fails").to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such rule"), "{error}");
    }

    #[test]
    fn bytes_keep_their_leading_zeros() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
