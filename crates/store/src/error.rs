//! The error type of this crate. For callers it answers three questions: `category()` (a name from a fixed list, for
//! events and metrics), `retry()` (never, later, now) and `hint()` (what the user can do). Messages quote the values
//! that they are about and never contain a secret. `classify` makes errors from what the HTTP stack reports.

mod classify;
mod hint;
mod response;

use std::net::IpAddr;

pub(crate) use classify::{AddressRefused, BadListing, Operation, Site, TransportError, classify, find};
pub(crate) use response::{ErrorResponse, xml_text};

/// The result of every operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// When it makes sense to repeat the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Never: the same input gives the same result until something is changed.
    Never,
    /// Later: the cause may be fixed outside of our settings (an outage ends, a permission is granted).
    Later,
    /// Now: the failure is temporary. Repeat at once, with increasing pauses.
    Now,
}

/// Why an endpoint could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unreachable {
    Refused,
    Dns,
    Timeout,
    Closed,
    Other,
}

/// What is wrong with the certificate that an endpoint presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BadCertificate {
    Untrusted,
    Expired,
    NotYetValid,
    OtherName,
    Other,
}

/// What is wrong with the credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BadCredentials {
    UnknownKeyId,
    SignatureMismatch,
    Expired,
    ClockSkew,
    /// They could not be obtained: the token service, the metadata service or the role refused the request.
    Source,
}

