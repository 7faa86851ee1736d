//! The connections of the gateway: TLS, and limits on how many there are and how long each may take for what.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::handler::Gateway;
use super::tls::ServerTls;
use crate::{WebError, listen};

/// The maximum number of connections. A mover has about ten.
const CONNECTIONS: usize = 256;
/// How long a new connection may take until it has shown a valid token.
const ADMISSION: Duration = Duration::from_secs(20);
/// How long a connection may be idle: longer than our client keeps it.
const IDLE: Duration = Duration::from_secs(100);
/// After this time a connection ends with its current request, so that movers find other replicas, too.
const AGE: Duration = Duration::from_mins(30);
/// How long that last request may take, and how long requests may take after the server started to shut down.
const LAST_REQUEST: Duration = Duration::from_mins(15);
const STOPPING: Duration = Duration::from_secs(20);
/// The largest head of a request, and the buffers of a connection.
const HEAD: usize = 16 * 1024;
const BUFFER: usize = 64 * 1024;

/// Where the gateway listens.
pub struct GatewaySocket {
    listener: TcpListener,
}

impl GatewaySocket {
    pub async fn bind(address: SocketAddr) -> Result<Self, WebError> {
        let bound = listen(address).await;
        let listener = bound.map_err(|source| WebError::Listen {
            address,
            what: "the gateway",
            flag: "--gateway-address",
            source,
        })?;
        tracing::info!(%address, "serving repositories to movers (gateway)");
        Ok(Self { listener })
    }

    /// The address, with the port that was chosen.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves until `stop` is cancelled. New connections use the newest certificate of `tls`.
pub async fn serve_gateway(
    socket: GatewaySocket,
    gateway: Arc<Gateway>,
    tls: watch::Receiver<Arc<ServerTls>>,
    stop: CancellationToken,
) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepting = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&connections).acquire_owned().await.ok();
            (permit, socket.listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accepting => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let acceptor = TlsAcceptor::from(tls.borrow().clone());
                let (gateway, stop) = (Arc::clone(&gateway), stop.clone());
                tokio::spawn(async move {
                    connection(stream, acceptor, gateway, stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of file descriptors, for example: others are given back soon.
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the gateway cannot accept a connection"
                );
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
    drop(socket);
    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
    let _ = timeout(STOPPING, connections.acquire_many(all)).await;
}

/// Serves one connection to its end.
async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(ADMISSION, acceptor.accept(stream)).await else { return };
    let is_admitted = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_admitted);
    let service = service_fn(move |request: Request<Incoming>| {
        let (gateway, noted) = (Arc::clone(&gateway), Arc::clone(&noted));
        async move {
            let (response, admitted) = gateway.answer(request.map(Body::new)).await;
            if admitted {
                noted.store(true, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(BUFFER)
        .max_header_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        _ = serving.as_mut() => return,
        () = unless(&is_admitted) => return,
        () = sleep(AGE) => {}
        () = stop.cancelled() => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = timeout(LAST_REQUEST, serving).await;
}

/// Completes if no valid token was shown in time.
async fn unless(is_admitted: &AtomicBool) {
    sleep(ADMISSION).await;
    if is_admitted.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}
