//! On real temporary directories.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::source::directory::list;
use crate::source::filter::TagFile;
use crate::source::patterns::{Case, Patterns};
use crate::source::scan::{ScanTotals, scan};
use crate::source::targets::tree;

/// `a/` with `b/` (`deep/file`, `keep.txt`, `x.tmp`), `link` to `b`, `zero`; and `c`, of 3 bytes.
fn sample() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b/deep")).unwrap();
    for (name, content) in
        [("a/b/deep/file", "12345"), ("a/b/keep.txt", "1"), ("a/b/x.tmp", "22"), ("a/zero", ""), ("c", "333")]
    {
        fs::write(dir.path().join(name), content).unwrap();
    }
    symlink("b", dir.path().join("a/link")).unwrap();
    dir
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The events below the test's directory, on one line: `dir(… )`, items, `!` for problems.
fn show(dir: &Path, targets: &[&str], filter: &Filter) -> String {
    let given: Vec<_> = targets.iter().map(|target| bytes(&dir.join(target))).collect();
    let targets = tree(&given, &mut list).unwrap();
    let top = dir.components().count() - 1;
    let mut depth = 0;
    let mut events = Vec::new();
    for event in Walk::new(targets, filter, b"/") {
        match event {
            Event::Enter(entered) => {
                depth += 1;
                let name = String::from_utf8(entered.name).unwrap();
                events.push(if depth <= top { String::new() } else { format!("{name}(") });
            }
            Event::Item(item) => {
                assert_eq!(item.file_name(), item.name);
                events.push(String::from_utf8(item.name).unwrap());
            }
            Event::Leave => {
                events.push(if depth <= top { String::new() } else { ")".to_owned() });
                depth -= 1;
            }
            Event::Problem(_) | Event::Warning(_) => events.push("!".to_owned()),
        }
    }
    assert_eq!(depth, 0);
    events.retain(|event| !event.is_empty());
    events.join(" ")
}

fn excluding(patterns: &[&str]) -> Filter {
    Filter { patterns: vec![Patterns::parse(patterns, Case::Matters).unwrap()], ..Filter::default() }
}

#[rstest::rstest]
#[case(&["a"], "a( b( deep( file ) keep.txt x.tmp ) link zero )", "everything, in order")]
#[case(&["c", "a/b/deep"], "a( b( deep( file ) ) ) c", "directories above targets")]
#[case(&["a/link"], "a( link )", "a link as a target")]
#[case(&["a", "a/b/deep"], "a( b( deep( file ) keep.txt x.tmp ) link zero )", "a target in a target")]
#[case(&["a/gone", "c"], "a( ! ) c", "a target that is gone")]
#[case(&["a/zero/x", "c"], "a( ! ) c", "a file where a directory should be")]
#[case(&["a/link/keep.txt"], "a( link( keep.txt ) )", "a link above a target is followed")]
fn the_walk_gives_what_the_snapshot_will_hold(
    #[case] targets: &[&str],
    #[case] expected: &str,
    #[case] reason: &str,
) {
    let dir = sample();
    assert_eq!(show(dir.path(), targets, &Filter::default()), expected, "{reason}");
}

#[rstest::rstest]
#[case(&["*.tmp"], &["a"], "a( b( deep( file ) keep.txt ) link zero )", "by name")]
#[case(&["b/*", "!keep.txt"], &["a"], "a( b( keep.txt ) link zero )", "taken back")]
#[case(&["a"], &["a"], "a( )", "what the user has named is kept, what is in it is asked about")]
#[case(&["deep", "x.tmp"], &["a/b/deep", "a/b"], "a( b( deep( ) keep.txt ) )", "named in an expanded target")]
fn patterns_leave_things_out(
    #[case] patterns: &[&str],
    #[case] targets: &[&str],
    #[case] expected: &str,
    #[case] reason: &str,
) {
    let dir = sample();
    assert_eq!(show(dir.path(), targets, &excluding(patterns)), expected, "{reason}");
}

