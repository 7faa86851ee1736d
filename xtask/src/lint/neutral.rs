//! Crates and modules that serve any API, and therefore must not name the kinds of one: `cluster`, `control`, `transfer`,
//! `items`, and every module of `plan` except `plan::velero` and `plan::stash`. Callers pass the data of a Velero or Stash
//! object in types of these crates, so that a second API can use them unchanged. Paths are checked, and texts: a label
//! or a type that is spelled out needs no import.

mod texts;

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::known;
use super::source::{SourceFile, Target};
use super::uses::{self, Use};

/// Packages that serve any API as a whole.
const NEUTRAL: [&str; 4] = ["lifeboat-cluster", "lifeboat-control", "lifeboat-items", "lifeboat-transfer"];

/// The package of decisions, and its modules about the kinds of one API.
const PLAN: (&str, &[&str]) = ("lifeboat-plan", &["velero", "stash"]);

/// Modules of other crates that define or decide about the kinds of one API. `*` imports them as well.
const OF_ONE_API: [(&str, &[&str]); 2] = [
    ("lifeboat_api", &["velero", "stash", "repositories", "*"]),
    ("lifeboat_plan", &["velero", "stash", "*"]),
];

/// The groups of one API, as texts name them.
const GROUPS: [&str; 2] = ["velero.io", "stash.appscode.com"];

/// Files, and folders, whose texts may name the groups of one API, each with the reason.
const TEXTS: [(&str, &str); 4] = [
    ("crates/cluster/examples/load/", "it fills a cluster with objects, those of Velero's API included"),
    ("crates/plan/src/install/", "it makes the manifests of every API"),
    ("crates/plan/src/items/filter.rs", "it lists the types of every API that no restore creates"),
    ("crates/plan/src/items/priorities.rs", "it has upstream's order of types"),
];

/// How many lines of a file are known to name such kinds. These numbers may only become smaller.
const KNOWN: &[(&str, usize)] = &[];

const TABLE: &str = "KNOWN in xtask/src/lint/neutral.rs";

/// Fails with every file that has more or fewer such lines than is known.
pub(crate) fn check(targets: &[Target]) -> Result<()> {
    let mut complaints = complaints(targets, KNOWN);
    complaints.extend(unused(targets));
    if !complaints.is_empty() {
        bail!("kinds of one API in code that serves any API:\n  {}", complaints.join("\n  "));
    }
    Ok(())
}

fn complaints(targets: &[Target], known: &[(&str, usize)]) -> Vec<String> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for target in targets {
        for file in target.files.iter().filter(|file| is_neutral(&target.package, &file.module)) {
            let path = file.path.display().to_string();
            let named = uses::of(file).into_iter().filter(|used| names_one_api(&target.package, used));
            let mut found: Vec<_> = named
                .map(|used| (used.line, format!("{path}:{}: {}", used.line, used.path.join("::"))))
                .collect();
            if !TEXTS.iter().any(|(allowed, _)| path.starts_with(allowed)) {
                let texts = texts_of_one_api(file);
                found.extend(texts.map(|(line, text)| (line, format!("{path}:{line}: {text:?}"))));
            }
            found.sort();
            found.dedup_by_key(|(line, _)| *line);
            files.insert(path, found.into_iter().map(|(_, text)| text).collect());
        }
    }
    let of_file = |path: &str| known.iter().find(|(name, _)| *name == path).map_or(0, |(_, count)| *count);
    let mut complaints: Vec<String> = files
        .iter()
        .filter_map(|(path, found)| {
            known::compare(path, "lines that name kinds of one API", found, of_file(path), TABLE)
        })
        .collect();
    let gone = known.iter().filter(|(path, _)| !files.contains_key(*path));
    complaints.extend(gone.map(|(path, _)| format!("{path}: no such file; remove the entry in {TABLE}")));
    complaints
}

/// The texts of a file that name the group of one API, each with its line.
fn texts_of_one_api(file: &SourceFile) -> impl Iterator<Item = (usize, String)> {
    texts::of(file).into_iter().filter(|(_, text)| GROUPS.iter().any(|group| text.contains(group)))
}

/// Entries of [`TEXTS`] that are not needed any more.
fn unused(targets: &[Target]) -> Vec<String> {
    let files = || targets.iter().flat_map(|target| &target.files);
    let is_needed = |allowed: &str| {
        let mut inside = files().filter(|file| file.path.display().to_string().starts_with(allowed));
        inside.any(|file| texts_of_one_api(file).next().is_some())
    };
    let unused = TEXTS.iter().filter(|(allowed, _)| !is_needed(allowed));
    unused.map(|(path, _)| format!("{path}: no text names a group; remove the entry in TEXTS")).collect()
}

/// Whether a module serves any API.
fn is_neutral(package: &str, module: &[String]) -> bool {
    let of_one_api = module.first().is_some_and(|first| PLAN.1.contains(&first.as_str()));
    NEUTRAL.contains(&package) || (package == PLAN.0 && !of_one_api)
}

/// Whether a path leads to the kinds of one API.
fn names_one_api(package: &str, used: &Use) -> bool {
    let mut path = used.path.iter().map(String::as_str);
    let (first, second) = (path.next().unwrap_or_default(), path.next().unwrap_or_default());
    let outside = OF_ONE_API.iter().any(|(name, modules)| *name == first && (modules.contains(&second)));
    outside || (package == PLAN.0 && !used.is_absolute && is_inside_one_api(used))
}

