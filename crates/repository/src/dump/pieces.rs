//! The output in order: bytes of the archive and blobs. Blobs that are adjacent in one pack, like those of a file,
//! are put into one batch, which costs one request.

use tokio::sync::mpsc;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::index::Location;
use crate::node::Node;

const GAP: u64 = 256 * 1024;
const LONGEST_READ: u64 = 4 * 1024 * 1024;
const MOST_PLAIN: u64 = 8 * 1024 * 1024;
/// The limit for archives of many small or empty files, whose headers alone fill a batch.
const MOST_BYTES: usize = 1024 * 1024;

/// One piece of the output.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Blob(BlobId, Location),
    /// The writer computes the checksum of a file's content between these two, for formats that store it after the
    /// content.
    BeginSum,
    EndSum(EndOfEntry),
}

/// Makes the bytes that follow a file, from the checksum and the length of its content.
pub(super) type EndOfEntry = Box<dyn FnOnce(u32, u64) -> Vec<u8> + Send>;

/// Pieces whose blobs are read at once.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) pieces: Vec<Piece>,
    /// The offset in the pack of its blobs, if it has any.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) pack: Option<crate::id::PackId>,
    plain: u64,
    bytes: usize,
}

/// Collects pieces into batches and sends them.
pub(super) struct Pieces {
    reader: BlobReader,
    sender: mpsc::Sender<Batch>,
    batch: Batch,
}

impl Pieces {
    pub(super) fn new(reader: BlobReader, sender: mpsc::Sender<Batch>) -> Self {
        Self { reader, sender, batch: Batch::default() }
    }

    pub(super) fn bytes(&mut self, bytes: Vec<u8>) -> Result<()> {
        if self.batch.bytes + bytes.len() > MOST_BYTES {
            self.send()?;
        }
        self.batch.bytes += bytes.len();
        self.batch.pieces.push(Piece::Bytes(bytes));
        Ok(())
    }

    /// Adds a marker for the writer, which has no size.
    pub(super) fn mark(&mut self, mark: Piece) {
        self.batch.pieces.push(mark);
    }

    /// Adds the content of a file: exactly as many bytes as the node's size, or an error before the first is written.
    pub(super) fn content(&mut self, node: &Node) -> Result<()> {
        let mut locations = Vec::with_capacity(node.blobs().len());
        let mut length = 0_u64;
        for blob in node.blobs() {
            let found = self.reader.index().find(BlobKind::Data, blob)?;
            let location = found.ok_or(Error::MissingBlob { kind: BlobKind::Data, id: *blob })?;
            length = length.saturating_add(location.plain_length().into());
            locations.push((*blob, location));
        }
        if length != node.size {
            return Err(Error::damaged(
                format!("file '{}'", node.display_name()),
                format!("its size in the snapshot is {} bytes, but its content has {length}", node.size),
            ));
        }
        for (blob, location) in locations {
            if !self.batch.takes(&location) {
                self.send()?;
            }
            self.batch.add(blob, location);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.pieces.is_empty() {
            return Ok(());
        }
        self.sender.blocking_send(batch).map_err(|_| Error::Cancelled)
    }
}

impl Batch {
    fn takes(&self, location: &Location) -> bool {
        let Some(pack) = self.pack else { return true };
        let start = u64::from(location.offset);
        pack == location.pack
            && start >= self.start
            && start <= self.end + GAP
            && location.end().max(self.end) - self.start <= LONGEST_READ
            && self.plain + u64::from(location.plain_length()) <= MOST_PLAIN
    }

    fn add(&mut self, blob: BlobId, location: Location) {
        if self.pack.is_none() {
            (self.pack, self.start) = (Some(location.pack), location.offset.into());
        }
        self.end = self.end.max(location.end());
        self.plain += u64::from(location.plain_length());
        self.pieces.push(Piece::Blob(blob, location));
    }
}

/// Calls `each` for every entry below `tree`, with its path, directories before their content. Names that could
/// mislead the program that unpacks the archive are an error. A loop, not a recursion.
pub(super) fn walk(
    reader: &BlobReader,
    tree: BlobId,
    prefix: Vec<u8>,
    each: &mut dyn FnMut(&[u8], Node) -> Result<()>,
) -> Result<()> {
    const LONGEST_PATH: usize = 4095;
    let runtime = tokio::runtime::Handle::current();
    let load = |tree: BlobId| runtime.block_on(reader.nodes_as_stored(&tree));
    let mut stack = vec![(prefix, load(tree)?, Vec::new())];
    while let Some((prefix, nodes, last)) = stack.last_mut() {
        let Some(node) = nodes.next()? else {
            stack.pop();
            continue;
        };
        let damaged = |detail: &str| {
            let name = [prefix.as_slice(), b"/", node.name.as_slice()].concat();
            Error::damaged(format!("entry '{}'", String::from_utf8_lossy(&name)), detail)
        };
        if !node.has_safe_name() {
            return Err(damaged("its name is not a file name"));
        }
        if *last >= node.name {
            return Err(damaged("the names in its directory are not sorted or not unique"));
        }
        if prefix.len() + node.name.len() >= LONGEST_PATH {
            return Err(damaged("its path is too long"));
        }
        last.clone_from(&node.name);
        let separator: &[u8] = if prefix.is_empty() { b"" } else { b"/" };
        let path = [prefix.as_slice(), separator, node.name.as_slice()].concat();
        let subtree = if node.is_directory() {
            Some(node.subtree.ok_or_else(|| damaged("the directory has no tree"))?)
        } else {
            None
        };
        each(&path, node)?;
        if let Some(subtree) = subtree {
            stack.push((path, load(subtree)?, Vec::new()));
        }
    }
    Ok(())
}
