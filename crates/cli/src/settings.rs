//! The settings that the global arguments resolve to, made once.

use kube::Client;
use lifeboat_cluster::{ConnectOptions, connect};

use crate::args::Global;
use crate::error::CliError;

/// The cluster and the namespace of one invocation.
pub(crate) struct Settings {
    pub(crate) namespace: String,
    /// Whether an argument names the namespace, and neither a variable nor the default.
    pub(crate) namespace_is_given: bool,
    pub(crate) connection: ConnectOptions,
}

impl Settings {
    pub(crate) fn new(global: Global) -> Self {
        Self {
            namespace: global.namespace,
            namespace_is_given: global.namespace_is_given,
            connection: ConnectOptions { kubeconfig: global.kubeconfig, context: global.context },
        }
    }

    pub(crate) async fn client(&self) -> Result<Client, CliError> {
        Ok(connect(&self.connection).await?)
    }
}

/// The environment variables with UTF-8 names and values.
pub(crate) fn readable_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
