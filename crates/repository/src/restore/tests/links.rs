//! Files with several names.

use std::os::unix::fs::MetadataExt;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn more_hard_links_than_wait_in_memory_are_all_created() {
    const NAMES: u64 = 9_000;
    let of = |directory: u64| {
        let name = |number: u64| {
            let inode = 1 + number % 2;
            let content: &[u8] = if inode == 1 { b"one" } else { b"another" };
            file(format!("{number:05}"), &[content]).with(|node| {
                (node.inode, node.device_id, node.links) = (inode, 7, NAMES);
            })
        };
        directory_of(directory, (0..NAMES).map(name).collect())
    };
    let made = make(vec![of(0), of(1), file("single", &[b"x"])]).await;
    let target = tempfile::tempdir().unwrap();
    let outcome = run_well(&made, options(target.path())).await;
    assert_eq!((outcome.files_restored, outcome.bytes_restored), (2 * NAMES + 3, 3 + 7 + 1));
    for (name, length) in [("d0/00000", 3), ("d1/08998", 3), ("d0/00001", 7), ("d1/08999", 7)] {
        let metadata = target.path().join(name).metadata().unwrap();
        assert_eq!((metadata.nlink(), metadata.len()), (NAMES, length), "{name}");
    }
    for name in ["d0", "d1"] {
        assert_eq!(target.path().join(name).metadata().unwrap().mtime(), 1_600_000_000, "{name}");
    }
}

fn directory_of(number: u64, children: Vec<Entry>) -> Entry {
    directory(format!("d{number}"), children)
}
