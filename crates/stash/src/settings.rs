//! The settings of Stash's API, resolved once by the CLI (flag, then environment, then default) and passed down.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lifeboat_store::Guard;

/// The settings of Stash's controllers.
#[derive(Clone, Debug)]
pub struct StashSettings {
    /// The namespaces whose objects are served; empty for all.
    pub tenant_namespaces: Vec<String>,
    /// The name of this server: it serves the namespaces that are labelled with it, and no others. Without a name, those without
    /// the label.
    pub served_by: Option<String>,
    /// Whether Restics are served, whose kind is not installed by default.
    pub restics: bool,
    /// How long a restore without `timeOut` waits for missing objects.
    pub restore_wait: Duration,
    /// Images of database tools, by family (`mysql`), instead of the official ones.
    pub tool_images: BTreeMap<String, String>,
    /// Which addresses a tenant's storage may have.
    pub guard: Guard,
    /// The directory for large indexes.
    pub temporary: PathBuf,
}

impl Default for StashSettings {
    fn default() -> Self {
        Self {
            tenant_namespaces: Vec::new(),
            served_by: None,
            restics: false,
            restore_wait: Duration::from_hours(24),
            tool_images: BTreeMap::new(),
            guard: Guard::default(),
            temporary: std::env::temp_dir(),
        }
    }
}
