use super::*;
use crate::lint::source::testing::target;

/// The findings for a crate of these files without known cycles.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    complaints(&[target(files)], &[])
}

#[test]
fn two_modules_that_use_each_other_are_a_cycle_with_its_places() {
    let found = found(&[
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("src/a.rs", "use crate::b::Thing;\n"),
        ("src/b.rs", "pub struct Thing;\nfn f() {\n    crate::a::g();\n}\n"),
        ("src/c.rs", "use crate::{a, b};\n"),
    ]);
    assert_eq!(found, ["sample: a, b\n    a uses b: src/a.rs:1\n    b uses a: src/b.rs:3"]);
}

#[test]
fn uses_in_one_direction_are_no_cycle() {
    let found = found(&[
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\npub use c::C;\n"),
        ("src/a.rs", "use crate::b::B;\nmod deep;\n"),
        ("src/a/deep.rs", "use super::super::b;\nuse super::x;\nuse crate::C;\n"),
        ("src/b.rs", "use crate::c::C;\n"),
        ("src/c.rs", "use std::fmt;\n"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_use_counts_however_it_is_written() {
    for way in [
        "use super::a;",
        "use crate::{x, a::{self, b}};",
        "use crate::Shown;",
        "use super::Renamed as Other;",
        "fn f(x: crate::a::X) {}",
        "fn f() { let _ = crate::a::X; }",
        "fn f() { println!(\"{}\", crate::a::x()); }",
        "macro_rules! m { () => { $crate::a::x() } }",
        "#[serde(with = \"crate::a\")]\nstruct S;",
        "mod deep { use super::super::a; }",
        "impl crate::a::T for u8 {}",
    ] {
        let found = found(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod x;\npub use a::{Shown, Hidden as Renamed};\n"),
            ("src/a.rs", "use crate::b;\n"),
            ("src/b.rs", way),
            ("src/x.rs", ""),
        ]);
        assert_eq!(found.len(), 1, "{way}");
        assert!(found[0].starts_with("sample: a, b\n"), "{way}: {found:?}");
    }
}

#[test]
fn what_the_root_defines_itself_is_a_module_too() {
    let used = ("src/a.rs", "use crate::Error;\n");
    let root = "mod a;\npub struct Error;\npub use a::A;\n";
    assert!(found(&[("src/lib.rs", root), used]).is_empty());
    let root = "mod a;\npub struct Error;\nfn f() { a::g(); }\n";
    let cycles = found(&[("src/lib.rs", root), used]);
    assert!(cycles[0].starts_with("sample: a, lib.rs\n"), "{cycles:?}");
}

#[test]
fn uses_in_tests_do_not_count() {
    let found = found(&[
        ("src/lib.rs", "mod a;\nmod b;\n"),
        ("src/a.rs", "use crate::b;\n"),
        ("src/b.rs", "#[cfg(test)]\nuse crate::a;\n#[cfg(test)]\nmod tests { use crate::a; }\n"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_known_cycle_passes_and_may_only_become_smaller() {
    let three = [target(&[
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("src/a.rs", "use crate::b;\n"),
        ("src/b.rs", "use crate::{a, c};\n"),
        ("src/c.rs", "use crate::b;\n"),
    ])];
    assert!(complaints(&three, &[("sample", &["a", "b", "c"])]).is_empty());
    let grown = complaints(&three, &[("sample", &["a", "b"])]);
    assert!(grown.iter().any(|text| text.starts_with("sample: a, b, c\n")), "{grown:?}");
    let shrunk = complaints(&three, &[("sample", &["a", "b", "c", "d"])]);
    assert!(shrunk[0].contains("write only \"a\", \"b\", \"c\""), "{shrunk:?}");
    let gone = complaints(&three, &[("sample", &["a", "b", "c"]), ("sample", &["x", "y"])]);
    assert!(gone[0].contains("x, y are no cycle any more; remove the entry"), "{gone:?}");
    let other = complaints(&three, &[("another", &["a", "b", "c"])]);
    assert_eq!(other.len(), 2, "{other:?}");
}
