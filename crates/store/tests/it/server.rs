//! A small HTTP/1.1 server, plain or TLS, that records requests and responds as a test specifies.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lifeboat_store::StoreConfig;
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A recorded request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The response to send.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// The length that the response announces; if it is larger than the body, the connection breaks.
    pub claimed: usize,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Self {
        let body = body.into();
        Self { status, headers: Vec::new(), claimed: body.len(), body }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

type Handler = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// The server; it lives as long as the test's runtime.
#[derive(Clone)]
pub(crate) struct Server {
    pub address: SocketAddr,
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) async fn plain(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(handler)).await
    }

    pub(crate) async fn tls(
        config: ServerConfig,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(TlsAcceptor::from(Arc::new(config))), Arc::new(handler)).await
    }

    async fn start(tls: Option<TlsAcceptor>, handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let server =
            Self { address, url: format!("{scheme}://localhost:{}", address.port()), seen: seen.clone() };
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (tls, handler, seen) = (tls.clone(), handler.clone(), seen.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, handler, seen).await,
                        Some(acceptor) => match acceptor.accept(socket).await {
                            Ok(socket) => serve(socket, handler, seen).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        server
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// A location of provider aws at this server.
    pub(crate) fn location(&self, entries: &[(&str, &str)]) -> StoreConfig {
        let mut config = StoreConfig {
            provider: "aws".into(),
            bucket: "bkt".into(),
            credentials: Some(
                b"[default]\naws_access_key_id=AKIDEXAMPLE\naws_secret_access_key=CANARYSECRET\n"
                    .to_vec()
                    .into(),
            ),
            ..StoreConfig::default()
        };
        let ours = [("s3Url", self.url.as_str()), ("s3ForcePathStyle", "true"), ("region", "us-east-1")];
        for (key, value) in ours.iter().chain(entries) {
            config.config.insert((*key).to_owned(), (*value).to_owned());
        }
        config
    }
}

/// One request per connection.
async fn serve(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    handler: Handler,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Option<()> {
    let mut text = Vec::new();
    let end = loop {
        if socket.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
        if !text[0].is_ascii_uppercase() {
            // A TLS handshake: answered in plain HTTP, as real servers do.
            socket.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await.ok()?;
            return None;
        }
        if let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&text[..end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let mut request = Seen { method: first.next()?.into(), target: first.next()?.into(), ..Seen::default() };
    for line in lines {
        if let Some((name, value)) = line.split_once(':') {
            request.headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
    }
    let length: usize = request.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    while text.len() < end + length {
        if socket.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    }
    request.body = String::from_utf8_lossy(&text[end..]).into_owned();
    let reply = handler(&request);
    seen.lock().unwrap().push(request.clone());
    let mut answer =
        format!("HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {}\r\n", reply.status, reply.claimed);
    for (name, value) in &reply.headers {
        answer.extend([name, ": ", value.as_str(), "\r\n"]);
    }
    answer += "\r\n";
    if request.method != "HEAD" {
        answer += &reply.body;
    }
    socket.write_all(answer.as_bytes()).await.ok()?;
    socket.shutdown().await.ok()
}

/// A certificate authority made for one test.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("test authority")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    pub(crate) fn pem(&self) -> Vec<u8> {
        self.issuer.pem().into_bytes()
    }

    /// A server's certificate for `name`, changed by `change`.
    pub(crate) fn server(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let (certificate, key) = self.issue(name, change);
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }

    /// A server for `name` that only accepts clients whose certificate is from this authority.
    pub(crate) fn server_for_clients(&self, name: &str) -> ServerConfig {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier);
        let (certificate, key) = self.issue(name, |_| ());
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }

    /// A client's certificate and key.
    pub(crate) fn client_pem(&self, name: &str) -> Vec<u8> {
        let (certificate, key) = self.issue(name, |_| ());
        (certificate.pem() + &key.serialize_pem()).into_bytes()
    }

    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// An S3 server that stores nothing: enough to look at requests.
pub(crate) fn hollow(request: &Seen) -> Reply {
    match (request.method.as_str(), request.target.as_str()) {
        ("GET", target) if target.contains("list-type=2") => {
            Reply::new(200, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        }
        ("POST", target) if target.contains("uploads") => Reply::new(
            200,
            "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>",
        ),
        ("POST", target) if target.contains("uploadId") => Reply::new(
            200,
            "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>",
        ),
        _ => Reply::new(200, "body")
            .with("etag", "\"e\"")
            .with("last-modified", "Sun, 15 Nov 2026 10:00:00 GMT"),
    }
}
