//! Servers as processes on this machine, connected to the box and its storage: genuine Velero's, and Lifeboat's own
//! beside the installed one. Each has a namespace (a [`Home`]) with an available location. The interop tests, `bench
//! cluster` and `bench volumes` run them. Both use the kinds that Lifeboat installs.

mod home;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::{run, tools};
pub(crate) use home::{Home, Kubectl};

/// Velero has no flag for this port.
const CONTROLLER_METRICS: u16 = 8080;
/// How long the location may take to become available.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A running server; it is killed when dropped, and its namespace stays.
pub(crate) struct Server {
    child: Child,
    directory: TempDir,
}

/// Starts Velero's server with its defaults, except for `flags` and the addresses it listens on, with its plugin for S3
/// and those in `more`. `environment` is that of the box.
pub(crate) fn velero(
    environment: &BTreeMap<String, String>,
    home: &Home,
    flags: &[&str],
    more: &[PathBuf],
) -> Result<Server> {
    TcpListener::bind(("0.0.0.0", CONTROLLER_METRICS)).with_context(|| {
        format!("Velero's server needs port {CONTROLLER_METRICS}; end the program that uses it")
    })?;
    let program = tools::velero()?;
    let directory = TempDir::with_prefix("lifeboat-velero-").context("cannot create a directory")?;
    let store = tools::velero_plugins()?.join("velero-plugin-for-aws");
    let plugins = plugin_directory(directory.path(), more.iter().chain([&store]))?;
    let credentials = directory.path().join("credentials");
    fs::write(&credentials, home::credentials(environment)).context("cannot write the credentials")?;
    let mut command = Command::new(program);
    command
        .args(["server", "--namespace", &home.namespace, "--plugin-dir"])
        .arg(plugins)
        .args(["--metrics-address", "127.0.0.1:0", "--profiler-address", "127.0.0.1:0"])
        .args(flags)
        .env("AWS_SHARED_CREDENTIALS_FILE", credentials)
        // Velero stores its repositories' configuration there.
        .env("HOME", directory.path());
    Server::start(command, environment, home, directory)
}

/// Starts Lifeboat's server in the same way as [`Self::velero`].
pub(crate) fn lifeboat(
    program: &Path,
    environment: &BTreeMap<String, String>,
    home: &Home,
    flags: &[&str],
    plugins: &[PathBuf],
) -> Result<Server> {
    let directory = TempDir::with_prefix("lifeboat-server-").context("cannot create a directory")?;
    let plugins = plugin_directory(directory.path(), plugins)?;
    let mut command = Command::new(program);
    command
        .args(["server", "--namespace", &home.namespace, "--identity", "on-this-machine"])
        .args(["--metrics-address", "127.0.0.1:0", "--spool-directory"])
        .arg(directory.path())
        .arg("--plugin-dir")
        .arg(plugins)
        .args(flags);
    Server::start(command, environment, home, directory)
}

/// The flag without which Lifeboat's server serves more than Velero's: Stash's API. A build that is too old to know the flag needs none.
pub(crate) fn without_stash(program: &Path) -> Result<Option<&'static str>> {
    const FLAG: &str = "--stash=false";
    let mut help = Command::new(program);
    let known = help.args(["server", FLAG, "--help"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let known = known.with_context(|| format!("cannot run {}", program.display()))?;
    Ok(known.success().then_some(FLAG))
}

/// A directory that contains only these programs. Velero ignores symbolic links.
fn plugin_directory<'a>(below: &Path, programs: impl IntoIterator<Item = &'a PathBuf>) -> Result<PathBuf> {
    let directory = below.join("plugins");
    fs::create_dir(&directory).context("cannot create the plugin directory")?;
    for program in programs {
        let name = program.file_name().context("a program has a name")?;
        fs::copy(program, directory.join(name))
            .with_context(|| format!("cannot copy {}", program.display()))?;
    }
    Ok(directory)
}

impl Server {
    fn start(
        mut command: Command,
        environment: &BTreeMap<String, String>,
        home: &Home,
        directory: TempDir,
    ) -> Result<Self> {
        home.forget_the_location()?;
        let log = File::create(directory.path().join("log")).context("cannot create a log")?;
        let child = command
            .env("KUBECONFIG", &environment["KUBECONFIG"])
            // Credentials come from the location, not from the shell in which this was started.
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", run::describe(&command)))?;
        let mut server = Self { child, directory };
        server.wait(home)?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        let said = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn wait(&mut self, home: &Home) -> Result<()> {
        let began = Instant::now();
        loop {
            let ended = self.child.try_wait().context("cannot ask for the server")?;
            let status = home.location().map_or(Value::Null, |mut location| location["status"].take());
            if status["phase"] == "Available" && status["lastValidationTime"].is_string() {
                return Ok(());
            }
            if ended.is_some() || began.elapsed() > TIMEOUT {
                let how = ended.map_or("runs".to_owned(), |status| format!("ended with {status}"));
                bail!("the server {how}, its location is not available: {status}\n{}", self.last_words());
            }
            thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
