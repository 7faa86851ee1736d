//! Downloads files of a backup or restore from its bucket, as the stock client does: it creates a DownloadRequest, the
//! server writes a link into it, and the file is fetched with an HTTP GET. Users need no credentials of the bucket to
//! read a log.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use flate2::write::MultiGzDecoder as GzWriter;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{DownloadRequest, DownloadRequestSpec, DownloadTarget, DownloadTargetKind};
use lifeboat_cluster::wait::{Look, WaitError, until};
use lifeboat_cluster::{ApiError, Attempt};
use reqwest::{Certificate, Response, StatusCode};
use serde::de::DeserializeOwned;

use crate::error::CliError;
use crate::nouns::{LOCATION, text};

/// Lists and results are read into memory; no file of a backup comes near this size.
const LARGEST: u64 = 512 << 20;

/// How the storage's certificate is verified.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct TlsArgs {
    /// File with a certificate authority of the storage (PEM), in addition to the location's own
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Do not verify the storage's certificate: others on the network can then read and change the data
    #[arg(long)]
    insecure_skip_tls_verify: bool,
}

/// How long the server may take to provide a download link, and how the storage's certificate is verified.
#[derive(clap::Args)]
pub(crate) struct LinkArgs {
    /// How long to wait for the server's download link
    #[arg(long, default_value = "1m0s", value_name = "DURATION")]
    pub(crate) timeout: GoDuration,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

impl LinkArgs {
    /// Fetches files of the backups and restores in a location.
    pub(crate) async fn fetcher(
        &self,
        client: &Client,
        namespace: &str,
        location: &str,
    ) -> Result<Fetcher, CliError> {
        let timeout = self.timeout.to_std().unwrap_or(Duration::from_mins(1));
        Fetcher::new(client, namespace, location, &self.tls, timeout).await
    }
}

/// Downloads files of the backups in one location.
pub(crate) struct Fetcher {
    client: Client,
    namespace: String,
    http: reqwest::Client,
    timeout: Duration,
}

impl Fetcher {
    /// `location` is the backup's; its certificate authority is trusted.
    pub(crate) async fn new(
        client: &Client,
        namespace: &str,
        location: &str,
        tls: &TlsArgs,
        timeout: Duration,
    ) -> Result<Self, CliError> {
        let mut roots = Vec::new();
        if let Some(path) = &tls.cacert {
            let pem = std::fs::read(path).map_err(|error| {
                CliError::failed(
                    format!("cannot read the certificate authority from {}", path.display()),
                    error,
                )
            })?;
            roots.extend(certificates(&pem, &format!("{}", path.display()))?);
        }
        if let Some(pem) = location_authority(client, namespace, location).await {
            roots.extend(certificates(&pem, &format!("location {location}"))?);
        }
        let http = reqwest::ClientBuilder::new()
            .user_agent(concat!("lifeboat/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(15))
            .read_timeout(Duration::from_mins(1))
            .tls_certs_merge(roots)
            .tls_danger_accept_invalid_certs(tls.insecure_skip_tls_verify)
            .build()
            .map_err(|error| CliError::failed("cannot make an HTTP client", error))?;
        Ok(Self { client: client.clone(), namespace: namespace.to_owned(), http, timeout })
    }

    /// Requests the file as it is stored; `None` if the backup has no such file.
    pub(crate) async fn open(
        &self,
        kind: DownloadTargetKind,
        name: &str,
    ) -> Result<Option<Response>, CliError> {
        let url = self.link(kind, name).await?;
        let answer = self.http.get(&url).send().await.map_err(|error| unreachable(&url, error))?;
        match answer.status() {
            StatusCode::OK => Ok(Some(answer)),
            StatusCode::NOT_FOUND => Ok(None),
            code => Err(CliError::ended(format!("the storage answered {code} for a file of {name}"))
                .help("the link may have expired; run the command again")),
        }
    }

    /// Downloads and parses a gzip-compressed JSON file.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        kind: DownloadTargetKind,
        name: &str,
    ) -> Result<Option<T>, CliError> {
        let what = kind.to_string();
        let Some(answer) = self.open(kind, name).await? else { return Ok(None) };
        let failed = |error| CliError::failed(format!("cannot fetch the {what} of {name}"), error);
        let bytes = answer.bytes().await.map_err(failed)?;
        let plain = MultiGzDecoder::new(&bytes[..]).take(LARGEST);
        serde_json::from_reader(std::io::BufReader::new(plain))
            .map(Some)
            .map_err(|error| CliError::failed(format!("cannot read the {what} of {name}"), error))
    }

    /// Creates a DownloadRequest and waits for the link in its status.
    async fn link(&self, kind: DownloadTargetKind, name: &str) -> Result<String, CliError> {
        let api: Api<DownloadRequest> = Api::namespaced(self.client.clone(), &self.namespace);
        let request = DownloadRequest {
            metadata: ObjectMeta {
                name: Some(request_name(name)),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: DownloadRequestSpec { target: DownloadTarget { kind, name: name.to_owned() } },
            status: None,
        };
        let made = api.create(&PostParams::default(), &request).await.attempt("create a DownloadRequest")?;
        let request = made.name_any();
        let link = until("a link to the file", self.timeout, async || {
            let found = api.get(&request).await.attempt(format!("read DownloadRequest {request}"))?;
            let link = found.status.and_then(|status| status.download_url).filter(|url| !url.is_empty());
            Ok::<_, ApiError>(
                link.map_or_else(|| Look::NotYet("no answer from the server".into()), Look::Done),
            )
        })
        .await;
        // Deleted, because users who can read the request could use the link until it expires.
        let _ = api.delete(&request, &kube::api::DeleteParams::default()).await;
        link.map_err(|error| match error {
            WaitError::Deadline { seconds, .. } => {
                CliError::timed_out(format!("the server provided no link to a file of {name} within {seconds} s"))
                    .help("is the server running, and is the location available? see `lifeboat version` and `lifeboat backup-location get`")
            }
            WaitError::Api(error) => error.into(),
        })
    }
}

/// Decompresses a response into a writer while it arrives, without buffering it.
pub(crate) async fn unpack(mut answer: Response, target: &mut (impl Write + Send)) -> Result<(), CliError> {
    let failed =
        |error: std::io::Error| CliError::failed("cannot decompress the answer of the storage", error);
    let mut unpacking = GzWriter::new(target);
    while let Some(chunk) = answer.chunk().await.map_err(stopped)? {
        unpacking.write_all(&chunk).map_err(failed)?;
    }
    unpacking.try_finish().map_err(failed)
}

/// Copies a response into a writer while it arrives.
pub(crate) async fn copy(mut answer: Response, target: &mut (impl Write + Send)) -> Result<u64, CliError> {
    let mut bytes = 0;
    while let Some(chunk) = answer.chunk().await.map_err(stopped)? {
        target.write_all(&chunk).map_err(|error| CliError::failed("cannot write the file", error))?;
        bytes += chunk.len() as u64;
    }
    Ok(bytes)
}

fn stopped(error: reqwest::Error) -> CliError {
    CliError::failed("the download was interrupted", error.without_url())
}

/// A unique name for the DownloadRequest, cut if the backup's name is too long.
fn request_name(of: &str) -> String {
    let random: u64 = rand::random();
    let end = of.len().min(253 - 17);
    format!("{}-{random:016x}", of[..end].trim_end_matches(['-', '.']))
}

fn unreachable(url: &str, error: reqwest::Error) -> CliError {
    let host = url
        .parse::<reqwest::Url>()
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned))
        .unwrap_or_default();
    // The error names only the host: the link is a secret until it expires.
    CliError::failed(format!("cannot fetch from the storage at {host}"), error.without_url()).help(
        "the link must work from this machine: set `publicUrl` in the location's config or `--download-url` on the server; \
         for an unknown certificate pass --cacert",
    )
}

fn certificates(pem: &[u8], source: &str) -> Result<Vec<Certificate>, CliError> {
    Certificate::from_pem_bundle(pem).map_err(|error| {
        CliError::failed(format!("cannot read the certificate authority of {source}"), error)
    })
}

/// The certificate authority of the location. None if it cannot be read: the download then reports the certificate
/// error.
async fn location_authority(client: &Client, namespace: &str, location: &str) -> Option<Vec<u8>> {
    if location.is_empty() {
        return None;
    }
    let found: DynamicObject = LOCATION.api(client, namespace).get_opt(location).await.ok()??;
    let inline = text(&found, "/spec/objectStorage/caCert");
    if !inline.is_empty() {
        return STANDARD.decode(inline).ok();
    }
    let (name, key) = (
        text(&found, "/spec/objectStorage/caCertRef/name"),
        text(&found, "/spec/objectStorage/caCertRef/key"),
    );
    if name.is_empty() {
        return None;
    }
    let secret: Secret = Api::namespaced(client.clone(), namespace).get_opt(&name).await.ok()??;
    secret.data?.remove(&key).map(|value| value.0)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use lifeboat_control::testing::{ApiServer, Requests};
    use serde_json::{Value, json};

    use super::*;

    /// A storage server that answers every GET with `code` and `body`; returns its address.
    async fn storage(code: u16, body: Vec<u8>) -> String {
        let router = axum::Router::new()
            .fallback(async move || (axum::http::StatusCode::from_u16(code).unwrap(), body));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/file?signature=secret")
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut packing = GzEncoder::new(Vec::new(), Compression::fast());
        packing.write_all(text.as_bytes()).unwrap();
        packing.finish().unwrap()
    }

    /// An API server that answers DownloadRequests with the link.
    async fn fetcher(link: Option<String>) -> (Fetcher, ApiServer) {
        let server = ApiServer::default();
        server.on_write(move |server, write| {
            if server.get(&write.path).is_some() {
                server.change(&write.path, &json!({"status": {"downloadURL": link}}));
            }
        });
        let timeout = Duration::from_millis(10);
        let client = server.client().await;
        (Fetcher::new(&client, "n", "default", &TlsArgs::default(), timeout).await.unwrap(), server)
    }

    /// The methods of all requests about DownloadRequests.
    fn seen(server: &ApiServer) -> Vec<String> {
        let seen = server.requests(&Requests::any("*/downloadrequests*"));
        seen.into_iter().map(|asked| asked.method).collect()
    }

    #[tokio::test]
    async fn a_log_comes_through_a_request_that_is_removed_afterwards() {
        let (fetcher, server) =
            fetcher(Some(storage(200, [packed("one\n"), packed("two\n")].concat()).await)).await;
        let answer = fetcher.open(DownloadTargetKind::BackupLog, "b").await.unwrap().unwrap();
        let mut log = Vec::new();
        unpack(answer, &mut log).await.unwrap();
        assert_eq!(log, b"one\ntwo\n");
        assert_eq!(seen(&server), ["POST", "GET", "DELETE"]);
    }

    #[tokio::test]
    async fn a_compressed_list_is_read() {
        let (fetcher, _) = fetcher(Some(storage(200, packed(r#"{"v1/Pod": ["shop/a"]}"#)).await)).await;
        let list: Option<Value> = fetcher.json(DownloadTargetKind::BackupResourceList, "b").await.unwrap();
        assert_eq!(list, Some(json!({"v1/Pod": ["shop/a"]})));
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_no_error() {
        let (fetcher, _) = fetcher(Some(storage(404, Vec::new()).await)).await;
        assert!(fetcher.open(DownloadTargetKind::BackupLog, "b").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_error_of_the_storage_does_not_show_the_link() {
        let (fetcher, _) = fetcher(Some(storage(403, Vec::new()).await)).await;
        let error = fetcher.open(DownloadTargetKind::BackupLog, "b").await.unwrap_err().full_text();
        assert!(error.contains("403") && !error.contains("signature"), "{error}");
    }

    #[tokio::test]
    async fn a_storage_out_of_reach_is_named_by_its_host_and_the_link_stays_secret() {
        let (fetcher, _) = fetcher(Some("http://127.0.0.1:1/file?signature=secret".into())).await;
        let error = fetcher.open(DownloadTargetKind::BackupLog, "b").await.unwrap_err().full_text();
        assert!(error.contains("127.0.0.1") && !error.contains("signature"), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_waited_for_and_then_named() {
        let (fetcher, server) = fetcher(None).await;
        let error = fetcher.open(DownloadTargetKind::BackupLog, "b").await.unwrap_err();
        assert_eq!(error.code(), 5);
        assert_eq!(seen(&server).last().map(String::as_str), Some("DELETE"));
    }

    #[test]
    fn a_request_has_a_name_that_the_api_server_takes() {
        let long = format!("{}-x", "a".repeat(252));
        for name in ["nightly", &long] {
            let made = request_name(name);
            assert!(made.len() <= 253 && crate::args::object_name(&made).is_ok(), "{made}");
        }
    }
}
