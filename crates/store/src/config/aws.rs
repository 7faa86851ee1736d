//! S3 and compatible servers: the keys of Velero's aws plugin (v1.14) and the shared credentials file.

mod addressing;

use base64::Engine;
use object_store::TagSet;
use object_store::aws::Checksum;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::keys::{Keys, value};
use super::{Environment, Files, StoreConfig};
use crate::credentials::aws_file::{AwsFile, AwsKeys, AwsSource, OutsideSources, Role};
use crate::error::{Error, Result};

pub(crate) use addressing::{Address, dns_suffix};

const KNOWN: [&str; 15] = [
    "region",
    "s3Url",
    "publicUrl",
    "kmsKeyId",
    "customerKeyEncryptionFile",
    "customerKeyEncryptionSecret",
    "s3ForcePathStyle",
    "signatureVersion",
    "credentialsFile",
    "profile",
    "serverSideEncryption",
    "insecureSkipTLSVerify",
    "enableSharedConfig",
    "tagging",
    "checksumAlgorithm",
];

/// How the server encrypts new objects.
#[derive(Debug)]
pub(crate) enum Encryption {
    None,
    /// SSE-S3.
    Aes256,
    /// SSE-KMS (`aws:kms`) or DSSE-KMS (`aws:kms:dsse`), with a key or the account's own.
    Kms {
        kind: &'static str,
        key: Option<String>,
    },
    /// SSE-C: the key is sent with every request, in base64.
    Customer(SecretString),
}

/// Checked settings for S3.
#[derive(Debug)]
pub(crate) struct AwsConfig {
    /// None: AWS is asked for it.
    pub region: Option<String>,
    pub s3_url: Option<Url>,
    pub public_url: Option<Url>,
    pub path_style: bool,
    pub encryption: Encryption,
    pub skip_tls_verify: bool,
    pub tags: TagSet,
    pub checksum: Option<Checksum>,
    pub source: AwsSource,
    pub container: ContainerEndpoint,
    pub sts_url: Option<String>,
}

/// The endpoint at which the pod's agent provides credentials.
#[derive(Debug, Default)]
pub(crate) struct ContainerEndpoint {
    pub relative_uri: Option<String>,
    pub full_uri: Option<String>,
    pub token_file: Option<String>,
}

pub(super) fn validate(config: &StoreConfig, environment: &Environment, files: &Files) -> Result<AwsConfig> {
    let keys = Keys::new("aws", &config.config, &KNOWN, &[])?;
    let s3_url = keys.url("s3Url")?;
    if let Some(version) = keys.get("signatureVersion").filter(|version| *version != "4") {
        return Err(value("signatureVersion", version, "'4': no other version is supported"));
    }
    // Velero always reads the credentials file as a shared config file too, whatever this key says.
    keys.boolean("enableSharedConfig")?;
    if config.bucket.trim_matches('/').ends_with("--x-s3") {
        return Err(Error::config(
            "bucket",
            "directory buckets (S3 Express) are not supported: their listings are not sorted",
        ));
    }
    let profile = keys.get("profile").or(environment.aws_profile.as_deref()).unwrap_or("default");
    let file = config.credentials(environment, files)?.map(AwsFile::parse).transpose()?;
    let region = keys
        .owned("region")
        .or_else(|| file.as_ref().and_then(|file| file.region(profile)))
        .or_else(|| environment.aws_region.clone())
        // A server that is not AWS accepts any region; most are configured with this one.
        .or_else(|| s3_url.is_some().then(|| "us-east-1".to_owned()));
    Ok(AwsConfig {
        region,
        public_url: keys.url("publicUrl")?,
        path_style: keys.boolean("s3ForcePathStyle")?,
        encryption: encryption(config, keys, files, s3_url.as_ref())?,
        skip_tls_verify: keys.boolean("insecureSkipTLSVerify")?,
        tags: tags(keys)?,
        checksum: checksum(config)?,
        source: source(config, environment, file.as_ref(), profile)?,
        container: ContainerEndpoint {
            relative_uri: environment.aws_container_credentials_relative_uri.clone(),
            full_uri: environment.aws_container_credentials_full_uri.clone(),
            token_file: environment.aws_container_authorization_token_file.clone(),
        },
        sts_url: environment.aws_endpoint_url_sts.clone(),
        s3_url,
    })
}

/// The Secret, or else the SDK's order: keys in the environment, its file, web identity, container, instance.
fn source(
    config: &StoreConfig,
    environment: &Environment,
    file: Option<&AwsFile>,
    profile: &str,
) -> Result<AwsSource> {
    let from_environment = match (&environment.aws_access_key_id, &environment.aws_secret_access_key) {
        (Some(id), Some(secret)) => Some(AwsKeys {
            id: id.clone(),
            secret: secret.clone(),
            token: environment.aws_session_token.clone(),
        }),
        _ => None,
    };
    let explicit = config.credentials.is_some() || config.config.contains_key("credentialsFile");
    if let Some(keys) = from_environment.clone().filter(|_| !explicit) {
        return Ok(AwsSource::Static(keys));
    }
    if let Some(file) = file {
        return file.resolve(profile, &OutsideSources { environment: from_environment });
    }
    if let (Some(arn), Some(token_file)) =
        (&environment.aws_role_arn, &environment.aws_web_identity_token_file)
    {
        let session_name = environment.aws_role_session_name.clone().unwrap_or_else(|| "lifeboat".into());
        let role = Role { arn: arn.clone(), session_name, external_id: None, duration_seconds: 3600 };
        return Ok(AwsSource::WebIdentity { role, token_file: token_file.clone() });
    }
    let container = environment.aws_container_credentials_relative_uri.is_some()
        || environment.aws_container_credentials_full_uri.is_some();
    Ok(if container { AwsSource::Container } else { AwsSource::Instance })
}

