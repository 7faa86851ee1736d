//! A test bench: a repository in a temporary directory, and commands that work on it.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory with a repository `repo`, the data `data`, and the program under both of its names.
pub(crate) struct Bench {
    directory: TempDir,
}

impl Bench {
    /// A bench with a new repository.
    pub(crate) fn new() -> Self {
        let bench = Self::without_repository();
        let output = bench.lifeboat(["init"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        bench
    }

    pub(crate) fn without_repository() -> Self {
        let directory = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_lifeboat"), directory.path().join("restic")).unwrap();
        std::fs::create_dir(directory.path().join("data")).unwrap();
        std::fs::write(directory.path().join("data/file"), "content").unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `lifeboat repository ARGUMENTS`
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.program(Path::new(env!("CARGO_BIN_EXE_lifeboat")));
        command.arg("repository").args(arguments);
        command
    }

    /// `restic ARGUMENTS`: the same program under the name `restic`.
    pub(crate) fn restic_command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.program(&self.path("restic"));
        command.args(arguments);
        command
    }

    fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if ["RESTIC_", "LIFEBOAT_", "AWS_", "KUBE"].iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command
            .env("RESTIC_REPOSITORY", self.path("repo"))
            .env("RESTIC_PASSWORD", "a password")
            .env("HOME", self.directory.path())
            .env("XDG_CACHE_HOME", self.path("cache"))
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn lifeboat<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn restic<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.restic_command(arguments).output().unwrap()
    }

    /// The snapshots, oldest first.
    pub(crate) fn snapshots(&self) -> Vec<Value> {
        let output = self.lifeboat(["snapshots", "--json"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The number of locks in the repository.
    pub(crate) fn locks(&self) -> usize {
        std::fs::read_dir(self.path("repo/locks")).map_or(0, Iterator::count)
    }
}

/// Runs a command with `input` on its standard input, through a pipe.
pub(crate) fn with_input(command: &mut Command, input: &[u8]) -> Output {
    let mut child = piped(command);
    // A program that refuses its arguments does not read its input; only its output is checked.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

pub(crate) fn piped(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The messages of a command with --json.
pub(crate) fn messages(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
