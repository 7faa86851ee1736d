//! Runs the server: connects, checks that the cluster serves our kinds, serves metrics, takes part in the leader
//! election, and runs the controllers while this replica is the leader. When the Lease is lost, all work is dropped at
//! once; after a stop signal, controllers finish their reconciles and the Lease is released to another replica.

use std::time::Duration;

use kube::Client;
use lifeboat_cluster::lease::{Election, TermEnd};
use lifeboat_cluster::{ConnectError, ConnectOptions};
use lifeboat_control::Core;
use lifeboat_transfer::TransferService;
use lifeboat_web::{Health, Metrics, WebError};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::apis::Apis;
use crate::kinds::WantedKinds;
use crate::settings::ServerSettings;

/// Lifeboat's own version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The Lease of the election.
const LEASE: &str = "lifeboat-server";

/// Why a server ended although it was not asked to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot reach the cluster")]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Web(#[from] WebError),
}

/// Runs until `stop` is cancelled.
pub async fn run(
    connection: &ConnectOptions,
    settings: ServerSettings,
    stop: CancellationToken,
) -> Result<(), ServerError> {
    let client = lifeboat_cluster::connect(connection).await?;
    let patient = lifeboat_cluster::connect_patient(connection).await?;
    let direct = lifeboat_cluster::connect::direct(connection).await?;
    let (metrics, health) = (Metrics::new(VERSION), Health::default());
    tracing::info!(
        version = VERSION,
        identity = settings.identity,
        namespace = settings.namespace,
        "server starts"
    );

    // The HTTP server stops after the controllers, so that metrics and probes are served until they have ended.
    let stop_web = CancellationToken::new();
    let web = tokio::spawn(lifeboat_web::serve(
        settings.metrics_address,
        metrics.clone(),
        health.clone(),
        stop_web.clone(),
    ));
    let core = Core::new(client, metrics, &settings.namespace, &settings.identity);
    let core = Core { direct, patient, ..core };
    let transfer = TransferService::new(&core, settings.movers.clone());
    let transfer = transfer.with_gateway(&core, settings.gateway.clone());
    let apis = Apis::new(&core, &transfer, &settings).await;
    let server = Server { core, settings, health, transfer, apis };
    let work = server.serve_terms(&stop);
    let ended = tokio::select! {
        () = work => Ok(()),
        ended = server.apis.serve(&stop_web) => ended.map_err(ServerError::Web),
        web = web => match web {
            Ok(Err(error)) => Err(ServerError::Web(error)),
            // The HTTP server ends only when `stop_web` is cancelled; a panic in it ends the process.
            _ => Ok(()),
        },
    };
    stop_web.cancel();
    server.apis.close().await;
    tracing::info!("server ends");
    ended
}

/// One replica.
struct Server {
    core: Core,
    settings: ServerSettings,
    health: Health,
    /// Shared by all APIs, like `core`.
    transfer: TransferService,
    apis: Apis,
}

impl Server {
    /// Runs one term of leadership after the other, until stopped.
    async fn serve_terms(&self, stop: &CancellationToken) {
        let settings = &self.settings;
        if !wait_for_kinds(&self.core.client, &self.health, stop).await {
            return;
        }
        while !stop.is_cancelled() {
            let watchdog = self.health.clone();
            let (client, namespace) = (&self.core.client, &settings.namespace);
            let mut election = Election::new(client, namespace, LEASE, &settings.identity, settings.lease)
                .with_pulse(move || watchdog.pulse());
            if !election.acquire(stop).await {
                return;
            }
            tracing::info!(identity = settings.identity, "leading");
            self.core.metrics.begin_term();
            let ended = election.lead(Box::pin(self.term(stop))).await;
            self.core.metrics.end_term();
            self.transfer.end_term();
            self.apis.end_term();
            if ended == TermEnd::WorkDone {
                election.release().await;
            }
            if !stop.is_cancelled() {
                sleep(settings.lease.retry).await;
            }
        }
    }

    /// Runs the controllers of a leader. Ends when `stop` is cancelled and the controllers have finished their
    /// reconciles.
    async fn term(&self, stop: &CancellationToken) {
        let shutdown = CancellationToken::new();
        self.transfer.begin_term(&shutdown);
        let controllers = async {
            tokio::join!(self.transfer.run(&shutdown), self.apis.run_controllers(&shutdown));
        };
        tokio::pin!(controllers);
        tokio::select! {
            // They should end only when `shutdown` is cancelled; the next term starts them again.
            () = &mut controllers => tracing::error!("the controllers ended by themselves"),
            () = stop.cancelled() => {
                shutdown.cancel();
                // Reconciles in flight are short; one that hangs must not delay the handover.
                let _ = timeout(Duration::from_secs(10), &mut controllers).await;
            }
        }
    }
}

/// Waits until the cluster answers and serves the kinds that every server has; false if stopped before that.
async fn wait_for_kinds(client: &Client, health: &Health, stop: &CancellationToken) -> bool {
    let apply = "lifeboat crds | kubectl apply --server-side -f -";
    let kinds = WantedKinds::new(&lifeboat_api::crds::installed(false), apply, Duration::from_secs(2));
    tokio::select! {
        () = stop.cancelled() => false,
        () = kinds.served(client, || health.pulse()) => {
            health.set_ready(true);
            true
        }
    }
}
