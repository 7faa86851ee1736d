use super::*;
use proptest::prelude::*;

#[test]
fn runs_follow_the_blocks_of_the_file() {
    let mut plain = vec![0; 3 * BLOCK];
    plain[BLOCK] = 1;
    let run = |start, end, zero| Run { start, end, zero };
    assert_eq!(
        runs(&plain, 0),
        [run(0, BLOCK, true), run(BLOCK, 2 * BLOCK, false), run(2 * BLOCK, 3 * BLOCK, true)]
    );
    assert_eq!(
        runs(&plain, 10),
        [
            run(0, BLOCK - 10, true),
            run(BLOCK - 10, 2 * BLOCK - 10, false),
            run(2 * BLOCK - 10, 3 * BLOCK, true)
        ]
    );
    assert_eq!(runs(&[], 5), []);
}

proptest! {
    #[test]
    fn holes_in_new_and_in_old_files_read_as_what_was_to_be_written(
        old in proptest::collection::vec(any::<u8>(), 0..30_000),
        pieces in proptest::collection::vec((any::<bool>(), 1_usize..9000), 1..6),
    ) {
        let mut plain = Vec::new();
        for (zero, length) in pieces {
            plain.resize(plain.len() + length, if zero { 0 } else { 7 });
        }
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &old, 0).unwrap();
        let handle = OwnedFd::from(file);
        rustix::fs::ftruncate(&handle, plain.len() as u64).unwrap();
        let cut = plain.len() / 3;
        write_sparse(&handle, &plain[cut..], cut as u64, old.len() as u64).unwrap();
        write_sparse(&handle, &plain[..cut], 0, old.len() as u64).unwrap();
        let mut read = vec![1; plain.len() + 1];
        let length = rustix::io::pread(&handle, &mut read[..], 0).unwrap();
        prop_assert_eq!(&read[..length], &plain[..]);
    }
}