/// An error of object storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("config key '{key}': {problem}")]
    Config { key: String, problem: String },
    #[error("config key '{key}' has the value '{value}', expected {expected}")]
    ConfigValue { key: String, value: String, expected: String },
    #[error("unknown config key{} {} for provider '{provider}'{}; known keys: {}",
        if keys.len() == 1 { "" } else { "s" }, quoted(keys), did_you_mean(suggestion.as_deref()), known.join(", "))]
    UnknownKeys { provider: String, keys: Vec<String>, suggestion: Option<String>, known: Vec<String> },
    #[error("credentials: {problem}")]
    CredentialsFormat { problem: String },

    #[error("invalid object key '{key}': {problem}")]
    InvalidKey { key: String, problem: &'static str },
    #[error("the range {start}..{end} is outside of object '{key}', which has {size} bytes")]
    Range { key: String, size: u64, start: u64, end: u64 },
    #[error("object '{key}' not found")]
    NotFound { key: String },
    #[error("object '{key}' already exists")]
    AlreadyExists { key: String },
    #[error("object '{key}' was replaced while it was being read")]
    Changed { key: String },
    #[error("bucket '{bucket}' not found at '{endpoint}'")]
    BucketNotFound { bucket: String, endpoint: String },
    #[error("{action} was denied in bucket '{bucket}': {detail}")]
    Denied { action: String, bucket: String, detail: String },
    #[error("the credentials for '{endpoint}' do not work: {detail}")]
    Credentials { endpoint: String, cause: BadCredentials, detail: String },
    #[error("cannot reach '{endpoint}': {detail}")]
    Unreachable { endpoint: String, cause: Unreachable, detail: String },
    #[error("'{endpoint}' is not used: '{host}' has the address {address}, {kind}")]
    AddressRefused { endpoint: String, host: String, address: IpAddr, kind: &'static str },
    #[error("the certificate of '{endpoint}' is not accepted: {detail}")]
    Certificate { endpoint: String, cause: BadCertificate, detail: String },
    #[error("'{endpoint}' speaks plain HTTP, not HTTPS")]
    NotHttps { endpoint: String },
    #[error("'{endpoint}' speaks HTTPS, not plain HTTP")]
    NotHttp { endpoint: String },
    #[error("bucket '{bucket}' is not in this region{}", region_note(region.as_deref()))]
    WrongRegion { bucket: String, region: Option<String> },
    #[error("'{endpoint}' is throttling requests ({detail})")]
    Throttled { endpoint: String, detail: String },
    #[error("'{endpoint}' failed to {action}: {detail}")]
    Server { endpoint: String, action: String, detail: String },
    #[error("'{endpoint}' refused to {action}: {detail}")]
    Rejected { endpoint: String, action: String, status: u16, detail: String },
    #[error("{action} was interrupted: {detail}")]
    Interrupted { action: String, detail: String },
    #[error("listing '{prefix}' cannot be trusted: {detail}")]
    Listing { prefix: String, detail: String },
    #[error("{action} did not finish within {seconds} s")]
    Deadline { action: String, seconds: u64 },
    #[error("the bucket contains directories that do not belong to a backup location: {}", quoted(names))]
    ForeignDirectories { names: Vec<String> },
    #[error("{action} '{path}': {source}")]
    Disk { action: &'static str, path: String, source: std::io::Error },
    #[error("{operation} is not supported: {reason}")]
    Unsupported { operation: &'static str, reason: String },
    #[error("{action} failed: {detail}")]
    Other { action: String, detail: String },
}

impl Error {
    /// A name from a fixed list, for events, metrics and condition reasons.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Config { .. } | Self::ConfigValue { .. } | Self::UnknownKeys { .. } => "config",
            Self::CredentialsFormat { .. } => "credentials_format",
            Self::InvalidKey { .. } => "invalid_key",
            Self::Range { .. } => "range",
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "already_exists",
            Self::Changed { .. } => "changed",
            Self::BucketNotFound { .. } => "bucket_not_found",
            Self::Denied { .. } => "access_denied",
            Self::Credentials { cause, .. } => match cause {
                BadCredentials::UnknownKeyId => "unknown_access_key",
                BadCredentials::SignatureMismatch => "signature_mismatch",
                BadCredentials::Expired => "credentials_expired",
                BadCredentials::ClockSkew => "clock_skew",
                BadCredentials::Source => "credentials_source",
            },
            Self::Unreachable { cause, .. } => match cause {
                Unreachable::Dns => "dns",
                Unreachable::Timeout => "timeout",
                Unreachable::Refused | Unreachable::Closed | Unreachable::Other => "unreachable",
            },
            Self::AddressRefused { .. } => "address_refused",
            Self::Certificate { cause, .. } => match cause {
                BadCertificate::Untrusted => "certificate_untrusted",
                BadCertificate::Expired => "certificate_expired",
                BadCertificate::NotYetValid => "certificate_not_yet_valid",
                BadCertificate::OtherName => "certificate_other_name",
                BadCertificate::Other => "certificate",
            },
            Self::NotHttps { .. } | Self::NotHttp { .. } => "wrong_scheme",
            Self::WrongRegion { .. } => "wrong_region",
            Self::Throttled { .. } => "throttled",
            Self::Server { .. } => "server_error",
            Self::Rejected { .. } => "rejected",
            Self::Interrupted { .. } => "interrupted",
            Self::Listing { .. } => "listing",
            Self::Deadline { .. } => "deadline",
            Self::ForeignDirectories { .. } => "foreign_directories",
            Self::Disk { .. } => "disk",
            Self::Unsupported { .. } => "unsupported",
            Self::Other { .. } => "other",
        }
    }

    /// When the call may be repeated.
    pub fn retry(&self) -> Retry {
        match self {
            // This includes refused connections and names that do not resolve: a restarting store or DNS looks like that.
            Self::Throttled { .. }
            | Self::Server { .. }
            | Self::Interrupted { .. }
            | Self::Unreachable { .. } => Retry::Now,
            Self::BucketNotFound { .. }
            | Self::Denied { .. }
            | Self::Credentials { .. }
            | Self::Certificate { .. }
            | Self::NotHttps { .. }
            | Self::NotHttp { .. }
            | Self::Listing { .. }
            | Self::Deadline { .. }
            | Self::Changed { .. }
            // Storage is full.
            | Self::Rejected { status: 507, .. }
            | Self::ForeignDirectories { .. }
            | Self::Disk { .. }
            | Self::Other { .. } => Retry::Later,
            Self::Config { .. }
            | Self::ConfigValue { .. }
            | Self::UnknownKeys { .. }
            | Self::CredentialsFormat { .. }
            | Self::InvalidKey { .. }
            | Self::Range { .. }
            | Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::AddressRefused { .. }
            | Self::WrongRegion { .. }
            | Self::Rejected { .. }
            | Self::Unsupported { .. } => Retry::Never,
        }
    }

    /// Whether the server may have carried out the request although it failed for the client.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Server { .. } | Self::Interrupted { .. } | Self::Deadline { .. } | Self::Other { .. } => {
                true
            }
            Self::Unreachable { cause, .. } => {
                matches!(cause, Unreachable::Timeout | Unreachable::Closed | Unreachable::Other)
            }
            _ => false,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists { .. })
    }

    pub(crate) fn config(key: &str, problem: impl Into<String>) -> Self {
        Self::Config { key: key.into(), problem: problem.into() }
    }

    pub(crate) fn credentials_format(problem: impl Into<String>) -> Self {
        Self::CredentialsFormat { problem: problem.into() }
    }
}

pub(crate) fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default()
}

fn region_note(region: Option<&str>) -> String {
    region.map(|name| format!(", it is in '{name}'")).unwrap_or_default()
}
