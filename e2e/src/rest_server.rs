//! restic's own REST server: takes a directory and starts a server, on loopback or where pods reach it, that ends when the value is
//! dropped.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{s3, variable, wait_for};

/// A running server without passwords.
pub struct RestServer {
    child: Child,
    address: String,
}

impl RestServer {
    pub fn start(directory: &Path) -> Self {
        Self::at("127.0.0.1", directory)
    }

    /// Starts one that pods reach: at the address of the S3 server, which is this machine's.
    pub fn for_pods(directory: &Path) -> Self {
        Self::at(&host_for_pods(), directory)
    }

    fn at(host: &str, directory: &Path) -> Self {
        let address = free_address(host);
        let child = Command::new(variable("LIFEBOAT_REST_SERVER"))
            .args(["--no-auth", "--listen", &address, "--path"])
            .arg(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, address };
        wait_for("the REST server", 20, || {
            TcpStream::connect(&server.address).map(drop).map_err(|error| error.to_string())
        });
        server
    }

    /// The URL of a repository on it, in restic's notation.
    pub fn url(&self, name: &str) -> String {
        format!("rest:http://{}/{name}/", self.address)
    }
}

impl Drop for RestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine with a port that is free: it was a moment ago, and no other program requests ports by number.
pub(crate) fn free_address(host: &str) -> String {
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap().to_string()
}

/// The host of the S3 server, if that is this machine: then pods reach what listens there.
pub(crate) fn host_for_pods() -> String {
    let endpoint = s3().endpoint;
    let address = endpoint.trim_start_matches("http://").trim_end_matches('/');
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let is_here = TcpListener::bind((host, 0)).is_ok();
    if is_here { host.to_owned() } else { "127.0.0.1".to_owned() }
}
