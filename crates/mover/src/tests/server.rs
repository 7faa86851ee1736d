//! A small HTTP server that sends the responses of a test and records the requests.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// Names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Status, headers and body of a response.
pub(crate) type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);
type Answers = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

/// Serves until the test ends.
pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) async fn new(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, answer): (Arc<Mutex<Vec<Asked>>>, Answers) = (Arc::default(), Arc::new(answer));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&answer), Arc::clone(&kept)));
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request for each connection.
async fn serve(mut socket: TcpStream, answer: Answers, kept: Arc<Mutex<Vec<Asked>>>) -> Option<()> {
    let mut reader = BufReader::new(&mut socket);
    let mut first = String::new();
    reader.read_line(&mut first).await.ok()?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let mut asked = Asked { method: words.next()?, target: words.next()?, ..Asked::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        asked.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    asked.body = vec![0; length];
    reader.read_exact(&mut asked.body).await.ok()?;
    let (status, headers, body) = answer(&asked);
    let mut text =
        format!("HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let is_head = asked.method == "HEAD";
    kept.lock().unwrap().push(asked);
    socket.write_all(format!("{text}\r\n").as_bytes()).await.ok()?;
    if !is_head {
        socket.write_all(&body).await.ok()?;
    }
    socket.shutdown().await.ok()
}
