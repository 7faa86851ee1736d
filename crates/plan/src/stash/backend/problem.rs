//! Why a backend cannot be opened with its Secret.

/// Why a backend cannot be opened. The message names the Secret and the key, or the field, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendProblem {
    #[error("Secret '{secret}' has no key '{key}': add it with {meaning}")]
    Missing { secret: String, key: &'static str, meaning: &'static str },
    #[error(
        "Secret '{secret}' has the key '{there}' and no '{key}': add it, or remove both if pods have a cloud identity"
    )]
    HalfPair { secret: String, there: &'static str, key: &'static str },
    #[error("key '{key}' of Secret '{secret}': expected {expected}; correct its value")]
    Value { secret: String, key: &'static str, expected: &'static str },
    #[error("{field} is '{value}', expected {expected}")]
    Field { field: String, value: String, expected: &'static str },
    /// The value is not shown: it may contain a password.
    #[error("{field} contains a user, a password or a query: {next}")]
    Credentials { field: String, next: String },
    #[error(
        "spec.backend.swift is not supported: OpenStack serves the same containers by its S3 API; describe the container \
         with spec.backend.s3 and put AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (`openstack ec2 credentials create`) into \
         the Secret"
    )]
    Swift,
    #[error("spec.backend: exactly one of local, s3, gcs, azure, b2, rest must be set")]
    NotOne,
}

impl BackendProblem {
    /// Whether the Secret has to be changed, and not the Repository.
    pub fn is_of_secret(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::HalfPair { .. } | Self::Value { .. })
    }
}
