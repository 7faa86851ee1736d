//! Settings of plugins.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lifeboat_plugin::host::{HostSettings, Timeouts, plugin_environment};

/// Environment variables in which the plugins of each cloud expect the path of their credentials file; upstream's
/// list.
const CREDENTIALS_VARIABLES: [&str; 4] = [
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CREDENTIALS_FILE",
    "ALIBABA_CLOUD_CREDENTIALS_FILE",
];

/// Where plugin programs are, and their environment.
#[derive(Clone, Debug)]
pub struct PluginSettings {
    /// Every executable below it is a plugin program. It need not exist.
    pub directory: PathBuf,
    /// Credentials of the installation, as a file; None if it has none.
    pub credentials_file: Option<PathBuf>,
    /// The server's log filter; plugins get its first level.
    pub log_level: String,
    /// The server's own environment; variables that plugins must not see are removed from theirs.
    pub environment: Vec<(OsString, OsString)>,
    /// How long one call may take.
    pub call_timeout: Duration,
}

impl PluginSettings {
    /// `volume`: how long a snapshot or a volume may take.
    pub(crate) fn host(
        &self,
        namespace: &str,
        features: &BTreeSet<String>,
        volume: Duration,
    ) -> HostSettings {
        let mut environment = plugin_environment(self.environment.iter().cloned());
        // Plugins read the namespace of the server's objects from this variable.
        environment.retain(|(name, _)| name != "VELERO_NAMESPACE");
        environment.push(("VELERO_NAMESPACE".into(), namespace.into()));
        // Only if the file exists: without it, some clouds' libraries fail instead of using an identity.
        if let Some(file) = &self.credentials_file {
            for name in CREDENTIALS_VARIABLES {
                if environment.iter().all(|(given, _)| given != name) {
                    environment.push((name.into(), file.into()));
                }
            }
        }
        let mut arguments = vec![format!("--log-level={}", self.plugin_level())];
        if !features.is_empty() {
            let names: Vec<&str> = features.iter().map(String::as_str).collect();
            arguments.push(format!("--features={}", names.join(",")));
        }
        let timeouts = Timeouts { volume, call: self.call_timeout, ..Timeouts::default() };
        HostSettings { directory: self.directory.clone(), arguments, environment, timeouts }
    }

    /// The log level that is not for a single module, by logrus's name.
    fn plugin_level(&self) -> &str {
        let general = self.log_level.split(',').find(|part| !part.contains('='));
        match general.unwrap_or("info") {
            "warn" => "warning",
            "off" => "error",
            level => level,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_told_level_features_and_namespace() {
        let settings = PluginSettings {
            directory: "/plugins".into(),
            credentials_file: None,
            log_level: "kube=debug,warn".into(),
            environment: vec![
                ("VELERO_NAMESPACE".into(), "old".into()),
                ("RESTIC_PASSWORD".into(), "x".into()),
                ("AWS_REGION".into(), "here".into()),
            ],
            call_timeout: Duration::from_secs(3),
        };
        let features = ["EnableCSI".to_owned(), "Other".to_owned()].into();
        let host = settings.host("lifeboat", &features, Duration::from_secs(7));
        assert_eq!(host.arguments, ["--log-level=warning", "--features=EnableCSI,Other"]);
        let environment = [("AWS_REGION", "here"), ("VELERO_NAMESPACE", "lifeboat")];
        assert_eq!(host.environment, environment.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(
            (host.timeouts.volume, host.timeouts.call),
            (Duration::from_secs(7), Duration::from_secs(3))
        );
    }
    #[test]
    fn plugins_find_the_credentials_of_the_installation_unless_somebody_named_others() {
        let settings = PluginSettings {
            directory: "/plugins".into(),
            credentials_file: Some("/credentials/cloud".into()),
            log_level: "info".into(),
            call_timeout: Duration::from_secs(3),
            environment: vec![("AWS_SHARED_CREDENTIALS_FILE".into(), "/mine".into())],
        };
        let environment = settings.host("n", &BTreeSet::new(), Duration::ZERO).environment;
        let value = |name: &str| {
            let found: Vec<_> = environment.iter().filter(|(given, _)| given == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].1.clone()
        };
        assert_eq!(value("AWS_SHARED_CREDENTIALS_FILE"), "/mine");
        assert_eq!(value("GOOGLE_APPLICATION_CREDENTIALS"), "/credentials/cloud");
        assert_eq!(value("AZURE_CREDENTIALS_FILE"), "/credentials/cloud");
    }
}
