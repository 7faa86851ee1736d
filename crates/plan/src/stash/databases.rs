//! Databases: how a tool connects to the application of an AppBinding, and which built-in tool dumps or loads it.
//! Takes the facts that crate `stash` read ([`AppFacts`]); gives addresses, command lines and files, but never the
//! value of a password, which only the kubelet reads.
//!
//! - [`secret_names`]: for gathering: the Secrets that an AppBinding names.
//! - [`AppAccess::of`]: address, keys of the Secret after `secretTransforms`, certificates.
//! - [`AppFiles::of`]: keys and certificates as a volume of a pod; [`AppAccess::env`]: as environment of users'
//!   Functions.
//! - [`BuiltIn::parse`]: names such as `mysql-backup-8.0.14`; [`tool_command`]: the command lines of such a tool.
//!
//! Server certificates are checked against `caBundle`, else against `ca.crt` of `tlsSecret`; host names in them are not.

mod access;
mod built_in;
mod command;
mod files;
mod keys;
mod scripts;
#[cfg(test)]
mod tests;
pub(in crate::stash) mod words;

pub use access::AppAccess;
pub(in crate::stash) use access::variable;
pub use built_in::{BuiltIn, Direction, Family};
pub use command::{CommandError, ToolCommand, tool_command};
pub use files::{APP_MOUNT, AppFiles};
pub use keys::{AppFacts, KeySource, secret_names};
pub(in crate::stash) use scripts::load_postgres;

/// The name of a dump in its snapshot, as upstream has it.
pub const DUMP_FILE: &str = "dumpfile.sql";

/// Why an AppBinding cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    #[error("{app}: {field} names Secret {secret:?}, which does not exist; create it, or correct the field")]
    NoSecret { app: String, field: String, secret: String },
    #[error("{app}: {field} names a {kind}; only a Secret can be read: copy its keys into one")]
    SecretKind { app: String, field: String, kind: String },
    #[error(
        "{app}: secretTransforms[{index}].renameKey.from {from:?} is not a key of the Secret, which has {found}; correct it"
    )]
    NoKeyToRename { app: String, index: usize, from: String, found: String },
    #[error(
        "{app}: secretTransforms[{index}] sets none of renameKey, addKey, addKeysFrom, removeKey; set one, or remove the entry"
    )]
    EmptyTransform { app: String, index: usize },
    #[error(
        "{app}: secretTransforms[{index}] makes key {key:?}; expected letters, digits, '-', '_' and '.', as in any Secret"
    )]
    KeyName { app: String, index: usize, key: String },
    #[error("{app}: {field} is not text in UTF-8; write it as text")]
    NotText { app: String, field: String },
    #[error(
        "{app}: its Secret has none of the keys {wanted}; it has {found}: rename one with secretTransforms[].renameKey"
    )]
    NoCredential { app: String, wanted: String, found: String },
    #[error("{app}: clientConfig has neither service nor url; set one")]
    NoAddress { app: String },
    #[error(
        "{app}: clientConfig.url {url:?} is no address ({problem}); write it like mysql.example.com:3306"
    )]
    Url { app: String, url: String, problem: String },
    #[error("{app}: clientConfig.url has a user or a password; put them into the AppBinding's Secret")]
    Userinfo { app: String },
    #[error("{app}: clientConfig.service.port {port} is no port; expected 1 to 65535")]
    Port { app: String, port: i32 },
}
