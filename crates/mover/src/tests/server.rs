//! A small HTTP server, plain or with TLS, that sends the responses of a test and records the requests.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

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
    scheme: &'static str,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) async fn new(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(answer)).await
    }

    pub(crate) async fn tls(
        acceptor: TlsAcceptor,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(acceptor), Arc::new(answer)).await
    }

    async fn start(tls: Option<TlsAcceptor>, answer: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (kept, scheme) = (Arc::clone(&asked), if tls.is_some() { "https" } else { "http" });
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (tls, answer, kept) = (tls.clone(), Arc::clone(&answer), Arc::clone(&kept));
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, answer, kept).await,
                        Some(acceptor) => serve(acceptor.accept(socket).await.ok()?, answer, kept).await,
                    }
                });
            }
        });
        Self { port, scheme, asked }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://127.0.0.1:{}{path}", self.scheme, self.port)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request for each connection.
async fn serve(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    answer: Answers,
    kept: Arc<Mutex<Vec<Asked>>>,
) -> Option<()> {
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

/// A certificate authority made for one test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A server with a certificate for this name or address.
    pub(crate) fn acceptor(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            );
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }
}
