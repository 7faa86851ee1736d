//! Flags of Stash's API. It is not complete yet (restores are missing), so its flags are hidden and it is off by default.

use std::path::Path;

use lifeboat_stash::StashSettings;

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
}

impl StashArgs {
    /// None where Stash's API is not served.
    pub(super) fn settings(self, spool: &Path) -> Option<StashSettings> {
        self.experimental_stash.then(|| StashSettings {
            tenant_namespaces: self.tenant_namespaces,
            served_by: self.served_by,
            temporary: spool.to_owned(),
            ..StashSettings::default()
        })
    }
}
