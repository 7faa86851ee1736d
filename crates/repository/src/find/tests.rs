use super::*;
use crate::id::{BlobId, BlobKind, Id};
use crate::source::patterns::Case;
use crate::testing::{memory_repository, save_snapshot};

async fn search(repository: &Repository, ids: &[SnapshotId], wanted: Wanted) -> Result<Vec<String>> {
    let mut hits = Vec::new();
    let mut each = |hit| {
        hits.push(match hit {
            Hit::Node { path, .. } => String::from_utf8(path).unwrap(),
            Hit::Object(object) => format!("{} {}", object.object_type, object.path),
            Hit::Unreadable { tree, .. } => format!("unreadable {}", tree.short()),
        });
        Ok(())
    };
    find(repository, ids, &wanted, None, &mut each, &Progress::default(), &CancellationToken::new()).await?;
    Ok(hits)
}

fn names(patterns: &[&str], case: Case, oldest: Option<i64>, newest: Option<i64>) -> Wanted {
    let time = |seconds| NodeTime::new(seconds, 0);
    let patterns = Patterns::parse(patterns, case).unwrap();
    Wanted::Names { patterns, oldest: oldest.map(time), newest: newest.map(time) }
}

#[rstest::rstest]
#[case::a_name(names(&["c.txt"], Case::Matters, None, None), "/a/b/c.txt")]
#[case::a_glob(names(&["*.txt"], Case::Matters, None, None), "/a/b/c.txt /d.txt")]
#[case::other_case(names(&["D.TXT"], Case::Ignored, None, None), "/d.txt")]
#[case::other_case_matters(names(&["D.TXT"], Case::Matters, None, None), "")]
#[case::absolute(names(&["/a/b"], Case::Matters, None, None), "/a/b /a/b/c.txt")]
#[case::new_enough(names(&["*.txt"], Case::Matters, Some(0), None), "/a/b/c.txt /d.txt")]
#[case::too_old(names(&["*.txt"], Case::Matters, Some(1), None), "")]
#[case::old_enough(names(&["d*"], Case::Matters, None, Some(0)), "/d.txt")]
#[tokio::test]
async fn names_are_found(#[case] wanted: Wanted, #[case] expected: &str) {
    let repository = memory_repository().await;
    let (id, snapshot) = save_snapshot(&repository, 1, &[("a/b/c.txt", b"x"), ("d.txt", b"y")]).await;
    let index = Arc::new(repository.load_index().await.unwrap());
    let nodes = BlobReader::new(&repository, index).load_tree(&snapshot.tree).await.unwrap();
    assert_eq!(nodes[0].mtime, NodeTime::default());
    let offset = NodeTime::default().seconds;
    let shift = |time: Option<NodeTime>| time.map(|time| NodeTime::new(time.seconds + offset, 0));
    let wanted = match wanted {
        Wanted::Names { patterns, oldest, newest } => {
            Wanted::Names { patterns, oldest: shift(oldest), newest: shift(newest) }
        }
        other => other,
    };
    assert_eq!(search(&repository, &[id], wanted).await.unwrap().join(" "), expected);
}

#[tokio::test]
async fn blobs_trees_and_packs_lead_to_their_files() {
    let repository = memory_repository().await;
    let (id, snapshot) = save_snapshot(&repository, 1, &[("a/b", b"x"), ("c", b"y")]).await;
    let blob = BlobId(Id::of(b"x"));
    let found = search(&repository, &[id], Wanted::Blobs(vec![blob.to_string()])).await.unwrap();
    assert_eq!(found, ["blob /a/b"]);
    let found = search(&repository, &[id], Wanted::Blobs(vec![blob.short()])).await.unwrap();
    assert_eq!(found, ["blob /a/b"]);
    let found = search(&repository, &[id], Wanted::Trees(vec![snapshot.tree.short()])).await.unwrap();
    assert_eq!(found, ["tree /"]);
    let index = repository.load_index().await.unwrap();
    let pack = index.find(BlobKind::Data, &blob).unwrap().unwrap().pack;
    let only = [id];
    let in_pack = || search(&repository, &only, Wanted::Packs(vec![pack.short()]));
    assert_eq!(in_pack().await.unwrap(), ["blob /a/b", "blob /c"]);
    repository.remove_file(crate::files::FileKind::Pack, pack.0).await.unwrap();
    assert_eq!(in_pack().await.unwrap(), ["blob /a/b", "blob /c"]);
    for wrong in ["x", "zzzz", "00000000"] {
        assert!(search(&repository, &[id], Wanted::Packs(vec![wrong.to_owned()])).await.is_err());
    }
}
