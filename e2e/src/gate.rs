//! A proxy between a server and its HTTP peers (storage, the API server): requests pass, are held, cut off or answered
//! by the test. A fault thus hits exactly the request that a test names, with genuine services behind the proxy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It waits; opening the gate later cuts it off.
    Hold,
    /// It is forwarded, and its answer is held.
    HoldAnswer,
    /// The connection is closed.
    Cut,
    /// It is answered with this status and body.
    Answer(u16, String),
}

/// Whether a rule is about a request, by its method and path.
type Matches = Box<dyn FnMut(&str, &str) -> bool + Send>;

struct Rule {
    matches: Matches,
    fault: Fault,
    /// How many such requests pass before the rule applies.
    skip: usize,
    /// For how many more requests the rule applies.
    left: usize,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    /// How many requests matched a rule.
    reached: usize,
    /// Incremented by every `open`: requests held before are cut off.
    round: usize,
    /// Request lines, in the order of arrival.
    seen: Vec<String>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A gate that is open until a rule is set.
pub struct Gate {
    address: String,
    shared: Arc<Shared>,
}

impl Gate {
    /// A gate in front of `upstream`, which is `http://host:port`. It listens at the same address if that belongs to
    /// this machine, so that it can be reached by the same clients.
    pub fn before(upstream: &str) -> Self {
        let upstream = upstream.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let host = upstream.rsplit_once(':').map_or(upstream.as_str(), |(host, _)| host);
        let listener = TcpListener::bind((host, 0)).or_else(|_| TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        let of_listener = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (shared, upstream) = (Arc::clone(&of_listener), upstream.clone());
                thread::spawn(move || {
                    // When either side closes a connection, both are closed.
                    let _ = serve(&client, &upstream, &shared);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Applies the fault to the next `times` requests with this method and this text in their path.
    pub fn close(&self, method: &str, part: &str, fault: Fault, times: usize) {
        let (method, part) = (method.to_owned(), part.to_owned());
        let matches = Box::new(move |of: &str, path: &str| of == method && path.contains(&part));
        self.shared.state().rules.push(Rule { matches, fault, skip: 0, left: times });
    }

    /// Applies the fault to the next `times` requests that `matches` selects by method and path, after `skip` of them passed.
    pub fn close_where(
        &self,
        fault: Fault,
        skip: usize,
        times: usize,
        matches: impl FnMut(&str, &str) -> bool + Send + 'static,
    ) {
        self.shared.state().rules.push(Rule { matches: Box::new(matches), fault, skip, left: times });
    }

    /// Whether a request matched a rule since the gate was opened.
    pub fn is_reached(&self) -> bool {
        self.shared.state().reached > 0
    }

    /// Lets all requests pass again. Requests that were held are cut off and never forwarded.
    pub fn open(&self) {
        let mut state = self.shared.state();
        state.rules.clear();
        state.reached = 0;
        state.round += 1;
        self.shared.changed.notify_all();
    }

    /// Waits until a request matched a rule.
    pub fn wait_until_reached(&self, seconds: u64) {
        let state = self.shared.state();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, Duration::from_secs(seconds), |state| state.reached == 0)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(
            !waited.1.timed_out(),
            "no request met the rule in {seconds} s; there were {:#?}",
            waited.0.seen
        );
    }

    /// The request lines so far.
    pub fn seen(&self) -> Vec<String> {
        self.shared.state().seen.clone()
    }
}

fn serve(mut client: &TcpStream, upstream: &str, shared: &Shared) -> io::Result<()> {
    let mut server = TcpStream::connect(upstream)?;
    let mut answers = None;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = client.read(&mut buffer)?;
        let chunk = &buffer[..length];
        if length == 0 {
            server.shutdown(Shutdown::Write)?;
            return Ok(());
        }
        match request_line(chunk).and_then(|line| met(shared, &line)) {
            None => {
                if answers.is_none() {
                    answers = Some(copy_answers(&server, client)?);
                }
                server.write_all(chunk)?;
            }
            Some(Fault::Cut) => return Ok(()),
            Some(Fault::Hold) => {
                hold(shared);
                return Ok(());
            }
            Some(Fault::HoldAnswer) => {
                // Uses its own connection, because answers of the other one go to the client.
                let mut server = TcpStream::connect(upstream)?;
                server.write_all(chunk)?;
                let rest = body_length(chunk).saturating_sub(body_in(chunk));
                io::copy(&mut client.take(rest as u64), &mut server)?;
                // The request has arrived when it is answered.
                let _ = server.read(&mut buffer)?;
                reached(shared);
                hold(shared);
                return Ok(());
            }
            Some(Fault::Answer(status, body)) => {
                let rest = body_length(chunk).saturating_sub(body_in(chunk));
                io::copy(&mut client.take(rest as u64), &mut io::sink())?;
                let kind = if body.starts_with('{') { "application/json" } else { "application/xml" };
                write!(
                    client,
                    "HTTP/1.1 {status} As the test says\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n{body}",
                    body.len()
                )?;
                return Ok(());
            }
        }
    }
}

fn copy_answers(server: &TcpStream, client: &TcpStream) -> io::Result<thread::JoinHandle<()>> {
    let (mut server, mut client) = (server.try_clone()?, client.try_clone()?);
    Ok(thread::spawn(move || {
        let _ = io::copy(&mut server, &mut client);
        let _ = client.shutdown(Shutdown::Both);
    }))
}

/// The first line of a request; `None` for further bytes of one. Clients start each request with a separate write.
fn request_line(chunk: &[u8]) -> Option<String> {
    let line = chunk.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.ends_with(" HTTP/1.1").then(|| line.trim_end_matches(" HTTP/1.1").to_owned())
}

fn met(shared: &Shared, line: &str) -> Option<Fault> {
    let mut state = shared.state();
    state.seen.push(line.to_owned());
    let (method, path) = line.split_once(' ')?;
    let met = |rule: &mut Rule| rule.left > 0 && (rule.matches)(method, path);
    let rule = state.rules.iter_mut().find_map(|rule| met(rule).then_some(rule))?;
    if rule.skip > 0 {
        rule.skip -= 1;
        return None;
    }
    rule.left -= 1;
    let fault = rule.fault.clone();
    drop(state);
    if !matches!(fault, Fault::HoldAnswer) {
        reached(shared);
    }
    Some(fault)
}

fn reached(shared: &Shared) {
    shared.state().reached += 1;
    shared.changed.notify_all();
}

/// Waits until the gate is opened.
fn hold(shared: &Shared) {
    let state = shared.state();
    let round = state.round;
    drop(shared.changed.wait_while(state, |state| state.round == round));
}

/// How many bytes of the body arrived together with the head.
fn body_in(chunk: &[u8]) -> usize {
    chunk.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |head| chunk.len() - head - 4)
}

fn body_length(chunk: &[u8]) -> usize {
    let text = String::from_utf8_lossy(chunk).to_lowercase();
    let value = text.split("\r\ncontent-length:").nth(1).and_then(|rest| rest.split('\r').next());
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}
