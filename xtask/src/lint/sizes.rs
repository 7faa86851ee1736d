//! The maximum length of files and functions, also of tests, and of the server's own crate, in which lines of tests do not
//! count. Longer ones contain several things that are easier to read separately.

mod functions;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use super::known;
use super::source::{SourceFile, Target};

const FILE: usize = 400;
const FUNCTION: usize = 60;

/// How many lines a whole crate may have.
const CRATES: &[(&str, usize)] = &[("lifeboat-operator", 1_500)];

/// What is known to be too long and shall go: for a package, how many files, how many functions, and how many lines it
/// has if it is in [`CRATES`]. These numbers may only become smaller; a package without any is removed.
const KNOWN: &[(&str, Known)] = &[];

const TABLE: &str = "KNOWN in xtask/src/lint/sizes.rs";

#[derive(Clone, Copy, Default)]
struct Known {
    files: usize,
    functions: usize,
    lines: usize,
}

/// The findings in one package.
#[derive(Debug, Default)]
struct Found {
    files: Vec<String>,
    functions: Vec<String>,
    lines: usize,
}

/// Fails for every package that has more or fewer of them than is known. `products`: the targets without their tests;
/// `all`: with them.
pub(crate) fn check(products: &[Target], all: &[Target]) -> Result<()> {
    let complaints = complaints(&measure(products, all), CRATES, KNOWN);
    if !complaints.is_empty() {
        bail!(
            "files over {FILE} lines, functions over {FUNCTION} lines or crates that are too large:\n  {}",
            complaints.join("\n  ")
        );
    }
    Ok(())
}

fn measure<'a>(products: &'a [Target], all: &'a [Target]) -> BTreeMap<&'a str, Found> {
    let mut packages: BTreeMap<&str, Found> = BTreeMap::new();
    for target in products {
        let found = packages.entry(&target.package).or_default();
        found.lines += target.files.iter().map(|file| file.lines).sum::<usize>();
    }
    // Several test programs may share a file.
    let mut seen = BTreeSet::new();
    for target in all {
        let found = packages.entry(&target.package).or_default();
        for file in target.files.iter().filter(|file| seen.insert(&file.path)) {
            found.add(file);
        }
    }
    packages
}

impl Found {
    fn add(&mut self, file: &SourceFile) {
        let path = file.path.display();
        if file.lines > FILE {
            self.files.push(format!("{path}: {} lines", file.lines));
        }
        for function in functions::of(&file.items) {
            if function.lines > FUNCTION {
                self.functions.push(format!(
                    "{path}:{}: {} has {} lines",
                    function.start, function.name, function.lines
                ));
            }
        }
    }
}

fn complaints(
    packages: &BTreeMap<&str, Found>,
    crates: &[(&str, usize)],
    known: &[(&str, Known)],
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (package, found) in packages {
        let known =
            known.iter().find(|(name, _)| name == package).map_or(Known::default(), |(_, known)| *known);
        complaints.extend(known::compare(
            package,
            "files that are too long",
            &found.files,
            known.files,
            TABLE,
        ));
        let what = "functions that are too long";
        complaints.extend(known::compare(package, what, &found.functions, known.functions, TABLE));
        if let Some((_, limit)) = crates.iter().find(|(name, _)| name == package) {
            complaints.extend(total(package, found.lines, *limit, known.lines));
        }
    }
    let gone = known.iter().filter(|(name, _)| !packages.contains_key(name));
    complaints.extend(gone.map(|(name, _)| format!("{name}: no such package; remove the entry in {TABLE}")));
    complaints
}

/// The known total is a limit and not an exact number, because every change of the crate would change that.
fn total(package: &str, lines: usize, limit: usize, known: usize) -> Option<String> {
    if lines <= limit {
        (known > 0).then(|| format!("{package}: it has at most {limit} lines now; write lines: 0 in {TABLE}"))
    } else if lines > known {
        Some(format!("{package}: {lines} lines, at most {} are allowed", known.max(limit)))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::source::testing;

    fn text(file: usize, function: usize) -> String {
        let body = "    let _ = 1;\n".repeat(function - 2);
        let blank = "\n".repeat(file - function);
        format!("impl S {{ fn long(&self) {{\n{body}}} }}\n{blank}")
    }

    fn long(file: usize, function: usize) -> Target {
        testing::target(&[("src/lib.rs", &text(file, function))])
    }

    fn complain(target: Target, known: Known) -> Vec<String> {
        complaints(&measure(&[], &[target]), &[], &[("sample", known)])
    }

    #[test]
    fn a_file_and_a_function_of_just_the_limit_pass() {
        assert!(complain(long(400, 60), Known::default()).is_empty());
    }

    #[test]
    fn one_line_more_is_refused_and_named() {
        let found = complain(long(401, 60), Known::default());
        assert!(found.len() == 1 && found[0].contains("src/lib.rs: 401 lines"), "{found:?}");
        let found = complain(long(400, 61), Known::default());
        assert!(found.len() == 1 && found[0].contains("src/lib.rs:1: long has 61 lines"), "{found:?}");
    }

    #[test]
    fn files_and_functions_of_tests_count_too() {
        let lib = "fn f() {}\n#[cfg(test)]\nmod tests;\n";
        let with = |tests: &str| testing::with_tests(&[("src/lib.rs", lib), ("src/tests.rs", tests)]);
        assert!(complain(with(&text(400, 60)), Known::default()).is_empty());
        let found = complain(with(&text(401, 61)), Known::default());
        assert!(found.len() == 2 && found[0].contains("src/tests.rs: 401 lines"), "{found:?}");
        assert!(found[1].contains("src/tests.rs:1: long has 61 lines"), "{found:?}");
    }

    #[test]
    fn a_file_of_several_test_programs_is_named_once() {
        let found = complaints(&measure(&[], &[long(401, 60), long(401, 60)]), &[], &[]);
        assert!(found.len() == 1 && found[0].matches("src/lib.rs").count() == 1, "{found:?}");
    }

    #[test]
    fn tests_do_not_count_for_their_crate() {
        let tests = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "fn g() {}\n".repeat(300));
        let files = [("src/lib.rs", tests.as_str())];
        let (products, all) = ([testing::target(&files)], [testing::with_tests(&files)]);
        assert!(complaints(&measure(&products, &all), &[("sample", 100)], &[]).is_empty());
    }

    #[test]
    fn known_numbers_pass_and_may_only_become_smaller() {
        let known = Known { files: 1, functions: 1, lines: 0 };
        assert!(complain(long(500, 100), known).is_empty());
        let found = complain(long(300, 50), known);
        assert!(found.len() == 2 && found[0].contains("only 0 left; remove the number"), "{found:?}");
    }

    #[test]
    fn a_crate_has_a_limit_of_its_own() {
        let crates = [("sample", 300)];
        let with = |lines: usize, known: usize| {
            let known = [("sample", Known { lines: known, ..Known::default() })];
            complaints(&measure(&[long(lines, 10)], &[]), &crates, &known)
        };
        assert!(with(300, 0).is_empty());
        assert!(with(301, 0)[0].contains("301 lines, at most 300 are allowed"));
        assert!(with(350, 380).is_empty());
        assert!(with(360, 350)[0].contains("at most 350 are allowed"));
        assert!(with(300, 350)[0].contains("write lines: 0"));
    }
}
