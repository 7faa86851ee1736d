//! The Rust sources of the workspace, with or without their tests. Takes the checkout's root, gives every library, program,
//! example and build script with its parsed files; with tests also every integration test and benchmark. The lints
//! `clock`, `cycles`, `names`, `neutral` and `results` read the sources without tests, `sizes` reads both.

mod tests_out;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use syn::{Item, ItemMod};

use crate::run;

/// One library or program, with all files that its `mod` declarations reach.
pub(crate) struct Target {
    pub(crate) package: String,
    /// The first file is the root (`lib.rs`, `main.rs`).
    pub(crate) files: Vec<SourceFile>,
}

/// Whether the sources are read with their tests: items under `#[cfg(test)]` and modules named `tests`, integration tests
/// and benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tests {
    Kept,
    Removed,
}

/// One file.
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    /// The module path of the file; empty for the root.
    pub(crate) module: Vec<String>,
    /// The number of lines, without those of tests if these were removed.
    pub(crate) lines: usize,
    pub(crate) items: Vec<Item>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<PackageTarget>,
}

#[derive(Deserialize)]
struct PackageTarget {
    kind: Vec<String>,
    src_path: PathBuf,
}

/// Reads every target of the workspace at `root`. Paths are relative to `root`.
pub(crate) fn workspace(root: &Path, tests: Tests) -> Result<Vec<Target>> {
    let mut command = run::cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]);
    let text = run::output(command.arg(root.join("Cargo.toml")))?;
    let metadata: Metadata =
        serde_json::from_str(&text).context("cannot read what cargo metadata printed")?;
    let mut targets = Vec::new();
    for package in metadata.packages {
        for target in package.targets {
            let is_test = target.kind.iter().any(|kind| kind == "test" || kind == "bench");
            if is_test && tests == Tests::Removed {
                continue;
            }
            let path = target.src_path.strip_prefix(root).unwrap_or(&target.src_path);
            targets.push(read(root, &package.name, path, tests)?);
        }
    }
    Ok(targets)
}

/// Reads the target whose root file is `path`, relative to `root`.
pub(crate) fn read(root: &Path, package: &str, path: &Path, tests: Tests) -> Result<Target> {
    let mut reader = Reader { root, tests, files: Vec::new() };
    let children = path.parent().unwrap_or(Path::new("")).to_path_buf();
    reader.read(path, &children, Vec::new())?;
    Ok(Target { package: package.to_owned(), files: reader.files })
}

/// Reads the files of one target.
struct Reader<'a> {
    root: &'a Path,
    tests: Tests,
    files: Vec<SourceFile>,
}

impl Reader<'_> {
    /// Reads `path` and then the files of its modules, which are in the directory `children`.
    fn read(&mut self, path: &Path, children: &Path, module: Vec<String>) -> Result<()> {
        let text = fs::read_to_string(self.root.join(path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        let mut file = syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        let removed = match self.tests {
            Tests::Kept => 0,
            Tests::Removed => tests_out::remove(&mut file),
        };
        let lines = text.lines().count() - removed;
        let mut declared = Vec::new();
        declarations(&file.items, children, &module, &mut declared);
        self.files.push(SourceFile { path: path.to_path_buf(), module, lines, items: file.items });
        for Declared { name, module, directory, attribute } in declared {
            let next = match attribute {
                Some(given) => path.parent().unwrap_or(Path::new("")).join(given),
                None => find(self.root, &directory, &name)
                    .with_context(|| format!("no file for `mod {name}` of {}", path.display()))?,
            };
            self.read(&next, &directory.join(&name), module)?;
        }
        Ok(())
    }
}

fn find(root: &Path, directory: &Path, name: &str) -> Result<PathBuf> {
    let (flat, nested) = (directory.join(format!("{name}.rs")), directory.join(name).join("mod.rs"));
    match [&flat, &nested].into_iter().find(|path| root.join(path).exists()) {
        Some(path) => Ok(path.clone()),
        None => bail!("neither {} nor {} exists", flat.display(), nested.display()),
    }
}

/// A `mod name;`.
struct Declared {
    name: String,
    module: Vec<String>,
    directory: PathBuf,
    /// The value of its `#[path]`.
    attribute: Option<String>,
}

/// Collects the `mod name;` of `items`, also from inline modules.
fn declarations(items: &[Item], directory: &Path, module: &[String], found: &mut Vec<Declared>) {
    for item in items {
        let Item::Mod(item) = item else { continue };
        let name = item.ident.to_string();
        let inner: Vec<String> = module.iter().cloned().chain([name.clone()]).collect();
        match &item.content {
            Some((_, items)) => declarations(items, &directory.join(&name), &inner, found),
            None => found.push(Declared {
                name,
                module: inner,
                directory: directory.to_path_buf(),
                attribute: path_attribute(item),
            }),
        }
    }
}

fn path_attribute(item: &ItemMod) -> Option<String> {
    item.attrs.iter().filter(|attribute| attribute.path().is_ident("path")).find_map(|attribute| {
        let syn::Expr::Lit(literal) = &attribute.meta.require_name_value().ok()?.value else { return None };
        let syn::Lit::Str(text) = &literal.lit else { return None };
        Some(text.value())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_by_name_by_attribute_and_in_place() {
        let target = testing::target(&[
            ("src/lib.rs", "mod a;\nmod b { pub mod c; }\n#[path = \"else/where.rs\"]\nmod d;\n"),
            ("src/a.rs", "mod deep;\n"),
            ("src/a/deep.rs", "fn f() {}\n"),
            ("src/b/c.rs", ""),
            ("src/else/where.rs", ""),
        ]);
        let found: Vec<_> = target.files.iter().map(|file| file.module.join("::")).collect();
        assert_eq!(found, ["", "a", "a::deep", "b::c", "d"]);
    }

    #[test]
    fn code_of_tests_is_neither_followed_nor_counted() {
        let target = testing::target(&[(
            "src/lib.rs",
            "fn f() {}\n\n#[cfg(test)]\nmod tests;\n#[cfg(all(test, unix))]\nmod more {\n    fn g() {}\n}\nmod tests {}\n",
        )]);
        assert_eq!(target.files.len(), 1);
        assert_eq!(target.files[0].items.len(), 1);
        assert_eq!(target.files[0].lines, 2);
    }

    #[test]
    fn code_of_tests_is_followed_and_counted_where_it_is_kept() {
        let files =
            [("src/lib.rs", "fn f() {}\n#[cfg(test)]\nmod tests;\n"), ("src/tests.rs", "\nfn g() {}\n")];
        let target = testing::with_tests(&files);
        let found: Vec<_> = target.files.iter().map(|file| (file.lines, file.items.len())).collect();
        assert_eq!(found, [(3, 2), (2, 1)]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let directory = testing::directory(&[("src/lib.rs", "mod gone;\n")]);
        let error = read(directory.path(), "p", Path::new("src/lib.rs"), Tests::Removed).err().unwrap();
        assert!(format!("{error:#}").contains("src/gone.rs"), "{error:#}");
    }
}

/// Small source trees for the tests of the lints.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A directory with these files.
    pub(crate) fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    /// Package `sample`, made of these files; the first is its root.
    pub(crate) fn target(files: &[(&str, &str)]) -> Target {
        read(directory(files).path(), "sample", Path::new(files[0].0), Tests::Removed).unwrap()
    }

    /// The same package, read with its tests.
    pub(crate) fn with_tests(files: &[(&str, &str)]) -> Target {
        read(directory(files).path(), "sample", Path::new(files[0].0), Tests::Kept).unwrap()
    }
}
