//! Connecting: takes which cluster the user named, gives a client. Called by the CLI and the server.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Which cluster to talk to. All empty: the pod's own, else the current context of the user's kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// Why there is no connection.
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

/// Makes a client. Calls that do not answer are given up after half a minute.
pub async fn connect(options: &ConnectOptions) -> Result<Client, ConnectError> {
    let mut config = config(options).await?;
    config.connect_timeout = Some(Duration::from_secs(10));
    config.write_timeout = Some(Duration::from_secs(30));
    Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
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
