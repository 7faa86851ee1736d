//! How many objects to request per page: few at first, then as many as fit into a page of some MiB, so that memory does
//! not depend on the size of objects. Used by the pager.

/// Objects in the first page, while their size is unknown.
const FIRST: u32 = 32;

/// The target size of a page in bytes.
const AIM: usize = 1 << 20;

/// A larger page is dropped and requested again with fewer objects.
pub(super) const MOST: usize = 4 << 20;

/// How much a page may grow compared to the previous one, because the next objects may be larger.
const GROWTH: u32 = 8;

/// The number of objects in the next page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    most: u32,
    limit: u32,
}

impl Pace {
    /// `most` is the maximum number of objects per page.
    pub(super) fn new(most: u32) -> Self {
        let most = most.max(1);
        Self { most, limit: most.min(FIRST) }
    }

    pub(super) fn limit(self) -> u32 {
        self.limit
    }

    /// Records a page that was received.
    pub(super) fn took(&mut self, objects: usize, bytes: usize) {
        let each = (bytes / objects.max(1)).max(1);
        let fitting = u32::try_from(AIM / each).unwrap_or(u32::MAX);
        self.limit = fitting.min(self.limit.saturating_mul(GROWTH)).clamp(1, self.most);
    }

    /// Records that a page had too many bytes.
    pub(super) fn too_large(&mut self) {
        self.limit = (self.limit / 4).max(1);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::small(500, 32, 32 * 500, 256)]
    #[case::as_asked(500, 32, 32, 256)]
    #[case::large(500, 32, 32 << 16, 16)]
    #[case::huge(500, 3, 3 << 20, 1)]
    #[case::few_asked_for(2, 2, 2, 2)]
    #[case::empty(500, 0, 50, 256)]
    fn pages_follow_the_size_of_objects(
        #[case] most: u32,
        #[case] objects: usize,
        #[case] bytes: usize,
        #[case] expected: u32,
    ) {
        let mut pace = Pace::new(most);
        pace.took(objects, bytes);
        assert_eq!(pace.limit(), expected);
    }

    #[test]
    fn a_page_that_is_too_large_shrinks_to_a_single_object() {
        let mut pace = Pace::new(500);
        let limits: Vec<u32> = std::iter::repeat_with(|| {
            pace.too_large();
            pace.limit()
        })
        .take(4)
        .collect();
        assert_eq!(limits, [8, 2, 1, 1]);
    }
}
