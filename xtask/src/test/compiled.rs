//! The one compile of a test run: every program and every test of the workspace, with all features, linked as in an
//! image and checked by clippy. Returns the executables; the parts run those they need. One `cargo test` for each part
//! would compile the same crates again for each selection of packages and features.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{image, run};

/// `-D warnings`, in the form in which `cargo clippy` passes arguments to its driver.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// The compiled executables.
pub(crate) struct Compiled {
    executables: Vec<Executable>,
    /// Clippy found nothing.
    pub(crate) clean: bool,
}

/// A file that can be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// The directory of its package in the checkout, such as `crates/store`.
    pub(crate) package: String,
    pub(crate) path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Tests inside a library or a program.
    UnitTests,
    /// Tests in a package's directory `tests`.
    Tests,
    Program,
    Example,
}

impl Compiled {
    /// Compiles. If only clippy fails, compiles again without it, so that the tests can be run nevertheless.
    pub(crate) fn make() -> Result<Self> {
        let start = Instant::now();
        println!("compiling programs and tests");
        let first = compile(&mut command(true)?);
        let clean = first.is_ok();
        let executables = first.or_else(|error| {
            eprintln!("{error:#}; again, with warnings allowed");
            compile(&mut command(false)?)
        })?;
        println!("compiled in {} s", start.elapsed().as_secs());
        Ok(Self { executables, clean })
    }

    /// The executable of the tests in one package's directory `tests`.
    pub(crate) fn tests(&self, package: &str) -> Result<&Executable> {
        self.find(Kind::Tests, |each| each.package == package)
            .with_context(|| format!("{package} has no directory of tests"))
    }

    /// All executables with tests, package by package.
    pub(crate) fn all_tests(&self) -> impl Iterator<Item = &Executable> {
        self.executables.iter().filter(|each| matches!(each.kind, Kind::UnitTests | Kind::Tests))
    }

    /// A program of the workspace.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let found = self.find(Kind::Program, |each| each.name == name);
        Ok(found.with_context(|| format!("no program is named {name:?}"))?.path.clone())
    }

    /// An example of the workspace.
    pub(crate) fn example(&self, name: &str) -> Result<PathBuf> {
        let found = self.find(Kind::Example, |each| each.name == name);
        Ok(found.with_context(|| format!("no example is named {name:?}"))?.path.clone())
    }

    fn find(&self, kind: Kind, wanted: impl Fn(&Executable) -> bool) -> Option<&Executable> {
        self.executables.iter().find(|each| each.kind == kind && wanted(each))
    }
}

/// `cargo test` for the whole workspace, with everything that determines what is compiled: another command that shares
/// the result (`--doc`) begins in the same way.
pub(crate) fn command(deny_warnings: bool) -> Result<Command> {
    let mut command = run::cargo();
    command.args(["test", "--quiet", "--workspace", "--all-features"]);
    image::link_statically(&mut command, image::Profile::Fast)?;
    // Clippy's driver is a compiler that checks the code first, so nothing is compiled twice.
    let sysroot =
        run::output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(run::checkout()))?;
    command.env("RUSTC_WORKSPACE_WRAPPER", Path::new(sysroot.trim()).join("bin/clippy-driver"));
    command.env("CLIPPY_ARGS", if deny_warnings { DENY_WARNINGS } else { "" });
    Ok(command)
}

fn compile(command: &mut Command) -> Result<Vec<Executable>> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", run::describe(command)))?;
    let messages = child.stdout.take().context("standard output was asked for")?;
    let mut executables = Vec::new();
    for line in BufReader::new(messages).lines() {
        executables.extend(executable(&line?));
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} ended with {status}", run::describe(command));
    }
    executables.sort_by(|a, b| (&a.package, &a.name).cmp(&(&b.package, &b.name)));
    Ok(executables)
}

/// The executable in a message of cargo.
fn executable(message: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    let target = &message["target"];
    let of_kind =
        |kind: &str| target["kind"].as_array().is_some_and(|all| all.iter().any(|each| each == kind));
    let kind = match message["profile"]["test"].as_bool()? {
        true if of_kind("test") => Kind::Tests,
        true => Kind::UnitTests,
        false if of_kind("example") => Kind::Example,
        false if of_kind("bin") => Kind::Program,
        false => return None,
    };
    let manifest = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = manifest.strip_prefix(run::checkout()).ok()?.display().to_string();
    Some(Executable { kind, name: target["name"].as_str()?.to_owned(), package, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, test: bool) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": run::checkout().join("crates/store/Cargo.toml"),
            "target": {"kind": [kind], "name": "it"},
            "profile": {"test": test},
            "executable": "/target/it-1",
        })
        .to_string()
    }

    #[test]
    fn an_executable_is_known_by_its_package_and_kind() {
        let found = executable(&message("test", true)).expect("an executable");
        let (name, package) = ("it".to_owned(), "crates/store".to_owned());
        assert_eq!(found, Executable { kind: Kind::Tests, name, package, path: "/target/it-1".into() });
        let kind = |of, test| executable(&message(of, test)).map(|each| each.kind);
        assert_eq!(kind("lib", true), Some(Kind::UnitTests));
        assert_eq!(kind("bin", true), Some(Kind::UnitTests));
        assert_eq!(kind("bin", false), Some(Kind::Program));
        assert_eq!(kind("example", false), Some(Kind::Example));
    }

    #[test]
    fn other_messages_are_passed_over() {
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(executable(&message("custom-build", false)), None);
        assert_eq!(executable("Compiling lifeboat"), None);
    }
}
