//! Plans the reads for the blobs that files need: grouped by pack, adjacent blobs together, each blob once, however
//! often it is needed. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use super::file::File;
use crate::id::{BlobId, PackId};
use crate::index::Location;

/// The largest gap between two blobs of a pack that are read at once: cheaper than another request.
const GAP: u64 = 256 * 1024;
/// The longest read; only a single blob may be larger.
const LONGEST_READ: u64 = 2 * 1024 * 1024;

/// A position in a file that needs a blob.
pub(super) struct Want<F = Arc<File>> {
    pub(super) blob: BlobId,
    pub(super) location: Location,
    pub(super) file: F,
    pub(super) at: u64,
}

/// One read: a part of a pack, and the positions for its blobs.
pub(super) struct Read<F = Arc<File>> {
    pub(super) pack: PackId,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) blobs: Vec<Planned>,
    /// The positions of all blobs, one after the other.
    pub(super) places: Vec<(F, u64)>,
}

/// A blob in a read. Its positions are the next `places` ones.
pub(super) struct Planned {
    pub(super) id: BlobId,
    pub(super) location: Location,
    pub(super) places: usize,
}

/// Plans the reads. Packs are in the order in which they are first needed, so that files are completed roughly in the
/// order of the walk.
pub(super) fn plan<F>(mut wants: Vec<Want<F>>) -> Vec<Read<F>> {
    let mut ranks = HashMap::new();
    for want in &wants {
        let next = ranks.len();
        ranks.entry(want.location.pack).or_insert(next);
    }
    // Stable: the positions of one blob stay in the order of the walk.
    wants.sort_by_key(|want| (ranks[&want.location.pack], want.location.offset));
    let mut reads: Vec<Read<F>> = Vec::new();
    for want in wants {
        let (start, end) = (u64::from(want.location.offset), want.location.end());
        match reads.last_mut() {
            Some(read) if read.takes(&want) => {
                read.end = read.end.max(end);
                match read.blobs.last_mut() {
                    Some(last) if last.id == want.blob && last.location == want.location => last.places += 1,
                    _ => read.blobs.push(Planned { id: want.blob, location: want.location, places: 1 }),
                }
                read.places.push((want.file, want.at));
            }
            _ => reads.push(Read {
                pack: want.location.pack,
                start,
                end,
                blobs: vec![Planned { id: want.blob, location: want.location, places: 1 }],
                places: vec![(want.file, want.at)],
            }),
        }
    }
    reads
}

impl<F> Read<F> {
    fn takes(&self, want: &Want<F>) -> bool {
        if self.pack != want.location.pack {
            return false;
        }
        // Offsets increase within a pack.
        let (start, end) = (u64::from(want.location.offset), want.location.end());
        end <= self.end || (start <= self.end + GAP && end - self.start <= LONGEST_READ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    fn want(blob: u8, pack: u8, offset: u32, length: u32, file: u32, at: u64) -> Want<u32> {
        let location = Location { pack: PackId(Id([pack; 32])), offset, length, uncompressed_length: 0 };
        Want { blob: BlobId(Id([blob; 32])), location, file, at }
    }

    /// Pack, start and end; positions of each blob; all positions.
    type Shape = (u8, u64, u64, Vec<usize>, Vec<(u32, u64)>);

    fn shape(reads: &[Read<u32>]) -> Vec<Shape> {
        let each = |read: &Read<u32>| {
            let places = read.blobs.iter().map(|blob| blob.places).collect();
            (read.pack.0.0[0], read.start, read.end, places, read.places.clone())
        };
        reads.iter().map(each).collect()
    }

    #[test]
    fn neighbours_are_read_at_once_and_each_blob_once() {
        let wants = vec![
            want(1, 9, 100, 50, 0, 0),
            want(2, 3, 0, 10, 0, 18),
            want(1, 9, 100, 50, 1, 0),
            want(3, 9, 150, 50, 1, 18),
        ];
        assert_eq!(
            shape(&plan(wants)),
            [(9, 100, 200, vec![2, 1], vec![(0, 0), (1, 0), (1, 18)]), (3, 0, 10, vec![1], vec![(0, 18)])]
        );
    }

    #[test]
    fn reads_end_at_a_gap_and_at_their_greatest_length() {
        let mib = 1024 * 1024;
        let wants = vec![
            want(1, 1, 0, 100, 0, 0),
            want(2, 1, 2 * mib, mib, 0, 1),
            want(3, 1, 3 * mib, mib, 0, 2),
            want(4, 1, 4 * mib, 3 * mib, 0, 3),
        ];
        let reads = plan(wants);
        let mib = u64::from(mib);
        let ends: Vec<_> = reads.iter().map(|read| (read.start, read.end)).collect();
        assert_eq!(ends, [(0, 100), (2 * mib, 4 * mib), (4 * mib, 7 * mib)]);
    }
}
