//! What the user can do about each error, in one sentence.

use std::io::ErrorKind;

use super::{BadCertificate, BadCredentials, Error, Unreachable};

impl Error {
    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Config { .. } | Self::ConfigValue { .. } => "change this key in the location's config",
            Self::UnknownKeys { .. } => {
                "remove the key or correct its spelling; unknown keys are never ignored"
            }
            Self::CredentialsFormat { .. } => {
                "correct the content of the credentials (in a cluster: their Secret)"
            }
            Self::InvalidKey { .. } | Self::Range { .. } => "this is a bug in Lifeboat; please report it",
            Self::NotFound { .. } => "check the name, or that the backup was not deleted",
            Self::AlreadyExists { .. } => "choose another name, or delete the existing object first",
            Self::Changed { .. } => "try again: another process wrote the object at the same time",
            Self::BucketNotFound { .. } => {
                "create the bucket, or correct its name, the endpoint or the region in the location or Repository"
            }
            Self::Denied { action, .. } if action.starts_with("delete") => {
                "grant the credentials the right to delete; a server that is append-only deletes nothing: do it where \
                 deletion is allowed"
            }
            Self::Denied { .. } => {
                "grant the credentials list, read, write and delete rights on the bucket and prefix"
            }
            Self::Credentials { cause, .. } => cause.hint(),
            Self::Unreachable { cause, .. } => cause.hint(),
            Self::AddressRefused { .. } => {
                "name an endpoint that the pods of the cluster reach under its own address; those of a machine itself, of \
                 its network link and of metadata services are never used for a tenant's storage"
            }
            Self::Certificate { cause, .. } => cause.hint(),
            Self::NotHttps { .. } => "use 'http://' in the endpoint, or enable TLS in the object store",
            Self::NotHttp { .. } => "use 'https://' in the endpoint",
            Self::WrongRegion { .. } => {
                "set the bucket's region: AWS_DEFAULT_REGION on the command line, the config key 'region' of a location, \
                 backend.s3.region of a Repository"
            }
            Self::Throttled { .. } => "lower the concurrency, or raise the store's request limit",
            Self::Server { .. } | Self::Interrupted { .. } => {
                "check the object store's log; the request is retried automatically"
            }
            Self::Rejected { .. } => {
                "check endpoint, region and addressing style, then the object store's log"
            }
            Self::Listing { .. } => {
                "check that the endpoint is an S3, Google or Azure API and not a console or a proxy's error page"
            }
            Self::Deadline { .. } => {
                "check the network and the load of the object store; the operation is retried later"
            }
            Self::ForeignDirectories { .. } => "use an empty bucket or set a prefix",
            Self::Disk { source, .. } => disk(source.kind()),
            Self::Unsupported { .. } => "use an operation that this storage supports",
            Self::Other { .. } => "see the server's log for details",
        }
    }
}

impl BadCredentials {
    fn hint(self) -> &'static str {
        match self {
            Self::UnknownKeyId => {
                "correct the access key id of the credentials (in a cluster: in their Secret)"
            }
            Self::SignatureMismatch => {
                "correct the secret key of the credentials (in a cluster: in their Secret)"
            }
            Self::Expired => "provide new credentials (in a cluster: in their Secret)",
            Self::ClockSkew => "correct the clock of this machine (in a cluster: of the node)",
            Self::Source => {
                "check the role, its trust policy and the token or metadata service, or give \
                 credentials (in a cluster: a Secret)"
            }
        }
    }
}

impl Unreachable {
    fn hint(self) -> &'static str {
        match self {
            Self::Dns => "correct the host name of the endpoint, or the DNS of this machine or cluster",
            Self::Refused => "check the endpoint's port and that the object store runs",
            Self::Timeout | Self::Closed | Self::Other => {
                "check the endpoint, the network policies and firewalls in between, and the proxy settings"
            }
        }
    }
}

impl BadCertificate {
    fn hint(self) -> &'static str {
        match self {
            Self::Untrusted => {
                "give the certificate authority's PEM: with --cacert on the command line, in objectStorage.caCert or \
                 caCertRef of a location, in CA_CERT_DATA of a Repository's Secret"
            }
            Self::Expired => "renew the endpoint's certificate",
            Self::NotYetValid => "check the clocks of the node and of the object store",
            Self::OtherName => "set the endpoint to a host name that the certificate was issued for",
            Self::Other => "check the endpoint's certificate with 'openssl s_client'",
        }
    }
}

fn disk(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied => {
            "give this user permission to use the directory and to search its parents"
        }
        ErrorKind::NotADirectory => "use the path of a directory; something else has this path",
        ErrorKind::ReadOnlyFilesystem => "mount the file system writable",
        _ => "check that the directory is mounted, writable and has free space",
    }
}
