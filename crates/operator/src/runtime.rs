//! The server's life: connect, check that the kinds are there, serve metrics, stand for election, run the controllers
//! while leading, step down. Losing the lease drops all work at once; a stop signal lets it end and hands over.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use lifeboat_cluster::lease::{Election, Ended};
use lifeboat_cluster::{ConnectError, ConnectOptions, crds};
use lifeboat_plugin::host::PluginHost;
use lifeboat_web::{Health, Metrics, WebError};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, VERSION};
use crate::controllers;
use crate::downloads::Links;
use crate::settings::ServerSettings;

/// The Lease of the election.
const LEASE: &str = "lifeboat-server";

/// How long the question which kinds there are may take.
const ANSWER: Duration = Duration::from_secs(30);

/// Why a server ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot reach the cluster")]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Web(#[from] WebError),
}

/// What a Restore would do, worked out with the rights of whoever calls; or what is wrong with it.
pub async fn preview_restore(
    client: Client,
    settings: ServerSettings,
    restore: lifeboat_api::velero::Restore,
) -> Result<crate::items::plan::Planned, crate::items::plan::NotPlanned> {
    let context = Context::new(client, Metrics::new(VERSION), Arc::new(settings));
    Box::pin(crate::restore::preview(&context, restore)).await
}

/// Runs until `stop` is cancelled.
pub async fn run(
    connection: &ConnectOptions,
    settings: ServerSettings,
    stop: CancellationToken,
) -> Result<(), ServerError> {
    let settings = Arc::new(settings);
    let client = lifeboat_cluster::connect(connection).await?;
    let patient = lifeboat_cluster::connect_patient(connection).await?;
    let (metrics, health) = (Metrics::new(VERSION), Health::default());
    tracing::info!(
        version = VERSION,
        identity = settings.identity,
        namespace = settings.namespace,
        "server starts"
    );

    // The HTTP server outlives the controllers, so that the last moments can be observed too.
    let stop_web = CancellationToken::new();
    let web = tokio::spawn(lifeboat_web::serve(
        settings.metrics_address,
        metrics.clone(),
        health.clone(),
        stop_web.clone(),
    ));
    let direct = lifeboat_cluster::connect::direct(connection).await?;
    crate::credential_files::clear(&settings.storage.spool_directory);
    let plugins = discover_plugins(&settings).await;
    let context = Context::new(client, metrics, settings)
        .with_patient_client(patient)
        .with_direct_client(direct)
        .with_plugins(plugins);
    let downloads = serve_downloads(&context, &stop_web);
    let work = serve_terms(&context, &health, &stop);
    let ended = tokio::select! {
        () = work => Ok(()),
        ended = downloads => ended,
        web = web => match web {
            Ok(Err(error)) => Err(ServerError::Web(error)),
            // The HTTP server ends only when told to; a panic in it ends the process.
            _ => Ok(()),
        },
    };
    stop_web.cancel();
    context.stores.close().await;
    tracing::info!("server ends");
    ended
}

/// Runs each program of the plugin directory once. One that cannot be used keeps nobody from starting.
async fn discover_plugins(settings: &ServerSettings) -> PluginHost {
    let Some(plugins) = &settings.plugins else { return PluginHost::empty() };
    let backups = &settings.backup;
    let volume = backups.defaults.item_operation_timeout;
    let host = PluginHost::discover(plugins.host(&settings.namespace, &backups.features, volume)).await;
    for plugin in host.plugins() {
        tracing::info!(kind = %plugin.kind, name = plugin.name, program = %plugin.program.display(), "plugin found");
    }
    for problem in host.problems() {
        tracing::error!(path = %problem.path.display(), "plugin not used: {}", problem.message);
    }
    host
}

/// Answers links to files where the settings say so: in every replica, whoever leads.
async fn serve_downloads(context: &Context, stop: &CancellationToken) -> Result<(), ServerError> {
    let Some(settings) = &context.settings.storage.downloads else {
        return std::future::pending().await;
    };
    let links = Arc::new(Links { context: context.clone() });
    Ok(lifeboat_web::serve_downloads(settings.address, links, stop.clone()).await?)
}

/// Term after term of leadership, until stopped.
async fn serve_terms(context: &Context, health: &Health, stop: &CancellationToken) {
    if !wait_for_kinds(&context.client, health, stop).await {
        return;
    }
    let settings = &context.settings;
    while !stop.is_cancelled() {
        let watchdog = health.clone();
        let mut election =
            Election::new(&context.client, &settings.namespace, LEASE, &settings.identity, settings.lease)
                .with_pulse(move || watchdog.pulse());
        if !election.acquire(stop).await {
            return;
        }
        tracing::info!(identity = settings.identity, "leading");
        context.metrics.begin_term();
        let ended = election.lead(Box::pin(term(context, stop))).await;
        context.metrics.end_term();
        if ended == Ended::WorkDone {
            election.release().await;
        }
        if !stop.is_cancelled() {
            sleep(settings.lease.retry).await;
        }
    }
}

/// The work of a leader. Ends when stopped, after the controllers came to rest.
async fn term(context: &Context, stop: &CancellationToken) {
    let resting = CancellationToken::new();
    let controllers = controllers::run(context, &resting);
    tokio::pin!(controllers);
    tokio::select! {
        // They end only when told to; the next term starts them anew.
        () = &mut controllers => tracing::error!("the controllers ended by themselves"),
        () = stop.cancelled() => {
            resting.cancel();
            // Reconciles in flight are short; whatever hangs must not hold the handover.
            let _ = timeout(Duration::from_secs(10), &mut controllers).await;
        }
    }
}

/// Waits until the cluster answers and serves our kinds; false where stopped first.
async fn wait_for_kinds(client: &Client, health: &Health, stop: &CancellationToken) -> bool {
    let names = lifeboat_api::crds::installed().iter().map(|crd| crd.name().to_owned()).collect::<Vec<_>>();
    let served = async {
        loop {
            health.pulse();
            match timeout(ANSWER, crds::missing(client, &names)).await {
                Ok(Ok(missing)) if missing.is_empty() => return,
                Ok(Ok(missing)) => tracing::error!(
                    ?missing,
                    "the cluster lacks custom resources; apply them with `lifeboat install` or `lifeboat crds | kubectl apply -f -`"
                ),
                Ok(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the cluster does not answer");
                }
                Err(_elapsed) => tracing::warn!("the cluster does not answer in time"),
            }
            sleep(Duration::from_secs(2)).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => false,
        () = served => {
            health.set_ready(true);
            true
        }
    }
}
