//! The programs that write and read repositories in restic's format, with one command line: ours and genuine ones.
//! Tests of the repository let each read what another wrote.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Output, Program, variable};

/// The program to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Lifeboat,
    /// The version whose format we write.
    Restic,
    /// The version that Debian 12 ships.
    Restic014,
}

/// A repository and everything that is needed to open it.
pub struct Repository {
    /// In restic's notation: a directory or a URL.
    pub url: String,
    /// Password and caches; deleted with this value.
    home: TempDir,
}

impl Repository {
    /// A repository at a URL; nothing is created yet.
    pub fn at(url: impl Into<String>) -> Self {
        Self::with_password(url, "correct horse")
    }

    /// A repository that was created with this password.
    pub fn with_password(url: impl Into<String>, password: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("password"), password).unwrap();
        Self { url: url.into(), home }
    }

    /// A repository in a directory that does not exist yet.
    pub fn local(directory: &Path) -> Self {
        Self::at(directory.to_str().unwrap())
    }

    /// A command of restic's command line, with repository and password in the environment as restic names them.
    pub fn program(&self, engine: Engine, arguments: &[&str]) -> Program {
        let program = match engine {
            Engine::Lifeboat => Program::new(&variable("LIFEBOAT_BIN")).arg("repository"),
            Engine::Restic => Program::new(&variable("LIFEBOAT_RESTIC")),
            Engine::Restic014 => Program::new(&variable("LIFEBOAT_RESTIC_014")),
        };
        program
            .env("RESTIC_REPOSITORY", &self.url)
            .env("RESTIC_PASSWORD_FILE", self.home("password").to_str().unwrap())
            .env("RESTIC_CACHE_DIR", self.home(&format!("cache-{engine:?}")).to_str().unwrap())
            .args(arguments)
    }

    /// Runs a command that must succeed; returns its standard output.
    pub fn ok(&self, engine: Engine, arguments: &[&str]) -> String {
        self.program(engine, arguments).ok()
    }

    /// Runs a command, with any result.
    pub fn run(&self, engine: Engine, arguments: &[&str]) -> Output {
        self.program(engine, arguments).run()
    }

    /// Backs up a directory; returns the id of the snapshot that the program reports.
    pub fn backup(&self, engine: Engine, source: &Path, flags: &[&str]) -> String {
        let text = self.ok(engine, &[&["backup", "--json", source.to_str().unwrap()], flags].concat());
        let lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut ids = lines.filter_map(|line| Some(line["snapshot_id"].as_str()?.to_owned()));
        ids.next().unwrap_or_else(|| panic!("{engine:?} reported no snapshot: {text}"))
    }

    /// Restores a snapshot below `target`; returns the directory that `source` became.
    pub fn restore(&self, engine: Engine, snapshot: &str, source: &Path, target: &Path) -> PathBuf {
        self.ok(engine, &["restore", snapshot, "--target", target.to_str().unwrap()]);
        target.join(source.strip_prefix("/").unwrap())
    }

    /// Genuine restic reads all data and finds no error.
    pub fn assert_sound(&self) {
        self.ok(Engine::Restic, &["check", "--read-data"]);
    }

    fn home(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}
