//! A process that only hosts plugins: takes a plugin directory, starts a call that never ends, reports it on standard
//! output and waits to be killed.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use lifeboat_plugin::Registry;
use lifeboat_plugin::host::{HostSettings, PluginHost, ServerLog};
use lifeboat_test_plugins::{NoCluster, backup, config_map};
use serde_json::json;

#[tokio::main]
async fn main() {
    let mut settings = HostSettings::new(PathBuf::from(std::env::args().nth(1).unwrap_or_default()));
    settings.environment = lifeboat_plugin::host::plugin_environment(std::env::vars_os());
    let session = PluginHost::discover(settings).await.session(Arc::new(ServerLog));
    let registry = Registry::default().with_plugins(&session);
    let mut out = std::io::stdout();
    for action in &registry.backup {
        let called = action.applies_to().await;
        let _ = writeln!(out, "{called:?}").and_then(|()| out.flush());
        let _ = action.execute(config_map(&json!({"fail": "hang"})), &backup(), &NoCluster).await;
    }
}
