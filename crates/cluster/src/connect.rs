//! Connecting: takes the cluster that the user named and returns a client. Called by the CLI and the server.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Which cluster to connect to. If all fields are empty: that of the pod, otherwise the current context of the user's
/// kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot read the kubeconfig {path:?}")]
    Read {
        path: PathBuf,
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    #[error("the kubeconfig has no context {context:?}; it has: {known}")]
    UnknownContext { context: String, known: String },
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    #[error("found no cluster: neither a kubeconfig nor a pod's service account")]
    Infer(#[source] Box<kube::config::InferConfigError>),
    #[error("cannot make a client for the cluster")]
    Client(#[source] Box<kube::Error>),
}

/// How long the API server may send nothing: a connection that was lost unnoticed (a failed node, a firewall that
/// dropped its state) must not block a caller forever. Calls with longer pauses, such as exec, need another client.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// The timeout of a watch request, in seconds. It is shorter than the read timeout of the client, so that the API
/// server ends an idle watch regularly and it is started again.
pub const WATCH_SECONDS: u32 = 45;

/// Makes a client. Calls without an answer fail after a minute.
pub async fn connect(options: &ConnectOptions) -> Result<Client, ConnectError> {
    let config = bounded(config(options).await?, READ_TIMEOUT);
    Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
}

/// Makes a client that sends each request once. For callers that limit the number of requests and must see that the API
/// server is too busy.
pub async fn direct(options: &ConnectOptions) -> Result<Client, ConnectError> {
    let mut config = bounded(config(options).await?, READ_TIMEOUT);
    config.default_retry = false;
    Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
}

/// Makes a client without a read timeout, for calls whose duration the caller limits: commands in pods.
pub async fn connect_patient(options: &ConnectOptions) -> Result<Client, ConnectError> {
    let mut config = bounded(config(options).await?, READ_TIMEOUT);
    config.read_timeout = None;
    Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
}

fn bounded(mut config: Config, silence: Duration) -> Config {
    config.connect_timeout = Some(Duration::from_secs(10));
    config.write_timeout = Some(Duration::from_secs(30));
    config.read_timeout = Some(silence);
    // The timeout counts from the request, not from the last use of its connection.
    config.reset_reader_on_write = true;
    config
}

async fn config(options: &ConnectOptions) -> Result<Config, ConnectError> {
    if options.kubeconfig.is_none() && options.context.is_none() {
        return Config::infer().await.map_err(|error| ConnectError::Infer(Box::new(error)));
    }
    let kubeconfig = match &options.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)
            .map_err(|source| ConnectError::Read { path: path.clone(), source: Box::new(source) })?,
        None => Kubeconfig::read().map_err(|error| ConnectError::Kubeconfig(Box::new(error)))?,
    };
    if let Some(context) = &options.context {
        let known: Vec<_> = kubeconfig.contexts.iter().map(|known| known.name.clone()).collect();
        if !known.contains(context) {
            return Err(ConnectError::UnknownContext { context: context.clone(), known: known.join(", ") });
        }
    }
    let choice = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &choice)
        .await
        .map_err(|error| ConnectError::Kubeconfig(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_to_a_silent_api_server_ends() {
        // Accepts connections and never sends anything.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = Client::try_from(bounded(config, Duration::from_millis(100))).unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(10), client.apiserver_version()).await;
        assert!(answer.expect("the call hangs").is_err());
    }

    #[test]
    fn a_quiet_watch_is_ended_by_the_api_server_before_the_client_gives_up() {
        assert!(Duration::from_secs(WATCH_SECONDS.into()) + Duration::from_secs(10) < READ_TIMEOUT);
    }
}
