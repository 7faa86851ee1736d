//! The storage of a repository: takes the kind of storage, returns an empty location and what programs need to reach it.
//! `case` creates a new one for every repository, so that no product finds data of another one.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::delay;
use crate::s3_server::{self, S3Server};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StorageKind {
    /// A directory on the disk that also holds the data
    Local,
    /// The box's S3 server, on this machine
    S3,
    /// The box's S3 server, with 30 ms of added latency
    SlowS3,
}

/// The round-trip time that is added to the machine's own latency.
const ROUND_TRIP: Duration = Duration::from_millis(30);
const PREFIX: &str = "repository";

/// How a program reaches a repository.
pub(super) enum Location {
    Local(PathBuf),
    S3 { address: String, bucket: String, prefix: String },
}

/// An empty location; the processes that serve it are ended when it is dropped.
pub(super) struct Prepared {
    directory: PathBuf,
    server: Option<(S3Server, SocketAddr)>,
}

impl StorageKind {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub(super) fn prepare(self, work: &Path) -> Result<Prepared> {
        let directory = work.join("repository");
        if directory.exists() {
            fs::remove_dir_all(&directory).context("cannot remove the last repository")?;
        }
        fs::create_dir_all(&directory)?;
        let server = match self {
            Self::Local => None,
            Self::S3 | Self::SlowS3 => {
                let server = S3Server::start(&directory)?;
                let address: SocketAddr = server.address().parse()?;
                let slow = self == Self::SlowS3;
                let address = if slow { delay::proxy(address, ROUND_TRIP)? } else { address };
                Some((server, address))
            }
        };
        Ok(Prepared { directory, server })
    }
}

impl Prepared {
    pub(super) fn location(&self) -> Location {
        match &self.server {
            None => Location::Local(self.directory.clone()),
            Some((_, address)) => Location::S3 {
                address: address.to_string(),
                bucket: s3_server::BUCKET.to_owned(),
                prefix: PREFIX.to_owned(),
            },
        }
    }

    /// The size of the repository in bytes.
    pub(super) fn size(&self) -> Result<u64> {
        match &self.server {
            None => size(&self.directory),
            Some((server, _)) => server.size(PREFIX),
        }
    }
}

impl Location {
    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        match self {
            Self::Local(_) => BTreeMap::new(),
            Self::S3 { .. } => s3_server::credentials(),
        }
    }
}

fn size(directory: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(total)
}
