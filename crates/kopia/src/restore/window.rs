//! Plans the reads for the contents that files need: grouped by pack, neighbours together, each content once, however
//! often it is needed. Pure.

use std::collections::HashMap;

use crate::index::Location;
use crate::object::Part;

/// The largest gap between two contents of a pack that are read at once: cheaper than another request.
const GAP: u64 = 256 * 1024;
/// The longest read; only a single content may be longer.
const LONGEST_READ: u64 = 4 * 1024 * 1024;

/// A position in a file that needs a content.
pub(super) struct Want<F> {
    pub(super) part: Part,
    pub(super) location: Location,
    pub(super) file: F,
    pub(super) at: u64,
}

/// One read: a range of a pack, and its contents.
pub(super) struct Read<F> {
    /// The pack's number in the index that the wants were found in.
    pub(super) pack: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) contents: Vec<Planned<F>>,
}

/// A content in a read, and the positions that need it.
pub(super) struct Planned<F> {
    pub(super) part: Part,
    pub(super) location: Location,
    pub(super) places: Vec<(F, u64)>,
}

/// Plans the reads. Packs are in the order in which they are first needed, so that files are completed roughly in the
/// order of the walk.
pub(super) fn plan<F>(mut wants: Vec<Want<F>>) -> Vec<Read<F>> {
    let mut ranks = HashMap::new();
    for want in &wants {
        let next = ranks.len();
        ranks.entry(want.location.pack).or_insert(next);
    }
    // Stable: the positions of one content stay in the order of the walk.
    wants.sort_by_key(|want| (ranks[&want.location.pack], want.location.offset));
    let mut reads: Vec<Read<F>> = Vec::new();
    for Want { part, location, file, at } in wants {
        let (start, end) = (u64::from(location.offset), location.end());
        let places = vec![(file, at)];
        if let Some(read) = reads.last_mut().filter(|read| read.takes(&location)) {
            read.end = read.end.max(end);
            match read.contents.last_mut().filter(|last| last.part == part && last.location == location) {
                Some(last) => last.places.extend(places),
                None => read.contents.push(Planned { part, location, places }),
            }
        } else {
            let contents = vec![Planned { part, location, places }];
            reads.push(Read { pack: location.pack, start, end, contents });
        }
    }
    reads
}

impl<F> Read<F> {
    fn takes(&self, location: &Location) -> bool {
        // Offsets increase within a pack.
        let (start, end) = (u64::from(location.offset), location.end());
        let near = end <= self.end || (start <= self.end + GAP && end - self.start <= LONGEST_READ);
        self.pack == location.pack && near
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ContentId;

    fn want(content: u8, pack: u32, offset: u32, length: u32, file: u32) -> Want<u32> {
        let id = ContentId::from_key(&[&[0], [content; 16].as_slice()].concat()).unwrap();
        let part = Part { content: id, length: length.into(), compressed: false };
        Want { part, location: Location::for_tests(pack, offset, length), file, at: 0 }
    }

    type Shape = (u32, u64, u64, Vec<Vec<u32>>);

    fn shape(wants: Vec<Want<u32>>) -> Vec<Shape> {
        let files = |planned: &Planned<u32>| planned.places.iter().map(|(file, _)| *file).collect();
        let each =
            |read: Read<u32>| (read.pack, read.start, read.end, read.contents.iter().map(files).collect());
        plan(wants).into_iter().map(each).collect()
    }

    #[test]
    fn neighbours_are_read_at_once_and_each_content_once() {
        let wants = vec![
            want(1, 9, 100, 50, 0),
            want(2, 3, 0, 10, 0),
            want(1, 9, 100, 50, 1),
            want(3, 9, 150, 50, 1),
        ];
        assert_eq!(shape(wants), [(9, 100, 200, vec![vec![0, 1], vec![1]]), (3, 0, 10, vec![vec![0]])]);
    }

    #[test]
    fn reads_end_at_a_gap_and_at_their_greatest_length() {
        let mib = 1024 * 1024;
        let wants = vec![
            want(1, 1, 0, 100, 0),
            want(2, 1, mib, 2 * mib, 0),
            want(3, 1, 3 * mib, 2 * mib, 0),
            want(4, 1, 5 * mib, 6 * mib, 0),
        ];
        let ends: Vec<_> = shape(wants).into_iter().map(|(_, start, end, _)| (start, end)).collect();
        let mib = u64::from(mib);
        assert_eq!(ends, [(0, 100), (mib, 5 * mib), (5 * mib, 11 * mib)]);
    }
}
