//! Settings of a host: the directory of plugins, their arguments and environment, timeouts. Created once by the server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Timeouts of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of a program to its handshake.
    pub start: Duration,
    /// Any call that is not listed below.
    pub call: Duration,
    /// Calls that are repeated: AppliesTo, progress, cancel.
    pub poll: Duration,
    /// CreateSnapshot and CreateVolumeFromSnapshot.
    pub volume: Duration,
    /// How long a stream may make no progress.
    pub stall: Duration,
    /// From the request to end until the kill.
    pub shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_mins(1),
            call: Duration::from_mins(10),
            poll: Duration::from_mins(1),
            volume: Duration::from_hours(4),
            stall: Duration::from_mins(5),
            shutdown: Duration::from_secs(2),
        }
    }
}

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Every executable below it is a plugin program.
    pub directory: PathBuf,
    /// Arguments of programs: `--log-level=…`, `--features=…`.
    pub arguments: Vec<String>,
    /// Their environment in addition to the handshake; see [`plugin_environment`].
    pub environment: Vec<(OsString, OsString)>,
    pub timeouts: Timeouts,
}

impl HostSettings {
    /// Programs below `directory`, started without arguments and environment.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, arguments: Vec::new(), environment: Vec::new(), timeouts: Timeouts::default() }
    }
}

/// The server's environment without what plugins must not get: passwords of repositories, and the handshake variables
/// of a host that started this server as its own child.
pub fn plugin_environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let wanted = |name: &OsString| {
        let name = name.to_string_lossy().to_uppercase();
        let password = name.starts_with("RESTIC_") || (name.contains("REPO") && name.contains("PASSWORD"));
        !password && !name.starts_with("PLUGIN_") && name != "VELERO_PLUGIN"
    };
    variables.into_iter().filter(|(name, _)| wanted(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_get_cloud_identities_and_no_repository_password() {
        let names = [
            "AWS_SHARED_CREDENTIALS_FILE",
            "KUBERNETES_SERVICE_HOST",
            "RESTIC_PASSWORD",
            "RESTIC_PASSWORD_FILE",
            "LIFEBOAT_REPOSITORY_PASSWORD_FILE",
            "repo_password",
            "PLUGIN_PROTOCOL_VERSIONS",
            "VELERO_PLUGIN",
            "LD_LIBRARY_PATH",
        ];
        let all = names.map(|name| (OsString::from(name), OsString::from("x")));
        let kept: Vec<_> = plugin_environment(all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(kept, ["AWS_SHARED_CREDENTIALS_FILE", "KUBERNETES_SERVICE_HOST", "LD_LIBRARY_PATH"]);
    }
}