/// Whether a path of `plan` itself leads to its modules about one API.
fn is_inside_one_api(used: &Use) -> bool {
    let upwards = used.path.iter().take_while(|segment| *segment == "super").count();
    let inside = match used.path.first().map(String::as_str) {
        Some("crate") => used.path.get(1),
        Some("self") => used.module.first().or(used.path.get(1)),
        Some("super") if upwards == used.module.len() => used.path.get(upwards),
        Some(_) if used.module.is_empty() => used.path.first(),
        _ => None,
    };
    inside.is_some_and(|module| PLAN.1.contains(&module.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::source::testing;

    /// The complaints about these files of a package without known lines.
    fn found(package: &str, files: &[(&str, &str)]) -> Vec<String> {
        let target = Target { package: package.to_owned(), ..testing::target(files) };
        complaints(&[target], &[])
    }

    #[test]
    fn a_neutral_crate_names_no_kinds_however_they_are_written() {
        for text in [
            "use lifeboat_api::velero::Backup;",
            "use lifeboat_api::{catalogue, stash::Repository};",
            "use ::lifeboat_api::velero;",
            "use lifeboat_plan::velero::backup as other;",
            "use lifeboat_api::*;",
            "fn f(x: lifeboat_api::velero::Restore) {}",
            "fn f() { g!(lifeboat_api::velero::names::A); }",
            "#[serde(with = \"lifeboat_api::velero::time\")] struct S;",
            "mod deep { use lifeboat_plan::velero; }",
        ] {
            for package in NEUTRAL {
                let found = found(package, &[("src/lib.rs", text)]);
                assert!(
                    found.len() == 1 && found[0].contains("src/lib.rs:1: lifeboat_"),
                    "{text}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn a_neutral_crate_spells_out_no_group_of_one_api() {
        for text in [
            "const A: &str = \"velero.io/exclude-from-backup\";",
            "fn f() { g(\"backups.velero.io\"); }",
            "fn f() { json!({\"labels\": {\"velero.io/backup-name\": 1}}); }",
            "fn f() -> String { format!(\"{}.stash.appscode.com\", 1) }",
            "#[derive(Error)] enum E { #[error(\"set backup.velero.io/backup-volumes\")] A }",
        ] {
            let found = found("lifeboat-transfer", &[("src/lib.rs", text)]);
            assert!(found.len() == 1 && found[0].contains("src/lib.rs:1: \""), "{text}: {found:?}");
        }
        for text in [
            "/// As `velero.io/backup-name` does.\nfn f() {}",
            "#[cfg(test)]\nmod tests { const A: &str = \"velero.io/a\"; }",
            "const A: &str = \"lifeboat.io/attempt\";",
        ] {
            assert!(found("lifeboat-transfer", &[("src/lib.rs", text)]).is_empty(), "{text}");
        }
        let text = "const A: &str = \"velero.io/a\";";
        assert!(found("lifeboat-velero", &[("src/lib.rs", text)]).is_empty());
    }

    #[test]
    fn texts_of_listed_files_may_name_groups_and_a_list_that_is_too_long_is_refused() {
        let target = || {
            let files = [
                ("crates/plan/src/lib.rs", "mod items;"),
                ("crates/plan/src/items.rs", "mod filter;"),
                ("crates/plan/src/items/filter.rs", "const A: &str = \"velero.io\";"),
            ];
            [Target { package: "lifeboat-plan".to_owned(), ..testing::target(&files) }]
        };
        assert!(complaints(&target(), &[]).is_empty());
        let unused = unused(&target());
        assert_eq!(unused.len(), TEXTS.len() - 1, "{unused:?}");
        assert!(!unused.iter().any(|complaint| complaint.contains("filter.rs")), "{unused:?}");
    }

    #[test]
    fn other_paths_tests_and_other_crates_pass() {
        for text in [
            "use lifeboat_api::catalogue::Catalogue;",
            "use lifeboat_plan::items::filter;",
            "use crate::velero::local;",
            "#[cfg(test)]\nmod tests { use lifeboat_api::velero::Backup; }",
        ] {
            assert!(found("lifeboat-items", &[("src/lib.rs", text)]).is_empty(), "{text}");
        }
        let names = "use lifeboat_api::velero::Backup;";
        assert!(found("lifeboat-velero", &[("src/lib.rs", names)]).is_empty());
    }

    #[test]
    fn shared_modules_of_plan_use_neither_velero_nor_its_kinds() {
        let plan = |text: &str| {
            let files = [
                ("src/lib.rs", "pub mod velero;\nmod shared;\n"),
                ("src/velero.rs", "use lifeboat_api::velero::Backup;\nuse crate::velero::other;\n"),
                ("src/shared.rs", "mod deep;\n"),
                ("src/shared/deep.rs", text),
            ];
            found("lifeboat-plan", &files)
        };
        for text in [
            "use crate::velero::backup;",
            "use super::super::velero;",
            "fn f() { crate::velero::backup::g(); }",
            "use lifeboat_api::velero::RestoreSpec;",
        ] {
            let found = plan(text);
            assert!(found.len() == 1 && found[0].contains("src/shared/deep.rs:1"), "{text}: {found:?}");
        }
        for text in ["use super::velero;", "use crate::shared::velero;", "use lifeboat_api::common::time;"] {
            assert!(plan(text).is_empty(), "{text}: {:?}", plan(text));
        }
    }

    #[test]
    fn known_numbers_pass_and_may_only_become_smaller() {
        let target = || {
            let text = "use lifeboat_api::velero::{Backup, Restore};\n";
            [Target { package: "lifeboat-items".to_owned(), ..testing::target(&[("src/lib.rs", text)]) }]
        };
        assert!(complaints(&target(), &[("src/lib.rs", 1)]).is_empty());
        assert!(complaints(&target(), &[("src/lib.rs", 2)])[0].contains("write 1 in KNOWN"));
        let gone = complaints(&target(), &[("src/lib.rs", 1), ("src/gone.rs", 1)]);
        assert!(gone[0].contains("src/gone.rs: no such file"), "{gone:?}");
    }
}
