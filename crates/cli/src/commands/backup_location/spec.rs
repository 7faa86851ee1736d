//! The object of a location from flags; used by `backup-location create` and `install`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use lifeboat_api::common::GoDuration;
use serde_json::{Value, json};

use crate::error::CliError;

/// Why a map or a credential reference is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpecError {
    #[error("{0:?} has no \"=\"; write KEY=VALUE,KEY=VALUE")]
    NoEquals(String),
    #[error("{0:?} has no key before \"=\"")]
    NoKey(String),
    #[error("key {0:?} is given twice")]
    Twice(String),
    #[error("{0:?} does not name a Secret and a key in it; write SECRET=KEY")]
    Credential(String),
}

/// A map in the form `KEY=VALUE,…`, as stock Velero accepts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigArg(pub(crate) BTreeMap<String, String>);

impl FromStr for ConfigArg {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut map = BTreeMap::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| SpecError::NoEquals(pair.to_owned()))?;
            if key.trim().is_empty() {
                return Err(SpecError::NoKey(pair.to_owned()));
            }
            if map.insert(key.trim().to_owned(), value.trim().to_owned()).is_some() {
                return Err(SpecError::Twice(key.trim().to_owned()));
            }
        }
        Ok(Self(map))
    }
}

/// `SECRET=KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CredentialArg {
    pub(crate) secret: String,
    pub(crate) key: String,
}

impl FromStr for CredentialArg {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text.split_once('=') {
            Some((secret, key)) if !secret.is_empty() && !key.is_empty() => {
                Ok(Self { secret: secret.to_owned(), key: key.to_owned() })
            }
            _ => Err(SpecError::Credential(text.to_owned())),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessMode {
    #[value(name = "ReadWrite", alias = "readwrite")]
    ReadWrite,
    #[value(name = "ReadOnly", alias = "readonly")]
    ReadOnly,
}

impl AccessMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "ReadWrite",
            Self::ReadOnly => "ReadOnly",
        }
    }
}

#[derive(clap::Args, Clone, Default)]
pub(crate) struct LocationArgs {
    /// Storage provider: aws (and S3-compatible servers), gcp, azure, local, or the name of a plugin
    #[arg(long)]
    pub(crate) provider: String,
    /// Bucket that holds the backups
    #[arg(long)]
    pub(crate) bucket: String,
    /// Directory in the bucket
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Make it the default location
    #[arg(long)]
    pub(crate) default: bool,
    /// Settings of the provider, such as region=…,s3Url=…,s3ForcePathStyle=true
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(crate) config: Option<ConfigArg>,
    /// Secret in Lifeboat's namespace with the credentials, and the key in it
    #[arg(long, value_name = "SECRET=KEY")]
    pub(crate) credential: Option<CredentialArg>,
    /// File with the certificate authority of the endpoint (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// Whether backups may be created and deleted there
    #[arg(long, value_enum)]
    pub(crate) access_mode: Option<AccessMode>,
    /// How often to sync backups from the bucket, such as 1m; 0 for never
    #[arg(long, value_name = "DURATION")]
    pub(crate) backup_sync_period: Option<GoDuration>,
    /// How often to validate the location, such as 1m; 0 for only when it changes
    #[arg(long, value_name = "DURATION")]
    pub(crate) validation_frequency: Option<GoDuration>,
    /// Labels of the location
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(crate) labels: Option<ConfigArg>,
    /// Others can write to this bucket: restores bring only what gives nobody rights, and name what they
    /// leave out, unless allowed
    #[arg(long)]
    pub(crate) untrusted: bool,
}

/// The annotation behind `--untrusted`.
const UNTRUSTED_ANNOTATION: &str = "lifeboat.io/untrusted";

/// The BackupStorageLocation to create.
pub(crate) fn object(namespace: &str, name: &str, args: &LocationArgs) -> Result<Value, CliError> {
    let mut storage = json!({"bucket": args.bucket});
    if let Some(prefix) = &args.prefix {
        storage["prefix"] = json!(prefix);
    }
    if let Some(path) = &args.cacert {
        storage["caCert"] = json!(read_ca(path)?);
    }
    let mut spec = json!({"provider": args.provider, "objectStorage": storage});
    if args.default {
        spec["default"] = json!(true);
    }
    if let Some(config) = &args.config {
        spec["config"] = json!(config.0);
    }
    if let Some(credential) = &args.credential {
        spec["credential"] = json!({"name": credential.secret, "key": credential.key});
    }
    if let Some(mode) = args.access_mode {
        spec["accessMode"] = json!(mode.name());
    }
    if let Some(period) = args.backup_sync_period {
        spec["backupSyncPeriod"] = json!(period);
    }
    if let Some(frequency) = args.validation_frequency {
        spec["validationFrequency"] = json!(frequency);
    }
    let mut metadata = json!({"name": name, "namespace": namespace});
    if let Some(labels) = &args.labels {
        metadata["labels"] = json!(labels.0);
    }
    if args.untrusted {
        metadata["annotations"] = json!({UNTRUSTED_ANNOTATION: "true"});
    }
    Ok(
        json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": metadata, "spec": spec}),
    )
}

/// Reads a certificate authority and encodes it as the object holds it.
pub(crate) fn read_ca(path: &Path) -> Result<String, CliError> {
    let bytes = read_file(path, "certificate authority")?;
    if !bytes.windows(10).any(|window| window == b"-----BEGIN") {
        return Err(CliError::refused(format!("{} contains no PEM certificate", path.display()))
            .help("a PEM file starts with -----BEGIN CERTIFICATE-----"));
    }
    Ok(STANDARD.encode(bytes))
}

pub(crate) fn read_file(path: &Path, what: &str) -> Result<Vec<u8>, CliError> {
    std::fs::read(path)
        .map_err(|error| CliError::failed(format!("cannot read the {what} from {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_in_upstreams_form_and_nonsense_is_named() {
        let map: ConfigArg = "region=a, s3Url=http://h:1/?x=y".parse().unwrap();
        assert_eq!(map.0["region"], "a");
        assert_eq!(map.0["s3Url"], "http://h:1/?x=y");
        assert!("region".parse::<ConfigArg>().unwrap_err().to_string().contains("\"region\""));
        assert!("=x".parse::<ConfigArg>().unwrap_err().to_string().contains("no key"));
        assert!("a=1,a=2".parse::<ConfigArg>().unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn only_what_was_given_stands_in_the_object() {
        let args = LocationArgs { provider: "aws".into(), bucket: "b".into(), ..LocationArgs::default() };
        let made = object("lifeboat", "main", &args).unwrap();
        assert_eq!(made["spec"], json!({"provider": "aws", "objectStorage": {"bucket": "b"}}));
    }
}
