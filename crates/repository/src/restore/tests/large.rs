//! Directories whose trees are streamed.

use super::*;
use crate::restore::tests::make::{Entry, directory, file, link, make};

/// Links with long targets: their tree has more than 4 MiB.
pub(crate) fn many() -> Vec<Entry> {
    (0..4500).map(|number| link(format!("link {number:04}"), &"x".repeat(900))).collect()
}

async fn is_large(made: &TestSnapshot) -> bool {
    let index = Arc::new(made.repository.load_index().await.unwrap());
    BlobReader::new(&made.repository, index).is_large(&made.snapshot.tree).unwrap()
}

#[rstest::rstest]
#[case(true, false)]
#[case(false, true)]
#[tokio::test]
async fn a_large_directory_is_restored_and_what_it_lacks_is_removed(
    #[case] delete: bool,
    #[case] delete_last: bool,
) {
    let mut entries = many();
    entries.insert(0, directory("below", vec![file("inner", &[b"i"])]));
    entries.push(file("z", &[b"con", b"tent"]));
    let made = make(entries).await;
    assert!(is_large(&made).await);
    let target = tempfile::tempdir().unwrap();
    for name in ["extra", "link 0003x", "zz"] {
        std::fs::write(target.path().join(name), name).unwrap();
    }
    std::fs::write(target.path().join("link 0007"), "in the way").unwrap();
    let wanted = RestoreOptions { delete, delete_last, verify: true, ..options(target.path()) };
    let outcome = run_well(&made, wanted).await;
    assert_eq!((outcome.files_restored, outcome.files_deleted, outcome.files_verified), (4503, 3, Some(2)));
    let found = tree_of(target.path());
    assert_eq!(found.len(), 4503);
    assert!(found["link 0007"].starts_with("link to xxx") && found["z"].starts_with("file 640 7"));
}

#[tokio::test]
async fn a_large_directory_that_is_not_sorted_has_each_name_once() {
    let mut entries = many();
    entries.push(file("a", &[b"a"]));
    entries.push(link("link 0003", "another"));
    entries.push(link("link 9999", "new"));
    let made = make(entries).await;
    assert!(is_large(&made).await);
    let target = tempfile::tempdir().unwrap();
    let outcome = run(&made, options(target.path())).await.unwrap();
    assert_eq!((outcome.problem_count, outcome.problems[0].path.as_str()), (1, "/link 0003"));
    assert!(outcome.problems[0].message.contains("two entries of this name"), "{outcome:?}");
    let found = tree_of(target.path());
    assert_eq!(found.len(), 4502);
    assert!(found["link 0003"].starts_with("link to xxx"));
}
