//! Trees that no backup writes. Nothing may appear outside the target, and the outcome is never "complete".

use super::make::{make_deep, node};
use super::*;
use crate::node::NodeKind;

/// A target with a sibling that must not change.
struct Fenced {
    base: tempfile::TempDir,
    before: BTreeMap<String, String>,
}

impl Fenced {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("out/inner")).unwrap();
        std::fs::write(base.path().join("out/canary"), b"alive").unwrap();
        std::fs::create_dir(base.path().join("target")).unwrap();
        let before = tree_of(&base.path().join("out"));
        Self { base, before }
    }

    fn target(&self) -> PathBuf {
        self.base.path().join("target")
    }

    fn assert_untouched(&self) {
        assert_eq!(tree_of(&self.base.path().join("out")), self.before);
        let mut names: Vec<_> =
            std::fs::read_dir(self.base.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["out", "target"]);
    }
}

#[rstest::rstest]
#[case(b"..")]
#[case(b".")]
#[case(b"")]
#[case(b"a/b")]
#[case(b"../out/evil")]
#[case(b"/tmp/lifeboat-evil")]
#[case(b"nul\0inside")]
#[tokio::test]
async fn names_that_are_no_names_are_never_written(#[case] name: &[u8]) {
    for kind in [NodeKind::File, NodeKind::Directory, NodeKind::Symlink, NodeKind::Fifo] {
        let fenced = Fenced::new();
        let mut bad = match kind {
            NodeKind::File => file(name, &[b"evil"]),
            NodeKind::Directory => directory(name, vec![file("canary", &[b"evil"])]),
            NodeKind::Symlink => link(name, "../out"),
            other => node(name, other, 0o010_600),
        };
        bad.node.name = name.to_vec();
        let made = make(vec![bad, file("good", &[b"good"])]).await;
        std::fs::write(fenced.target().join("extra"), b"kept").unwrap();
        let outcome = run(&made, RestoreOptions { delete: true, ..options(&fenced.target()) }).await.unwrap();
        assert!(outcome.is_incomplete());
        assert_eq!(outcome.problem_count, 1);
        fenced.assert_untouched();
        let tree = tree_of(&fenced.target());
        assert_eq!(tree.keys().collect::<Vec<_>>(), ["extra", "good"], "nothing is deleted by a bad tree");
        assert!(!Path::new("/tmp/lifeboat-evil").exists());
    }
}

#[tokio::test]
async fn a_link_out_and_a_directory_of_the_same_name_write_nothing_outside() {
    for reversed in [false, true] {
        let fenced = Fenced::new();
        let mut entries = vec![
            link("x", "../out"),
            directory("x", vec![file("canary", &[b"evil"]), directory("inner", vec![file("e", &[b"e"])])]),
        ];
        if reversed {
            entries.reverse();
        }
        let outcome = run(&make(entries).await, options(&fenced.target())).await.unwrap();
        assert!(outcome.is_incomplete());
        assert!(outcome.problems[0].message.contains("two entries"));
        fenced.assert_untouched();
    }
}

#[tokio::test]
async fn links_that_are_there_already_are_replaced_and_never_followed() {
    let fenced = Fenced::new();
    std::os::unix::fs::symlink("../out", fenced.target().join("d")).unwrap();
    std::os::unix::fs::symlink("../out/canary", fenced.target().join("f")).unwrap();
    std::os::unix::fs::symlink("../out/canary", fenced.target().join("h")).unwrap();
    let linked =
        |name: &str| file(name, &[b"evil"]).with(|node| (node.links, node.inode, node.device_id) = (2, 9, 1));
    let made = make(vec![
        directory("d", vec![file("canary", &[b"evil"]), directory("inner", vec![])]),
        file("f", &[b"evil"]),
        linked("g"),
        linked("h"),
    ])
    .await;
    run_well(&made, options(&fenced.target())).await;
    fenced.assert_untouched();
    assert_eq!(std::fs::read(fenced.target().join("d/canary")).unwrap(), b"evil");
    assert_eq!(std::fs::read(fenced.target().join("h")).unwrap(), b"evil");
}

#[tokio::test]
async fn a_tree_deeper_than_any_path_ends_with_a_problem() {
    let fenced = Fenced::new();
    let made = make_deep(5000).await;
    let outcome = run(&made, options(&fenced.target())).await.unwrap();
    assert!(outcome.is_incomplete());
    assert!(outcome.problems.iter().all(|problem| problem.message.contains("too long")));
    // 2 bytes per level: a file at every level that a path can have.
    assert_eq!(outcome.files_restored, 2 * 2047);
    fenced.assert_untouched();
}

#[tokio::test]
async fn two_files_with_the_number_of_one_keep_their_own_content() {
    let claims = |name: &str, content: &[u8]| {
        file(name, &[content]).with(|node| (node.links, node.inode, node.device_id) = (2, 9, 1))
    };
    let made = make(vec![claims("a", b"one"), claims("b", b"other"), claims("c", b"one")]).await;
    let target = tempfile::tempdir().unwrap();
    run_well(&made, options(target.path())).await;
    for (name, content) in [("a", "one"), ("b", "other"), ("c", "one")] {
        assert_eq!(std::fs::read_to_string(target.path().join(name)).unwrap(), content);
    }
}

#[tokio::test]
async fn nodes_that_contradict_themselves_are_problems() {
    let unknown = crate::id::BlobId(crate::id::Id([7; 32]));
    let made = make(vec![
        file("cut", &[b"four"]).with(|node| node.size = 3),
        file("grown", &[b"four"]).with(|node| node.size = 1 << 40),
        file("missing", &[]).with(|node| (node.size, node.content) = (5, Some(vec![unknown]))),
        node("odd", NodeKind::Unknown("volcano".to_owned()), 0o100_600),
        directory("treeless", vec![])
            .with(|node| node.subtree = Some(crate::id::BlobId(crate::id::Id([8; 32])))),
    ])
    .await;
    for sparse in [false, true] {
        let target = tempfile::tempdir().unwrap();
        let outcome = run(&made, RestoreOptions { sparse, ..options(target.path()) }).await.unwrap();
        let mut hit: Vec<_> = outcome.problems.iter().map(|problem| problem.path.as_str()).collect();
        hit.sort_unstable();
        assert_eq!(hit, ["/cut", "/grown", "/missing", "/odd", "/treeless"]);
        let again = RestoreOptions { overwrite: Overwrite::IfChanged, ..options(target.path()) };
        assert!(run(&made, again).await.unwrap().is_incomplete(), "what failed is not taken for unchanged");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_swapped_for_a_link_while_restoring_leads_nowhere() {
    let fenced = Fenced::new();
    let files = (0..300).map(|each| file(format!("f{each:03}"), &[format!("{each}").as_bytes()])).collect();
    let made = make(vec![directory("d", files)]).await;
    let (target, out) = (fenced.target(), fenced.base.path().join("out"));
    let swap: Notify = Arc::new(move |_| {
        // When the first entry is finished, the directory is replaced by a symbolic link to the outside.
        if std::fs::rename(target.join("d"), target.join("moved")).is_ok() {
            std::os::unix::fs::symlink(&out, target.join("d")).unwrap();
        }
    });
    let options = RestoreOptions { notify: Some(swap), verify: true, ..options(&fenced.target()) };
    let outcome = run(&made, options).await.unwrap();
    fenced.assert_untouched();
    assert!(outcome.is_incomplete(), "verification finds nothing at the old place");
}
