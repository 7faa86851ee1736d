//! Arguments of all repository commands, accepted before or after the command's name. Flags and variables have restic's
//! names; `settings` resolves them.

use std::path::PathBuf;

use clap::Args;

use crate::args::Output;

/// The heading of these arguments in the help.
pub(crate) const COMMON_HEADING: &str = "Options of all repository commands";

/// The repository, its password, and how to access it.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = COMMON_HEADING)]
pub(crate) struct CommonArgs {
    /// The repository: a directory, or s3:, gs:, azure:, rest: and an address (default: $RESTIC_REPOSITORY)
    #[arg(short, long, global = true, value_name = "LOCATION")]
    pub(crate) repo: Option<String>,
    /// File with the repository's location (default: $RESTIC_REPOSITORY_FILE)
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "repo")]
    pub(crate) repository_file: Option<PathBuf>,
    /// File with the password (default: $RESTIC_PASSWORD_FILE, then $RESTIC_PASSWORD, then a prompt)
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Command that prints the password (default: $RESTIC_PASSWORD_COMMAND)
    #[arg(long, global = true, value_name = "COMMAND", conflicts_with = "password_file")]
    pub(crate) password_command: Option<String>,
    /// Use an empty password: anyone with access to the repository can read it
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) insecure_no_password: bool,
    /// Id of the key to try first (default: $RESTIC_KEY_HINT)
    #[arg(long, global = true, value_name = "ID", hide_short_help = true)]
    pub(crate) key_hint: Option<String>,
    /// Format of the output; json has restic's structure
    #[arg(short, long, global = true, value_enum)]
    pub(crate) output: Option<Output>,
    /// Print JSON, as --output json
    #[arg(long, global = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// Print errors and data only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more; twice for everything
    #[arg(short, long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        action = clap::ArgAction::Append, value_name = "LEVEL")]
    pub(crate) verbose: Vec<u8>,
    /// Read without a lock, for read-only access
    #[arg(long, global = true)]
    pub(crate) no_lock: bool,
    /// How long to wait for other locks, as in "5m"
    #[arg(long, global = true, value_name = "DURATION", value_parser = crate::units::duration)]
    pub(crate) retry_lock: Option<std::time::Duration>,
    /// Host name in the locks of this command (default: $LIFEBOAT_LOCK_OWNER, then this machine's name)
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) lock_owner: Option<String>,
    /// Host name of locks whose owner is known to be dead: they are removed at once; can be repeated
    #[arg(long = "dead-owner", global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) dead_owners: Vec<String>,
    /// Target size of packs in MiB, 4 to 128 (default: $RESTIC_PACK_SIZE, then 16)
    #[arg(long, global = true, value_name = "MIB", hide_short_help = true)]
    pub(crate) pack_size: Option<u32>,
    /// Compression: auto, off, fastest, better or max (default: $RESTIC_COMPRESSION, then auto)
    #[arg(long, global = true, value_name = "MODE", hide_short_help = true)]
    pub(crate) compression: Option<String>,
    /// Upload limit in KiB per second; 0 for no limit
    #[arg(long, global = true, value_name = "KIB", default_value_t = 0, hide_default_value = true)]
    pub(crate) limit_upload: u32,
    /// Download limit in KiB per second; 0 for no limit
    #[arg(long, global = true, value_name = "KIB", default_value_t = 0, hide_default_value = true)]
    pub(crate) limit_download: u32,
    /// Setting of the storage, as in s3.bucket-lookup=path; can be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", value_delimiter = ',', hide_short_help = true)]
    pub(crate) option: Vec<String>,
    /// PEM file of certificate authorities to trust; can be repeated (default: $RESTIC_CACERT, then the system's)
    #[arg(long, global = true, value_name = "FILE", value_delimiter = ',', hide_short_help = true)]
    pub(crate) cacert: Vec<PathBuf>,
    /// PEM file of the client's certificate and key (default: $RESTIC_TLS_CLIENT_CERT)
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) tls_client_cert: Option<PathBuf>,
    /// Do not verify the server's certificate: others on the network can then read and change requests
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) insecure_tls: bool,
    /// Do not cache indexes and trees on this machine
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) no_cache: bool,
    /// Cache directory (default: $RESTIC_CACHE_DIR, then the user's)
    #[arg(long, global = true, value_name = "DIRECTORY", hide_short_help = true)]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Remove caches that were not used for 30 days
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) cleanup_cache: bool,
    /// Accepted for scripts: data is always verified before it is uploaded
    #[arg(long, global = true, hide = true)]
    pub(crate) no_extra_verify: bool,
    /// Accepted for scripts: requests that make no progress are always tried again
    #[arg(long, global = true, hide = true, value_name = "DURATION")]
    pub(crate) stuck_request_timeout: Option<String>,
    /// Accepted for scripts: the User-Agent of requests is always Lifeboat's
    #[arg(long, global = true, hide = true, value_name = "TEXT")]
    pub(crate) http_user_agent: Option<String>,
}

/// The cluster's flags of `lifeboat`, declared again so that repository commands do not inherit them: for those `-n` is
/// a dry run, and no cluster is used. clap passes a global argument on unless the subcommand has one with the same id.
#[derive(Args)]
pub(crate) struct NoCluster {
    #[arg(id = "namespace", long = "namespace", hide = true)]
    _namespace: Option<String>,
    #[arg(id = "context", long = "context", hide = true)]
    _context: Option<String>,
    #[arg(id = "kubeconfig", long = "kubeconfig", hide = true)]
    _kubeconfig: Option<PathBuf>,
}
