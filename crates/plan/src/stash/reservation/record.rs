//! The record of reservations as JSON: versioned, and bounded so that it fits into a ConfigMap.

use jiff::Timestamp;
use lifeboat_api::common::time::seconds;
use lifeboat_api::stash::InvokerKind;
use serde::{Deserialize, Serialize};

use super::{Claim, Record, RepositoryName};
use crate::stash::hosts::{HostName, HostSet};

/// The version of the format.
pub const VERSION: u32 = 1;
/// The most bytes of a record. A ConfigMap takes a mebibyte.
pub const LONGEST: usize = 512 * 1024;

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("the record of reservations is not valid: {0}; restore or delete its ConfigMap")]
    Json(#[from] serde_json::Error),
    #[error(
        "the record of reservations has version {found}, and this server knows {VERSION}; update the server"
    )]
    Version { found: u32 },
    #[error("the record of reservations has no valid time {value:?}")]
    Time { value: String },
    #[error(
        "the repository has too many invokers or hosts: its record of reservations would have {bytes} bytes, the most are {LONGEST}; \
         use another Repository"
    )]
    TooLarge { bytes: usize },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordFile {
    version: u32,
    #[serde(default)]
    holders: Vec<ClaimFile>,
    #[serde(default)]
    waiting: Vec<ClaimFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimFile {
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    created: String,
    repository_namespace: String,
    repository_name: String,
    hosts: Vec<HostsFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HostsFile {
    One(String),
    Ordinals(String),
    Nodes {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alias: Option<String>,
        nodes: Vec<String>,
    },
}

/// Only the version, which decides how the rest is read.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

impl Record {
    /// Reads a record. Holders that conflict, which no server writes, are put into the queue.
    pub fn decode(text: &str) -> Result<Self, RecordError> {
        let VersionOnly { version } = serde_json::from_str(text)?;
        if version != VERSION {
            return Err(RecordError::Version { found: version });
        }
        let file: RecordFile = serde_json::from_str(text)?;
        let claims = |list: Vec<ClaimFile>| list.into_iter().map(claim).collect::<Result<Vec<_>, _>>();
        Ok(Self::settled(claims(file.holders)?, claims(file.waiting)?))
    }

    /// Writes a record, if it fits into a ConfigMap.
    pub fn encode(&self) -> Result<String, RecordError> {
        let file = RecordFile {
            version: VERSION,
            holders: self.holders().iter().map(claim_file).collect(),
            waiting: self.waiting().iter().map(claim_file).collect(),
        };
        let text = serde_json::to_string(&file)?;
        if text.len() > LONGEST {
            return Err(RecordError::TooLarge { bytes: text.len() });
        }
        Ok(text)
    }
}

fn claim(file: ClaimFile) -> Result<Claim, RecordError> {
    let created: Timestamp =
        file.created.parse().map_err(|_| RecordError::Time { value: file.created.clone() })?;
    Ok(Claim {
        kind: InvokerKind::from(file.kind),
        namespace: file.namespace,
        name: file.name,
        uid: file.uid,
        created,
        repository: RepositoryName { namespace: file.repository_namespace, name: file.repository_name },
        hosts: file.hosts.into_iter().map(hosts).collect(),
    })
}

fn claim_file(claim: &Claim) -> ClaimFile {
    ClaimFile {
        kind: claim.kind.to_string(),
        namespace: claim.namespace.clone(),
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        created: seconds(claim.created),
        repository_namespace: claim.repository.namespace.clone(),
        repository_name: claim.repository.name.clone(),
        hosts: claim.hosts.iter().map(hosts_file).collect(),
    }
}

fn hosts(file: HostsFile) -> HostSet {
    match file {
        HostsFile::One(name) => HostSet::One(HostName(name)),
        HostsFile::Ordinals(prefix) => HostSet::Ordinals { prefix },
        HostsFile::Nodes { alias, nodes } => HostSet::Nodes { alias, nodes: nodes.into_iter().collect() },
    }
}

fn hosts_file(hosts: &HostSet) -> HostsFile {
    match hosts {
        HostSet::One(name) => HostsFile::One(name.0.clone()),
        HostSet::Ordinals { prefix } => HostsFile::Ordinals(prefix.clone()),
        HostSet::Nodes { alias, nodes } => {
            HostsFile::Nodes { alias: alias.clone(), nodes: nodes.iter().cloned().collect() }
        }
    }
}
