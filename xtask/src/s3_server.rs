//! The box's S3 server without the box: takes a directory and starts a server on loopback with one bucket; it ends when
//! the value is dropped. The repository tests and `bench repository` use it: neither needs a cluster, and a cluster
//! would disturb a measurement.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cluster_box::programs;
use crate::run;

pub(crate) const BUCKET: &str = "lifeboat";
pub(crate) const REGION: &str = "us-east-1";
pub(crate) const ACCESS_KEY: &str = "lifeboat";
pub(crate) const SECRET_KEY: &str = "on loopback, for as long as one command runs";
const LOOPBACK: &str = "127.0.0.1";
const CONFIG: &str = include_str!("../../box/config/s3.json");
/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A running server.
pub(crate) struct S3Server {
    child: Child,
    program: PathBuf,
    ports: Ports,
}

/// One port for each part of the server, and one for each part's control channel.
struct Ports {
    s3: u16,
    s3_control: u16,
    master: u16,
    master_control: u16,
    volume: u16,
    volume_control: u16,
    filer: u16,
    filer_control: u16,
}

impl S3Server {
    /// Starts an empty server that keeps its data below `directory`.
    pub(crate) fn start(directory: &Path) -> Result<Self> {
        let program = programs::s3_server()?;
        let data = directory.join("data");
        fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
        let config = CONFIG.replace("{{access}}", ACCESS_KEY).replace("{{secret}}", SECRET_KEY);
        fs::write(directory.join("s3.json"), config).context("cannot write the S3 server's settings")?;
        let ports = Ports::free()?;
        let log = File::create(directory.join("log")).context("cannot create the S3 server's log")?;
        let child = Command::new(&program)
            .args(arguments(directory, &ports))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the S3 server")?;
        let server = Self { child, program, ports };
        server.wait().with_context(|| {
            format!("the S3 server did not start; its log is below {}", directory.display())
        })?;
        Ok(server)
    }

    /// Its address, as `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("{LOOPBACK}:{}", self.ports.s3)
    }

    /// Credentials in the variables that every program for S3 reads, and the endpoint in the variable of our tests.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let mut all = credentials();
        all.insert("LIFEBOAT_S3_ENDPOINT".to_owned(), format!("http://{}", self.address()));
        all
    }

    /// The size in bytes of all objects whose name begins with `prefix` and a slash.
    pub(crate) fn size(&self, prefix: &str) -> Result<u64> {
        let text = self.shell(&format!("fs.du /buckets/{BUCKET}/{prefix}\n"))?;
        logical_size(&text).with_context(|| format!("the S3 server reported no size of {prefix:?}: {text}"))
    }

    /// The bucket can be created before the part that clients connect to listens.
    fn wait(&self) -> Result<()> {
        eventually(|| {
            let text = self.shell("s3.bucket.list\n")?;
            if !text.lines().any(|line| line.trim_start().starts_with(BUCKET)) {
                self.shell(&format!("s3.bucket.create -name {BUCKET}\n"))?;
            }
            Ok(())
        })?;
        eventually(|| TcpStream::connect(self.address()).map(drop).context("it does not listen"))
    }

    fn shell(&self, lines: &str) -> Result<String> {
        let address = |port, control| format!("{LOOPBACK}:{port}.{control}");
        let mut shell = Command::new(&self.program);
        shell
            .args(["-logtostderr=true", "shell"]) // else it leaves log files in /tmp
            .arg(format!("-master={}", address(self.ports.master, self.ports.master_control)))
            .arg(format!("-filer={}", address(self.ports.filer, self.ports.filer_control)));
        run::with_input(&mut shell, lines)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // its data goes with it: nothing to say farewell to
        let _ = self.child.wait();
    }
}

/// The credentials and region for a client.
pub(crate) fn credentials() -> BTreeMap<String, String> {
    [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY), ("AWS_REGION", REGION)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

impl Ports {
    /// Ports that are free now. All are held while they are chosen, so that no two are equal.
    fn free() -> Result<Self> {
        let held: Vec<TcpListener> = (0..8)
            .map(|_| TcpListener::bind((LOOPBACK, 0)).context("no free port for the S3 server"))
            .collect::<Result<_>>()?;
        let mut numbers =
            held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<Result<Vec<u16>>>()?;
        let mut next = || numbers.pop().context("eight ports are held");
        Ok(Self {
            s3: next()?,
            s3_control: next()?,
            master: next()?,
            master_control: next()?,
            volume: next()?,
            volume_control: next()?,
            filer: next()?,
            filer_control: next()?,
        })
    }
}

fn arguments(directory: &Path, ports: &Ports) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    let mut all: Vec<String> =
        vec!["-logtostderr=true".into(), "server".into(), "-filer=true".into(), "-s3".into()];
    let mut set = |name: &str, value: String| all.push(format!("-{name}={value}"));
    set("dir", file("data"));
    set("ip", LOOPBACK.into());
    set("ip.bind", LOOPBACK.into());
    set("s3.ip.bind", LOOPBACK.into());
    set("master.telemetry", "false".into());
    set("master.volumeSizeLimitMB", "256".into());
    set("master.volumePreallocate", "false".into());
    set("master.electionTimeout", "1s".into());
    set("volume.max", "0".into());
    set("s3.port.iceberg", "0".into());
    set("s3.port.lance", "0".into());
    set("s3.config", file("s3.json"));
    set("filer.localSocket", file("filer.sock"));
    set("s3.localSocket", file("s3.sock"));
    for (name, port) in [
        ("s3.port", ports.s3),
        ("s3.port.grpc", ports.s3_control),
        ("master.port", ports.master),
        ("master.port.grpc", ports.master_control),
        ("volume.port", ports.volume),
        ("volume.port.grpc", ports.volume_control),
        ("filer.port", ports.filer),
        ("filer.port.grpc", ports.filer_control),
    ] {
        set(name, port.to_string());
    }
    all
}

/// Repeats an attempt until it succeeds or the time is over; returns the last error.
fn eventually(attempt: impl Fn() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(200)),
            result => return result,
        }
    }
}

/// The number in a line such as `block: 6 logical size: 71095 /buckets/b/p`.
fn logical_size(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once("logical size:")?.1.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_read_from_what_the_shell_prints() {
        assert_eq!(logical_size("> block:   6\tlogical size:     71095\t/buckets/b/p\n"), Some(71095));
        assert_eq!(logical_size("error: no such path\n"), None);
    }

    #[test]
    fn no_two_parts_share_a_port() {
        let ports = Ports::free().expect("ports are free");
        let mut numbers: Vec<String> = arguments(Path::new("/x"), &ports)
            .iter()
            .filter(|argument| argument.contains(".port"))
            .filter_map(|argument| Some(argument.split_once('=')?.1.to_owned()))
            .filter(|number| number != "0")
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 8);
    }
}
