//! Every path that ARCHITECTURE.md names exists: those in backticks, with `{a,b}` for several, and the directories of the
//! tree at its top. A path may be relative to one before it on the same line, as in "`crates/x/src/a.rs`, `b.rs`".

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const DOCUMENT: &str = "ARCHITECTURE.md";

/// Fails for every path of the document that does not exist.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let missing = missing(&text, &|path| root.join(path).exists());
    if !missing.is_empty() {
        bail!("{DOCUMENT} names paths that do not exist:\n  {}", missing.join("\n  "));
    }
    Ok(())
}

/// Each missing path with its line. `exists` is called with paths relative to the checkout.
fn missing(text: &str, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut missing = Vec::new();
    let mut fenced = false;
    let mut parents: Vec<(usize, PathBuf)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with("```") {
            fenced = !fenced;
            parents.clear();
        } else if fenced {
            if let Some(path) = tree_entry(line, &mut parents)
                && !exists(&path)
            {
                missing.push(format!("{number}: {}", path.display()));
            }
        } else {
            let mut base = None;
            for path in line.split('`').skip(1).step_by(2).filter(|word| is_path(word)).flat_map(expanded) {
                match resolve(&path, base.as_deref(), exists) {
                    Some(found) => base = Some(found),
                    None => missing.push(format!("{number}: {path}")),
                }
            }
        }
    }
    missing
}

/// The directory at the beginning of a line of a drawn tree; lines indented below it are inside of it.
fn tree_entry(line: &str, parents: &mut Vec<(usize, PathBuf)>) -> Option<PathBuf> {
    let indent = line.len() - line.trim_start().len();
    let name = line.split_whitespace().next().filter(|word| word.ends_with('/'))?;
    parents.retain(|(depth, _)| *depth < indent);
    let path = parents.last().map_or_else(PathBuf::new, |(_, parent)| parent.clone()).join(name);
    parents.push((indent, path.clone()));
    Some(path)
}

/// Whether a text in backticks names a file or a directory of the checkout, and not a command, a URL's path, or a
/// prefix such as `lifeboat.io/`.
fn is_path(word: &str) -> bool {
    let name = word.trim_end_matches('/');
    let file = [".rs", ".md", ".toml", ".yaml"].iter().any(|end| word.ends_with(end));
    let directory = word.ends_with('/') && !name.contains('.');
    let inside = name.contains('/') && !name.contains('.');
    let plain = !word.starts_with('/') && !word.contains(|c: char| c.is_whitespace() || "<>:…*$".contains(c));
    plain && (file || directory || inside)
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    inside.split(',').flat_map(|one| expanded(&format!("{before}{}{after}", one.trim()))).collect()
}

/// Resolves a path: from the checkout's root, or else from the nearest directory above the previous path.
fn resolve(path: &str, base: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let near = base.into_iter().flat_map(Path::ancestors).map(|directory| directory.join(path));
    let mut all = std::iter::once(PathBuf::from(path)).chain(near);
    all.find(|path| exists(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: [&str; 7] = [
        "crates/",
        "crates/a/",
        "crates/a/src/one.rs",
        "crates/a/src/one/deep.rs",
        "crates/a/src/two/three.rs",
        "crates/a/src/two/",
        "docs/x.md",
    ];

    fn found(text: &str) -> Vec<String> {
        let same = |one: &str, other: &Path| {
            one.trim_end_matches('/') == other.to_string_lossy().trim_end_matches('/')
        };
        missing(text, &|path| THERE.iter().any(|there| same(there, path)))
    }

    #[test]
    fn paths_that_exist_pass_whole_and_relative() {
        for line in [
            "see `docs/x.md`",
            "| question | `crates/a/src/one.rs`, `one/deep.rs` |",
            "| question | `crates/a/src/one.rs` and `two/`, then `three.rs` |",
            "| question | `crates/a/src/{one,two/three}.rs` |",
            "`crates/a/src/two/three.rs`, asked by `one.rs`",
        ] {
            assert!(found(line).is_empty(), "{line}: {:?}", found(line));
        }
    }

    #[test]
    fn a_path_that_does_not_exist_is_named_with_its_line() {
        assert_eq!(found("ok\n| q | `crates/a/src/gone.rs` |"), ["2: crates/a/src/gone.rs"]);
        assert_eq!(found("`crates/a/src/one.rs`, `gone.rs`"), ["1: gone.rs"]);
        assert_eq!(found("`crates/a/src/{one,gone}.rs`"), ["1: crates/a/src/gone.rs"]);
        assert_eq!(
            found("`crates/a/src/one.rs`\n`one/deep.rs`"),
            ["2: one/deep.rs"],
            "another line, no base"
        );
        assert_eq!(found("`crates/b/`"), ["1: crates/b/"]);
    }

    #[test]
    fn the_drawn_tree_is_checked() {
        let tree =
            |last: &str| format!("```\nlifeboat text\ncrates/\n  a/     what it is\n  {last}/  more\n```\n");
        assert!(found(&tree("a")).is_empty());
        assert_eq!(found(&tree("b")), ["5: crates/b/"]);
    }

    #[test]
    fn other_texts_in_backticks_are_no_paths() {
        for word in ["kubectl explain", "get", "lifeboat.io/", "/metrics", "restic …", "plan", "velero.io"]
        {
            assert!(!is_path(word), "{word}");
        }
    }

    #[test]
    fn every_path_of_the_document_exists() {
        check(&crate::run::checkout()).unwrap();
    }
}
