//! How a mover reaches its repository. Files that are named here are in the task's directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The mount point of a volume that holds the repository.
pub const REPOSITORY_MOUNT: &str = "/mover/repository";

/// The user name in the locks of a task that reaches its repository through a gateway, which lets a task remove these
/// locks and no others.
pub fn lock_user(task: &str) -> String {
    format!("lifeboat-task/{task}")
}

/// The user name of a mover at the gateway; the token says who it is.
pub const GATEWAY_USER: &str = "lifeboat";

/// The address of the repository and its passwords.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RepositoryAccess {
    pub transport: Transport,
    /// The names of files with passwords in the task's directory, in the order in which they are tried.
    pub passwords: Vec<String>,
    /// A tenant describes the storage, and the mover is not in the tenant's namespace: it opens the storage with the credentials beside
    /// the task only, and connects to no address of its machine or of a metadata service. Version 2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guarded: bool,
}

/// How the repository's objects are accessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Transport {
    Direct(Direct),
    /// Through a gateway of Lifeboat, which speaks restic's REST protocol, with rights for this task only.
    #[serde(rename_all = "camelCase")]
    Gateway {
        /// `https://`; the path is that of the repository.
        url: String,
        /// The name of a file in the task's directory.
        token: String,
        /// The name of a file in the task's directory with PEM certificates. No others are trusted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// A server that speaks restic's REST protocol. Version 2.
    #[serde(rename_all = "camelCase")]
    Rest {
        /// `http://` or `https://`, without user and password; the path is that of the repository.
        url: String,
        /// The name of a file in the task's directory with `user:password`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credentials: Option<String>,
        /// The name of a file in the task's directory with PEM certificates that are trusted in addition to the system's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// A directory of a volume that the mover itself mounts. Version 2.
    #[serde(rename_all = "camelCase")]
    Directory {
        /// The absolute path of the repository in the mover's container, at or below [`REPOSITORY_MOUNT`].
        path: PathBuf,
    },
}

/// Object storage as a location describes it. Files are in the task's directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Direct {
    pub provider: String,
    pub bucket: String,
    /// The prefix of the location, without the repository's path.
    #[serde(default)]
    pub prefix: String,
    /// The repository's path below the prefix, for example `restic/shop`.
    pub path: String,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer_key: Option<String>,
}