fn encryption(
    config: &StoreConfig,
    keys: Keys<'_>,
    files: &Files,
    s3_url: Option<&Url>,
) -> Result<Encryption> {
    let named = ["kmsKeyId", "customerKeyEncryptionFile", "customerKeyEncryptionSecret"];
    let set: Vec<&str> = named.into_iter().filter(|key| keys.get(key).is_some()).collect();
    if let [first, second, ..] = set.as_slice() {
        return Err(Error::config(first, format!("it cannot be used together with '{second}'")));
    }
    let algorithm = keys.get("serverSideEncryption");
    if let Some(id) = keys.get("kmsKeyId") {
        let kind = match algorithm {
            None | Some("aws:kms") => "aws:kms",
            Some("aws:kms:dsse") => "aws:kms:dsse",
            Some(other) => {
                return Err(value("serverSideEncryption", other, "'aws:kms', because 'kmsKeyId' is set"));
            }
        };
        return Ok(Encryption::Kms { kind, key: Some(id.to_owned()) });
    }
    if let Some(key) = set.first() {
        if algorithm.is_some() {
            return Err(Error::config(
                "serverSideEncryption",
                format!("it cannot be used together with '{key}'"),
            ));
        }
        if s3_url.is_some_and(|url| url.scheme() == "http") {
            return Err(Error::config(key, "the key would be sent unencrypted: 's3Url' is not https"));
        }
        return customer_key(config, keys, files).map(Encryption::Customer);
    }
    match algorithm {
        None => Ok(Encryption::None),
        Some("AES256") => Ok(Encryption::Aes256),
        Some("aws:kms") => Ok(Encryption::Kms { kind: "aws:kms", key: None }),
        Some("aws:kms:dsse") => Ok(Encryption::Kms { kind: "aws:kms:dsse", key: None }),
        Some(other) => Err(value("serverSideEncryption", other, "'AES256', 'aws:kms' or 'aws:kms:dsse'")),
    }
}

/// Exactly 32 bytes, from the file or from the Secret.
fn customer_key(config: &StoreConfig, keys: Keys<'_>, files: &Files) -> Result<SecretString> {
    let (name, bytes) = if let Some(path) = keys.get("customerKeyEncryptionFile") {
        let read = files.get(path).map_err(|e| Error::config("customerKeyEncryptionFile", e.to_string()))?;
        ("customerKeyEncryptionFile", read)
    } else {
        config.customer_key_secret()?;
        match &config.customer_key {
            Some(key) => ("customerKeyEncryptionSecret", key.expose_secret()),
            None => {
                return Err(Error::config("customerKeyEncryptionSecret", "the Secret was not found"));
            }
        }
    };
    if bytes.len() != 32 {
        return Err(Error::config(
            name,
            format!("the key has {} bytes, it must have exactly 32", bytes.len()),
        ));
    }
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes).into())
}

/// `Key1=Value1&Key2=Value2`, at most ten tags.
fn tags(keys: Keys<'_>) -> Result<TagSet> {
    let mut tags = TagSet::default();
    let Some(text) = keys.get("tagging") else { return Ok(tags) };
    let pairs: Vec<(String, String)> = url::form_urlencoded::parse(text.as_bytes()).into_owned().collect();
    let written = text.split('&').all(|pair| pair.split('=').count() == 2 && !pair.starts_with('='));
    if !written {
        return Err(value("tagging", text, "'Key1=Value1&Key2=Value2'"));
    }
    if pairs.len() > 10 {
        return Err(Error::config(
            "tagging",
            format!("{} tags, S3 accepts at most 10 per object", pairs.len()),
        ));
    }
    for (key, tag) in &pairs {
        if key.chars().count() > 128 || tag.chars().count() > 256 {
            return Err(Error::config("tagging", "a tag's key has at most 128 characters, its value 256"));
        }
        tags.push(key, tag);
    }
    Ok(tags)
}

/// The signature covers every body with SHA-256. A further checksum is sent on request; for the weaker algorithms
/// SHA-256 is sent instead, which every server that supports them supports too.
fn checksum(config: &StoreConfig) -> Result<Option<Checksum>> {
    match config.config.get("checksumAlgorithm").map(String::as_str) {
        None | Some("") => Ok(None),
        Some("CRC32" | "CRC32C" | "SHA1" | "SHA256") => Ok(Some(Checksum::SHA256)),
        Some("CRC64NVME") => Ok(Some(Checksum::CRC64NVME)),
        Some(other) => Err(value(
            "checksumAlgorithm",
            other,
            "'CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256' or nothing",
        )),
    }
}

#[cfg(test)]
mod tests;
