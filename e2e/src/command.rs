//! Runs programs. The method that runs them states what the test expects: success or failure.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    input: Option<String>,
    limit: Option<Duration>,
}

/// The output of a program.
#[derive(Clone, Debug)]
pub struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    pub fn new(program: &str) -> Self {
        Self {
            name: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            input: None,
            limit: None,
        }
    }

    /// It is killed if it takes longer, so that a program that hangs fails its test and does not stop the run.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    #[must_use]
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    #[must_use]
    pub fn args<'a>(
        mut self,
        arguments: impl IntoIterator<Item = &'a (impl AsRef<str> + ?Sized + 'a)>,
    ) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn input(mut self, text: &str) -> Self {
        self.input = Some(text.to_owned());
        self
    }

    /// Runs it, with any result.
    pub fn run(&self) -> Output {
        let mut child = Command::new(&self.name)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.name));
        if let (Some(text), Some(mut input)) = (&self.input, child.stdin.take()) {
            input.write_all(text.as_bytes()).unwrap();
        }
        let (ended, end) = channel::<()>();
        if let (Some(limit), Some(pid)) = (self.limit, pid(child.id())) {
            let shown = self.to_string();
            thread::spawn(move || {
                if end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    eprintln!("{shown} is killed: it did not end within {} s", limit.as_secs());
                    // It may have ended just now.
                    let _ = kill_process(pid, Signal::KILL);
                }
            });
        }
        let output = child.wait_with_output().unwrap();
        drop(ended);
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs it; it must succeed. Returns standard output.
    pub fn ok(&self) -> String {
        let output = self.run();
        assert!(
            output.code == 0,
            "{self} failed with {}:\n{}\n{}",
            output.code,
            output.stdout,
            output.stderr
        );
        output.stdout
    }

    /// Runs it; it must fail. Returns all its output.
    pub fn refused(&self) -> String {
        let output = self.run();
        assert!(output.code != 0, "{self} should have failed:\n{}", output.stdout);
        format!("{}{}", output.stdout, output.stderr)
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.arguments.join(" "))
    }
}
