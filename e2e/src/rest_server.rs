//! restic's own REST server: takes a directory, gives a server on loopback that ends when the value is dropped.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{variable, wait_for};

/// A running server without passwords.
pub struct RestServer {
    child: Child,
    address: String,
}

impl RestServer {
    pub fn start(directory: &Path) -> Self {
        // Free a moment ago; nobody else on this machine asks for a port by its number.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
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

    /// A repository on it, as restic names it.
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
