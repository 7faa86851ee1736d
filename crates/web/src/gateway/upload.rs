//! Adds a file: receives it, compares it with its name and the rules, and hands it to storage, which decides whether there
//! is one of this name already.

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use jiff::Timestamp;

use super::limits::{Limits, Room, Turn};
use super::path::{FileName, FileType};
use super::refusal::Refusal;
use super::spool::{Received, receive};
use super::{Grant, RepositoryFiles, rules};

/// A file that is being added.
pub(super) struct Upload<'a> {
    pub(super) grant: &'a Grant,
    pub(super) file_type: FileType,
    /// The SHA-256 of the content, as hexadecimal digits.
    pub(super) id: &'a str,
    pub(super) size: u64,
}

/// The announced size of a file of this type.
pub(super) fn size(headers: &HeaderMap, file_type: FileType) -> Result<u64, Refusal> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let size = length.and_then(|text| text.parse().ok()).ok_or(Refusal::NoLength)?;
    let limit = rules::largest(file_type);
    if size > limit { Err(Refusal::TooLarge { size, limit }) } else { Ok(size) }
}

impl Upload<'_> {
    /// Adds the file. `turn` is given back when storage has it.
    pub(super) async fn carry_out(
        self,
        body: Body,
        files: Arc<dyn RepositoryFiles>,
        limits: &Limits,
        directory: &Path,
        turn: Turn,
    ) -> Result<(), Refusal> {
        let on_disk = limits.spool(self.size).await?;
        let name = FileName::Of(self.file_type, self.id.to_owned());
        match receive(body, self.size, self.id, directory).await? {
            Received::Small(content) => {
                if self.file_type == FileType::Lock {
                    let lock = files.lock(&content);
                    rules::may_lock(self.grant, lock.as_ref(), Timestamp::now())?;
                }
                store(files, name, content, None, turn).await
            }
            Received::Spooled(spooled) => {
                let in_memory = limits.memory(spooled.size()).await?;
                let content = spooled.load().await?;
                drop(on_disk);
                store(files, name, content, Some(in_memory), turn).await
            }
        }
    }
}

/// Hands a file to storage, also if the client does not wait for it any more: it would send the same file again.
async fn store(
    files: Arc<dyn RepositoryFiles>,
    name: FileName,
    content: Bytes,
    room: Option<Room>,
    turn: Turn,
) -> Result<(), Refusal> {
    let storing = tokio::spawn(async move {
        let _held = (room, turn);
        files.create(&name, content).await
    });
    // It ends early only if it panics or the process ends.
    storing.await.unwrap_or(Err(super::FilesError::Busy { reason: "interrupted" })).map_err(Refusal::from)
}
