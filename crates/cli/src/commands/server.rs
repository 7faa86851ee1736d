//! `lifeboat server`: the program that the server's Deployment runs.

mod backups;
pub(crate) mod movers;
mod plugins;
mod restores;
mod stash;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use lifeboat_api::common::GoDuration;
use lifeboat_operator::ServerSettings;
use lifeboat_plan::lease::LeaseTimes;
use lifeboat_velero::{DownloadSettings, StorageSettings, VeleroSettings};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use url::Url;

use crate::error::CliError;
use crate::settings::{Settings, readable_variables};
use backups::BackupArgs;
use movers::MoverArgs;
use plugins::PluginArgs;
use restores::RestoreArgs;
use stash::StashArgs;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of this replica in the leader election; the pod's name in a cluster
    #[arg(long, env = "LIFEBOAT_IDENTITY", default_value_t = default_identity(), hide_default_value = true)]
    identity: String,
    /// Address of metrics and probes; ":8085" listens on all interfaces
    #[arg(long, default_value = ":8085", value_parser = address)]
    metrics_address: SocketAddr,
    /// How often to validate locations without a frequency of their own; 0 for only when they change
    #[arg(long, default_value = "1m0s", value_parser = duration)]
    store_validation_frequency: Duration,
    /// How often to sync locations without a period of their own; 0 for never
    #[arg(long, default_value = "1m0s", value_parser = duration)]
    backup_sync_period: Duration,
    /// How often to delete expired backups; 0 for never
    #[arg(long, default_value = "1h0m0s", value_parser = duration)]
    garbage_collection_frequency: Duration,
    /// Base URL of this server for downloads of backup files [default: links that storage signs]
    #[arg(long, value_name = "URL", overrides_with = "download_url")]
    download_url: Option<Url>,
    /// Address for downloads, with --download-url
    #[arg(long, default_value = ":8086", value_parser = address)]
    download_address: SocketAddr,
    /// Directory for unpacked archives and logs
    #[arg(long, default_value_os_t = std::env::temp_dir(), hide_default_value = true, overrides_with = "spool_directory")]
    spool_directory: PathBuf,
    /// Maximum size of a restore's archive in that directory, in MiB [default: free space of the disk]
    #[arg(long, value_name = "MIB", overrides_with = "spool_size")]
    spool_size: Option<u64>,
    /// How long a backup or restore waits for storage that is away (unreachable, failing, throttling); 0 for a few seconds
    #[arg(long, default_value = "15m0s", value_parser = duration)]
    storage_outage_timeout: Duration,
    /// Default of skipImmediately: skip a backup that is due when a schedule is created or unpaused
    #[arg(long)]
    schedule_skip_immediately: bool,
    #[command(flatten)]
    backups: BackupArgs,
    #[command(flatten)]
    restores: RestoreArgs,
    #[command(flatten)]
    movers: MoverArgs,
    #[command(flatten)]
    plugins: PluginArgs,
    #[command(flatten)]
    stash: StashArgs,
    /// Log level: error, warn, info, debug or trace, also per module as in "info,kube=debug"
    #[arg(long, default_value = "info", value_parser = log_filter)]
    log_level: String,
    /// Format of log lines
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub(crate) async fn run(settings: Settings, args: Args) -> Result<(), CliError> {
    start_log(&args)?;
    let plugins = args.plugins.settings(&args.log_level);
    let gateway = args.stash.gateway(&args.spool_directory);
    let stash = args.stash.settings(&args.spool_directory);
    let velero = VeleroSettings {
        validation_frequency: args.store_validation_frequency,
        schedule_skip_immediately: args.schedule_skip_immediately,
        cloud: lifeboat_store::Environment::from_vars(readable_variables()),
        storage: StorageSettings {
            sync_period: args.backup_sync_period,
            garbage_frequency: args.garbage_collection_frequency,
            downloads: args.download_url.map(|url| DownloadSettings { url, address: args.download_address }),
            spool_directory: args.spool_directory,
            spool_bytes: args.spool_size.map(|mib| mib.saturating_mul(1024 * 1024)),
            outage_timeout: args.storage_outage_timeout,
        },
        restore: args
            .restores
            .settings(args.backups.resource_timeout, args.backups.default_item_operation_timeout),
        backup: args.backups.settings(args.movers.velero_compatible_volumes),
        plugins: Some(plugins),
    };
    let server = ServerSettings {
        namespace: settings.namespace,
        identity: args.identity,
        metrics_address: args.metrics_address,
        lease: LeaseTimes::default(),
        movers: args.movers.settings(),
        gateway,
        velero,
        stash,
    };
    let stop = stop_on_signal()?;
    Box::pin(lifeboat_operator::run(&settings.connection, server, stop))
        .await
        .map_err(|error| CliError::failed("the server ended", error))
}

