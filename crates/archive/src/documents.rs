//! The files beside the archive, as Velero writes and reads them: compressed JSON. Each type here is a wire format;
//! lists that Velero may write as `null` are read as empty.

mod load;
mod operations;
mod resource_list;
mod results;
mod volumes;
mod weight;

use std::fmt;
use std::io::{BufReader, Read};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

pub use load::{List, LoadError, fetch, fetch_reserved, load, load_each, load_list};
pub use operations::{
    BackupOperation, BackupOperationSpec, OperationPhase, OperationStatus, ResourceIdentifier,
    RestoreOperation, RestoreOperationSpec,
};
pub use resource_list::{ResourceList, RestoreAction};
pub use results::{MessageList, Results};
pub use volumes::{
    BackupVolumeInfo, CsiSnapshotInfo, DataMovementInfo, NativeSnapshot, NativeSnapshotInfo,
    NativeSnapshotSpec, NativeSnapshotStatus, PodVolumeInfo, RestoreVolumeInfo, VolumeAttributes,
};

pub use weight::weight;

use crate::memory::NoMemory;
use crate::upload;
use weight::Scale;

const MIB: usize = 1024 * 1024;

/// The largest stored size of a document that is read.
const STORED_LIMIT: usize = 16 * MIB;
/// The largest decompressed size.
const PLAIN_LIMIT: usize = 256 * MIB;
/// The most memory that a document may need once it is parsed: that of a list of 30,000 volumes, or of the names of two
/// million objects.
const WEIGHT_LIMIT: usize = 256 * MIB;
/// The most plain bytes for each stored byte, once there are more than `RATIO_FROM`. Lists of objects reach about 60.
const RATIO: usize = 250;
const RATIO_FROM: usize = MIB;
/// More than the size of any type that lists have as elements, without its texts.
const LARGEST_ELEMENT: usize = 1024;

/// Why a document cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("it cannot be decompressed: {0}")]
    Gzip(#[from] std::io::Error),
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
    #[error("{stored} bytes decompress to more than {plain}, a ratio of more than {RATIO}")]
    Bomb { stored: usize, plain: usize },
    #[error("it needs more than {0} bytes of memory when it is parsed")]
    TooHeavy(usize),
    #[error("it is nested too deeply")]
    TooDeep,
    #[error(transparent)]
    Memory(#[from] NoMemory),
    #[error("reading it was stopped")]
    Stopped,
    #[error("it is not valid JSON of the expected form: {0}")]
    Json(#[from] serde_json::Error),
}

/// Encodes a document as it is stored.
pub fn encode<T: Serialize + ?Sized>(document: &T) -> Result<Bytes, DocumentError> {
    let mut json = serde_json::to_vec(document)?;
    json.push(b'\n');
    Ok(upload::compress(&json)?)
}

/// The document that Velero stores for a list that does not exist, such as pod volume backups.
pub fn encode_null() -> Result<Bytes, DocumentError> {
    encode(&())
}

/// Decodes a document written by `encode` or by Velero. Its weight is measured before it is parsed.
pub fn decode<T: DeserializeOwned>(stored: &[u8]) -> Result<T, DocumentError> {
    weigh(stored)?;
    parse(stored)
}

/// Decodes a list; `null` is an empty one.
pub fn decode_list<T: DeserializeOwned>(stored: &[u8]) -> Result<Vec<T>, DocumentError> {
    weigh(stored)?;
    Ok(parse::<Option<Vec<T>>>(stored)?.unwrap_or_default())
}

/// Parses a stored document while it is decompressed: there is no plain copy of it. The caller has weighed it.
fn parse<T: DeserializeOwned>(stored: &[u8]) -> Result<T, DocumentError> {
    Ok(serde_json::from_reader(BufReader::new(MultiGzDecoder::new(stored)))?)
}

/// The memory that a stored document needs once it is parsed; an error if that is too much.
pub fn weigh(stored: &[u8]) -> Result<usize, DocumentError> {
    let mut plain = MultiGzDecoder::new(stored);
    let mut piece = vec![0; 64 * 1024];
    let (mut scale, mut size) = (Scale::default(), 0);
    loop {
        let length = plain.read(&mut piece)?;
        if length == 0 {
            return Ok(total(&scale));
        }
        scale.add(&piece[..length]);
        size += length;
        if size > PLAIN_LIMIT {
            return Err(DocumentError::TooLarge(PLAIN_LIMIT));
        }
        if size > RATIO_FROM && size / RATIO > stored.len() {
            return Err(DocumentError::Bomb { stored: stored.len(), plain: size });
        }
        if scale.is_too_deep() {
            return Err(DocumentError::TooDeep);
        }
        if total(&scale) > WEIGHT_LIMIT {
            return Err(DocumentError::TooHeavy(WEIGHT_LIMIT));
        }
    }
}

fn total(scale: &Scale) -> usize {
    // A list grows to twice its length.
    scale.bytes().saturating_add(scale.elements().saturating_mul(2 * LARGEST_ELEMENT))
}

/// Calls `each` with the elements of a list, one after the other: only one of them is in memory. The caller has weighed
/// the document.
pub fn decode_each(stored: &[u8], each: impl FnMut(Value)) -> Result<(), DocumentError> {
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(MultiGzDecoder::new(stored)));
    reader.deserialize_any(Each(each))?;
    Ok(reader.end()?)
}

/// Whether a document is a list, or `null`. The caller has weighed it.
pub fn check_list(stored: &[u8]) -> Result<(), DocumentError> {
    decode_each(stored, drop)
}

struct Each<F>(F);

impl<'de, F: FnMut(Value)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list or null")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.0)(element);
        }
        Ok(())
    }
}

/// The Backup object as `velero-backup.json` contains it: indented, kind and version first, not compressed.
pub fn encode_backup(backup: &lifeboat_api::velero::Backup) -> Result<Bytes, DocumentError> {
    Ok(serde_json::to_vec_pretty(backup)?.into())
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference
fn is_zero(number: &i64) -> bool {
    *number == 0
}
