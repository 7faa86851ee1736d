//! Flags of Stash's API. It is not complete yet (databases are missing), so its flags are hidden and it is off by default.

use std::path::Path;
use std::time::Duration;

use lifeboat_stash::StashSettings;

use super::duration;

#[derive(clap::Args)]
pub(super) struct StashArgs {
    /// Serve the kinds of Stash's API that have controllers; apply them with `lifeboat crds --all`
    #[arg(long, hide = true)]
    experimental_stash: bool,
    /// Namespaces whose Stash objects are served [default: all]
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', hide = true)]
    tenant_namespaces: Vec<String>,
    /// Name of this server: it serves namespaces with the label lifeboat.io/served-by of this value, and no others
    #[arg(long, value_name = "NAME", hide = true)]
    served_by: Option<String>,
    /// How long a restore without timeOut waits for what is missing
    #[arg(long, value_name = "DURATION", default_value = "24h0m0s", value_parser = duration, hide = true)]
    restore_wait: Duration,
}

impl StashArgs {
    /// None where Stash's API is not served.
    pub(super) fn settings(self, spool: &Path) -> Option<StashSettings> {
        self.experimental_stash.then(|| StashSettings {
            tenant_namespaces: self.tenant_namespaces,
            served_by: self.served_by,
            restore_wait: self.restore_wait,
            temporary: spool.to_owned(),
            ..StashSettings::default()
        })
    }
}