fn start_log(args: &Args) -> Result<(), CliError> {
    let filter = EnvFilter::try_new(&args.log_level).map_err(|error| {
        CliError::failed(format!("cannot use --log-level {:?}", args.log_level), error)
            .help("use one of error, warn, info, debug, trace")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// A level (also under the names that stock Velero uses), or levels per module. A misspelt level is refused, because it
/// would silence the server.
fn log_filter(text: &str) -> Result<String, String> {
    let level = |name: &str| match name.to_lowercase().as_str() {
        "trace" => Some("trace"),
        "debug" => Some("debug"),
        "info" => Some("info"),
        "warn" | "warning" => Some("warn"),
        "error" | "fatal" | "panic" => Some("error"),
        "off" => Some("off"),
        _ => None,
    };
    let known = "use error, warn, info, debug or trace, also per module as in \"info,kube=debug\"";
    let part = |part: &str| match part.split_once('=') {
        None => level(part).map(str::to_owned).ok_or_else(|| format!("{part:?} is not a log level; {known}")),
        Some((module, name)) => level(name)
            .map(|level| format!("{module}={level}"))
            .ok_or_else(|| format!("{name:?} is not a log level; {known}")),
    };
    text.split(',').map(str::trim).map(part).collect::<Result<Vec<_>, _>>().map(|parts| parts.join(","))
}

/// A token that TERM (sent by the kubelet) or INT (sent by a terminal) cancels. It listens before it returns: a signal that
/// arrives at any later moment is not lost.
pub(crate) fn stop_on_signal() -> Result<CancellationToken, CliError> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|error| CliError::failed("cannot listen for signals", error));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("received a signal to stop (TERM)"),
            _ = interrupt.recv() => tracing::info!("received a signal to stop (INT)"),
        }
        stopped.cancel();
    });
    Ok(stop)
}

fn default_identity() -> String {
    format!("lifeboat-{}", std::process::id())
}

/// Parses an address. Go's form ":8085" listens on every IPv4 and IPv6 address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    full.parse()
        .map_err(|_| format!("{text:?} is not an address; write it like \":8085\" or \"127.0.0.1:8085\""))
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: GoDuration = text.parse().map_err(|error| format!("{error}"))?;
    u64::try_from(parsed.as_nanos()).map(Duration::from_nanos).map_err(|_| format!("{text:?} is negative"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn an_argument_that_was_added_at_install_wins_over_the_installations_own() {
        let line = ["server", "--spool-size=1", "--spool-directory=/spool", "--spool-size=2"];
        let args = Line::try_parse_from(line).map_err(|error| error.to_string()).unwrap().args;
        assert_eq!(args.spool_size, Some(2));
    }

    #[test]
    fn a_misspelt_log_level_is_refused_and_upstreams_names_are_known() {
        assert_eq!(log_filter("warning,kube=debug").unwrap(), "warn,kube=debug");
        assert!(log_filter("inof").unwrap_err().contains("\"inof\""));
        assert!(log_filter("").is_err());
    }

    #[test]
    fn addresses_are_taken_in_gos_short_form() {
        assert_eq!(address(":8085").unwrap(), "[::]:8085".parse().unwrap());
        assert_eq!(address("127.0.0.1:1").unwrap(), "127.0.0.1:1".parse().unwrap());
        assert!(address("8085").unwrap_err().contains("\":8085\""));
    }
}
