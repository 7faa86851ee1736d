//! Names that are not UTF-8: names of files may contain any bytes, and every command accepts them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::bench::{Bench, code, stderr};

/// `\xff` is never valid UTF-8.
const NAME: &[u8] = b"odd\xff";

fn os(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

fn arguments<'a>(first: &[&'a str], last: &'a [u8]) -> Vec<OsString> {
    let first = first.iter().map(OsString::from);
    first.chain([os(last)]).collect()
}

/// A snapshot of `data` with a directory and a file of that name.
fn bench() -> Bench {
    let bench = Bench::new();
    let directory = bench.path("data").join(os(NAME));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join(os(NAME)), "odd content").unwrap();
    let output = bench.lifeboat(["backup", "data"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    bench
}

#[test]
fn a_file_of_any_name_can_be_dumped_listed_and_found_and_its_name_is_printed_as_it_is() {
    let bench = bench();
    let dumped = bench.lifeboat(arguments(&["dump", "latest"], b"/data/odd\xff/odd\xff"));
    assert_eq!(dumped.stdout, b"odd content", "{}", stderr(&dumped));
    let dumped = bench.lifeboat([os(b"dump"), os(b"latest:/data/odd\xff"), os(b"/odd\xff")]);
    assert_eq!(dumped.stdout, b"odd content", "{}", stderr(&dumped));
    let listed = bench.lifeboat(arguments(&["ls", "latest"], b"/data/odd\xff"));
    assert_eq!(listed.stdout, b"/data/odd\xff\n/data/odd\xff/odd\xff\n", "{}", stderr(&listed));
    let listed = bench.lifeboat(arguments(&["ls"], b"latest:/data/odd\xff"));
    assert_eq!(listed.stdout, b"/odd\xff\n", "{}", stderr(&listed));
    let found = bench.lifeboat(arguments(&["find"], NAME));
    assert_eq!(found.stdout, b"/data/odd\xff\n/data/odd\xff/odd\xff\n", "{}", stderr(&found));
}

#[test]
fn patterns_and_folders_of_any_name_choose_what_is_restored() {
    let bench = bench();
    let output =
        bench.lifeboat(arguments(&["restore", "latest", "--target", "some", "--include"], b"/data/odd\xff"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(!bench.path("some/data/file").exists());
    assert!(bench.path("some/data").join(os(NAME)).join(os(NAME)).exists());
    let output = bench.lifeboat(arguments(&["restore", "--target", "folder"], b"latest:/data/odd\xff"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(bench.path("folder").join(os(NAME)).exists());
}

#[test]
fn paths_and_patterns_of_any_name_choose_what_is_backed_up() {
    let bench = bench();
    let output = bench.lifeboat(arguments(&["backup", "data", "--exclude"], b"odd\xff"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let listed = bench.lifeboat(["ls", "latest"]);
    assert_eq!(listed.stdout, b"/data\n/data/file\n", "{}", stderr(&listed));
    let output = bench.lifeboat(arguments(&["backup"], b"data/odd\xff"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}
