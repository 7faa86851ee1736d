//! The HTTP endpoints of the server: `/metrics` for Prometheus, `/healthz` and `/readyz` for the kubelet, and, on
//! addresses of their own, downloads of backup files for clients that hold a link, and the gateway of movers. The
//! operator creates one [`Metrics`] and one [`Health`], gives clones to its controllers and serves both here.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod downloads;
pub mod gateway;
mod health;
mod metrics;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use downloads::{Download, DownloadRefused, Downloads, serve_downloads};
pub use health::Health;
pub use metrics::{Metrics, Outcome, WorkOutcome};

/// Why the HTTP server could not run.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("cannot listen on {address} for {what}; choose another address with {flag}")]
    Listen { address: SocketAddr, what: &'static str, flag: &'static str, source: std::io::Error },
    #[error("the HTTP server of {what} ended")]
    Serve { what: &'static str, source: std::io::Error },
}

/// Serves until `stop` is cancelled.
pub async fn serve(
    address: SocketAddr,
    metrics: Metrics,
    health: Health,
    stop: CancellationToken,
) -> Result<(), WebError> {
    const WHAT: &str = "metrics and probes";
    let listener = listen(address).await.map_err(|source| WebError::Listen {
        address,
        what: WHAT,
        flag: "--metrics-address",
        source,
    })?;
    tracing::info!(%address, "serving /metrics, /healthz and /readyz");
    axum::serve(listener, router(metrics, health))
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
        .map_err(|source| WebError::Serve { what: WHAT, source })
}

/// On a machine without IPv6, the wildcard address means all IPv4 addresses.
async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

fn router(metrics: Metrics, health: Health) -> Router {
    let (live, ready) = (health.clone(), health);
    Router::new()
        .route(
            "/metrics",
            get(move || async move { ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.render()) }),
        )
        .route("/healthz", get(move || async move { probe(live.alive()) }))
        .route("/readyz", get(move || async move { probe(ready.ready()) }))
}

fn probe(good: bool) -> (StatusCode, &'static str) {
    if good { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") }
}
