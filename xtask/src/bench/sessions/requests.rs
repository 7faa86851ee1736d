//! Counts the requests of a server to the API server: a proxy on loopback in front of `kubectl proxy`, which serves the API without TLS. The
//! server's client is told its address. Requests for leases and watches are counted apart.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

use crate::servers::Kubectl;

/// How many of the last requests are kept.
const LAST: usize = 100;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) leases: u64,
    pub(super) watches: u64,
    pub(super) others: u64,
}

impl Counts {
    pub(super) fn since(self, before: &Self) -> Self {
        Self {
            leases: self.leases - before.leases,
            watches: self.watches - before.watches,
            others: self.others - before.others,
        }
    }
}

#[derive(Default)]
struct Seen {
    counts: Counts,
    last_others: Vec<String>,
}

impl Seen {
    fn count(&mut self, line: &str) {
        match kind(line) {
            Kind::Lease => self.counts.leases += 1,
            Kind::Watch => self.counts.watches += 1,
            Kind::Other => {
                self.counts.others += 1;
                self.last_others.push(line.to_owned());
                if self.last_others.len() > LAST {
                    self.last_others.remove(0);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lease,
    Watch,
    Other,
}

/// What a request line is about.
fn kind(line: &str) -> Kind {
    let path = line.split(' ').nth(1).unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_watch = query.split('&').any(|part| ["watch=true", "watch=1", "watch"].contains(&part));
    if path.starts_with("/apis/coordination.k8s.io/") {
        Kind::Lease
    } else if is_watch {
        Kind::Watch
    } else {
        Kind::Other
    }
}

/// The proxy; ends when dropped.
pub(super) struct Counter {
    kubectl: Child,
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Counter {
    pub(super) fn start(kubectl: &Kubectl) -> Result<Self> {
        let mut child = kubectl
            .command()
            .args(["proxy", "--port=0", "--reject-paths=^$"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start kubectl proxy")?;
        let mut line = String::new();
        let output = child.stdout.take().context("a pipe was asked for")?;
        BufReader::new(output).read_line(&mut line).context("kubectl proxy printed nothing")?;
        let upstream: SocketAddr = line
            .trim()
            .rsplit(' ')
            .next()
            .and_then(|address| address.parse().ok())
            .with_context(|| format!("kubectl proxy printed no address: {line:?}"))?;
        let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let of_thread = Arc::clone(&seen);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let seen = Arc::clone(&of_thread);
                thread::spawn(move || {
                    // When either side closes a connection, both are closed.
                    let _ = pass(&client, upstream, &seen);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Ok(Self { kubectl: child, address, seen })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn counts(&self) -> Counts {
        self.seen().counts
    }

    /// The last requests that are neither for leases nor watches.
    pub(super) fn last_others(&self) -> Vec<String> {
        self.seen().last_others.clone()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

fn pass(mut client: &TcpStream, upstream: SocketAddr, seen: &Mutex<Seen>) -> io::Result<()> {
    let mut server = TcpStream::connect(upstream)?;
    let (mut answers, mut back) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = client.read(&mut buffer)?;
        if length == 0 {
            return server.shutdown(Shutdown::Write);
        }
        if let Some(line) = request_line(&buffer[..length]) {
            seen.lock().unwrap_or_else(PoisonError::into_inner).count(&line);
        }
        server.write_all(&buffer[..length])?;
    }
}

/// The first line of a request; None for further bytes of one. The client starts each request with a separate write.
fn request_line(chunk: &[u8]) -> Option<String> {
    let line = chunk.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.ends_with(" HTTP/1.1").then(|| line.trim_end_matches(" HTTP/1.1").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_and_watches_are_counted_apart() {
        let mut seen = Seen::default();
        for line in [
            "PUT /apis/coordination.k8s.io/v1/namespaces/n/leases/lifeboat-server?fieldManager=lifeboat",
            "GET /apis/stash.appscode.com/v1alpha1/repositories?watch=true&resourceVersion=7",
            "GET /api/v1/pods?labelSelector=watch%3Dtrue",
            "PATCH /apis/stash.appscode.com/v1alpha1/namespaces/n/repositories/r/status?",
        ] {
            seen.count(line);
        }
        assert_eq!(seen.counts, Counts { leases: 1, watches: 1, others: 2 });
        assert_eq!(seen.last_others.len(), 2);
        let before = Counts { others: 1, ..Counts::default() };
        assert_eq!(seen.counts.since(&before).others, 1);
    }

    #[test]
    fn a_request_begins_with_its_line_and_bodies_are_none() {
        assert_eq!(request_line(b"GET /api HTTP/1.1\r\nHost: x\r\n\r\n").as_deref(), Some("GET /api"));
        assert_eq!(request_line(b"{\"kind\": \"Pod\"}"), None);
    }

    #[test]
    fn many_requests_keep_the_last() {
        let mut seen = Seen::default();
        (0..LAST + 5).for_each(|number| seen.count(&format!("GET /{number}")));
        assert_eq!(seen.last_others.len(), LAST);
        assert_eq!(seen.last_others[0], "GET /5");
    }
}