#[test]
fn tag_files_sizes_and_sockets_leave_things_out() {
    let dir = sample();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("a/socket")).unwrap();
    fs::write(dir.path().join("a/b/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
    let filter = Filter { tag_files: vec![TagFile::of_caches()], ..Filter::default() };
    assert_eq!(show(dir.path(), &["a"], &filter), "a( b( CACHEDIR.TAG ) link zero )");
    fs::write(dir.path().join("a/b/CACHEDIR.TAG"), "Signature: none").unwrap();
    let filter = Filter { larger_than: Some(1), ..filter };
    assert_eq!(show(dir.path(), &["a/b"], &filter), "a( b( ! deep( ) keep.txt ) )");
}

#[test]
fn a_mount_point_is_kept_empty() {
    // /proc is another file system everywhere; nothing of it is read except its existence.
    let current = b"/";
    let device = Stat::at(rustix::fs::CWD, b"/").unwrap().device_id;
    let proc = Stat::at(rustix::fs::CWD, b"/proc").unwrap();
    assert_ne!(proc.device_id, device, "a system without /proc");
    let file_systems = HashMap::from([(b"/".to_vec(), device)]);
    let only_proc: Vec<_> = list(b"/").unwrap().into_iter().filter(|name| name != b"proc").collect();
    let only_proc = only_proc.iter().map(|name| [b"/", name.as_slice()].concat());
    let patterns = vec![Patterns::parse(only_proc, Case::Matters).unwrap()];
    let filter = Filter { patterns, file_systems, ..Filter::default() };
    let targets = tree(["/"], &mut list).unwrap();
    let events: Vec<_> = Walk::new(targets, &filter, current)
        .map(|event| match event {
            Event::Enter(entered) => String::from_utf8(entered.name).unwrap(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(events, ["proc", "Leave"]);
}

#[test]
fn the_scan_counts_what_the_walk_gives() {
    let dir = sample();
    let targets = || tree([bytes(&dir.path().join("a")), bytes(&dir.path().join("c"))], &mut list).unwrap();
    let filter = excluding(&["*.tmp"]);
    let mut reported = Vec::new();
    let totals = scan(Walk::new(targets(), &filter, b"/"), &|| false, &mut |totals| reported.push(totals));
    assert_eq!(totals, ScanTotals { files: 4, directories: 3, others: 1, bytes: 9 });
    assert_eq!(reported.last(), Some(&totals));
    let stopped = scan(Walk::new(targets(), &filter, b"/"), &|| true, &mut |_| {});
    assert_eq!(stopped, ScanTotals::default());
}

#[test]
fn two_targets_with_the_same_name_are_distinguished() {
    let dir = sample();
    let current = bytes(&dir.path().join("a"));
    let handle = |path: &str| Target::Leaf { path: bytes(&dir.path().join(path)), explicit: true };
    let targets = Targets::from([(b"c".to_vec(), handle("c")), (b"c-1".to_vec(), handle("a/zero"))]);
    let filter = Filter::default();
    let names: Vec<_> = Walk::new(targets, &filter, &current)
        .filter_map(|event| match event {
            Event::Item(item) => Some((item.name.clone(), item.file_name().to_vec())),
            _ => None,
        })
        .collect();
    assert_eq!(names, [(b"c".to_vec(), b"c".to_vec()), (b"c-1".to_vec(), b"zero".to_vec())]);
}

#[test]
fn a_directory_that_may_not_be_read_is_a_problem() {
    let dir = sample();
    let closed = dir.path().join("a/b");
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let shown = show(dir.path(), &["a"], &Filter::default());
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    if !rustix::process::geteuid().is_root() {
        assert_eq!(shown, "a( ! link zero )");
    }
}

#[test]
fn a_deep_tree_is_walked_to_its_end_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut deepest = DirectoryHandle::open(&bytes(dir.path())).unwrap();
    for _ in 0..500 {
        let file = deepest.file().unwrap();
        rustix::fs::mkdirat(&file, "d", rustix::fs::Mode::RWXU).unwrap();
        // Comes after the directory, so that it is visited later.
        rustix::fs::symlinkat("target", &file, "z").unwrap();
        deepest = deepest.open_child(b"d").unwrap();
    }
    let targets = tree([bytes(&dir.path().join("d"))], &mut list).unwrap();
    let filter = Filter::default();
    let totals = scan(Walk::new(targets, &filter, b"/"), &|| false, &mut |_| {});
    assert_eq!(totals, ScanTotals { directories: 500, others: 499, ..ScanTotals::default() });
}
