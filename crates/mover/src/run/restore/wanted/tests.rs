use super::*;
use crate::task::Target;

fn work() -> RestoreWork {
    let target = Target::Path { path: "/d".into(), proof: None };
    RestoreWork { done_file: Some(".velero/uid".into()), ..RestoreWork::new("s", target) }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[rstest::rstest]
#[case(&["/a/b"], "/a", (false, true))]
#[case(&["/a/b"], "/a/b", (true, true))]
#[case(&["a/b/"], "/a/b/c", (true, true))]
#[case(&["/a/b"], "/a/bc", (false, false))]
#[case(&["/a/b", "/x"], "/x", (true, true))]
#[case(&[], "/x", (true, true))]
#[case(&[], "/.velero", (false, false))]
#[case(&[], "/.velero/uid", (false, false))]
#[case(&[], "/.velerox", (true, true))]
fn paths_are_chosen_with_what_is_below_them(
    #[case] paths: &[&str],
    #[case] path: &str,
    #[case] expected: (bool, bool),
) {
    let wanted = Wanted::new(&RestoreWork { paths: texts(paths), ..work() }).unwrap();
    let selection = wanted.select()(path.as_bytes(), true);
    assert_eq!((selection.include, selection.descend), expected);
}

/// Paths and patterns are those of the snapshot; the engine asks about paths below the folder.
#[rstest::rstest]
#[case(&["/source/data"], &[], &[], "/x", (true, true), "the whole folder")]
#[case(&["/source"], &[], &[], "/x", (true, true), "more than the folder")]
#[case(&["/source/data/a"], &[], &[], "/a", (true, true), "a path in the folder")]
#[case(&["/source/data/a"], &[], &[], "/b", (false, false), "another path in the folder")]
#[case(&[], &["/source/data/a/*.sql"], &[], "/a", (false, true), "above what an include can match")]
#[case(&[], &["/source/data/a/*.sql"], &[], "/a/b.sql", (true, true), "an include")]
#[case(&[], &["/a/*.sql"], &[], "/a/b.sql", (false, false), "an include of another folder")]
#[case(&[], &["*.sql"], &[], "/a/b.txt", (false, true), "not an include")]
#[case(&[], &[], &["/source/data/a"], "/a", (false, false), "an exclude")]
#[case(&[], &[], &["*.log", "!keep.log"], "/a/keep.log", (true, true), "an exclude taken back")]
#[case(&[], &["*.sql"], &["old"], "/old/b.sql", (false, false), "an exclude wins over an include")]
#[case(&["/source/data/a"], &["*.sql"], &[], "/b/c.sql", (false, false), "an include outside the paths")]
fn patterns_and_paths_hold_together(
    #[case] paths: &[&str],
    #[case] include: &[&str],
    #[case] exclude: &[&str],
    #[case] path: &str,
    #[case] expected: (bool, bool),
    #[case] reason: &str,
) {
    let (paths, include, exclude) = (texts(paths), texts(include), texts(exclude));
    let work = RestoreWork { folder: Some("/source/data".to_owned()), paths, include, exclude, ..work() };
    let selection = Wanted::new(&work).unwrap().select()(path.as_bytes(), true);
    assert_eq!((selection.include, selection.descend), expected, "{reason}");
}

#[test]
fn a_path_that_is_not_met_is_missing() {
    let wanted = Wanted::new(&RestoreWork { paths: texts(&["/a", "/b"]), ..work() }).unwrap();
    wanted.select()(b"/a", false);
    assert_eq!(wanted.missing().collect::<Vec<_>>(), ["/b"]);
    let folder = Some("/source/data/".to_owned());
    let whole = RestoreWork { paths: texts(&["/source/data"]), folder: folder.clone(), ..work() };
    let whole = Wanted::new(&whole).unwrap();
    assert!(whole.is_everything() && whole.missing().next().is_none());
    for (paths, include, folder) in [
        (&["../etc"][..], &[][..], None),
        (&["/"], &[], None),
        (&["/other"], &[], folder),
        (&[], &["a["], None),
        (&[], &[], Some("/a/../b".to_owned())),
    ] {
        let work = RestoreWork { paths: texts(paths), include: texts(include), folder, ..work() };
        assert_eq!(Wanted::new(&work).err().unwrap().cause, Cause::Task, "{work:?}");
    }
}
