//! Finds in the sources of a target which top-level module uses which: paths that begin with `crate`, `super` or `self`.
//! A name that the root re-exports leads to the module it comes from.
//! The root itself is a module too, named like its file, for what it defines itself; its re-exports are no uses.

use std::collections::{BTreeMap, BTreeSet};

use syn::Item;

use super::graph::Graph;
use crate::lint::source::Target;
use crate::lint::uses::{self, Import};

pub(super) fn of(target: &Target) -> Graph {
    let names = Names::of(target);
    let mut graph = Graph::default();
    for file in &target.files {
        for used in uses::of(file) {
            let re_export = used.is_re_export && used.module.is_empty();
            if re_export || used.is_absolute {
                continue;
            }
            let Some(to) = names.resolve(&used.module, &used.path) else { continue };
            let from = used.module.first().unwrap_or(&names.root);
            graph.add(from, to, || format!("{}:{}", file.path.display(), used.line));
        }
    }
    graph
}

/// The names that the root offers under `crate::`.
struct Names {
    /// The name of the root's file.
    root: String,
    modules: BTreeSet<String>,
    /// Items that the root defines itself.
    own: BTreeSet<String>,
    /// Names that the root imports, and the module that each comes from.
    imported: BTreeMap<String, String>,
}

impl Names {
    fn of(target: &Target) -> Self {
        let Some(root) = target.files.first() else { unreachable!("a target has a root") };
        let file = root.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut names =
            Self { root: file, modules: BTreeSet::new(), own: BTreeSet::new(), imported: BTreeMap::new() };
        for item in &root.items {
            match item {
                Item::Mod(module) => drop(names.modules.insert(module.ident.to_string())),
                Item::Const(item) => drop(names.own.insert(item.ident.to_string())),
                Item::Enum(item) => drop(names.own.insert(item.ident.to_string())),
                Item::Fn(item) => drop(names.own.insert(item.sig.ident.to_string())),
                Item::Static(item) => drop(names.own.insert(item.ident.to_string())),
                Item::Struct(item) => drop(names.own.insert(item.ident.to_string())),
                Item::Trait(item) => drop(names.own.insert(item.ident.to_string())),
                Item::Type(item) => drop(names.own.insert(item.ident.to_string())),
                _ => {}
            }
        }
        for item in &root.items {
            if let Item::Use(item) = item {
                for Import { path, name, .. } in uses::imports(&item.tree) {
                    if let Some(module) = names.resolve(&[], &path).filter(|module| *module != names.root) {
                        names.imported.insert(name, module.to_owned());
                    }
                }
            }
        }
        names
    }

    /// The top-level module that `path`, written in `module`, leads to.
    fn resolve<'a>(&'a self, module: &[String], path: &'a [String]) -> Option<&'a str> {
        let upwards = path.iter().take_while(|segment| *segment == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (module.get(..module.len().checked_sub(upwards)?)?, &path[upwards..]),
            first if module.is_empty() && self.modules.contains(first) => (module, path),
            _ => return None,
        };
        let first = base.first().or(rest.first())?;
        if let Some(module) = self.modules.get(first).or(self.imported.get(first)) {
            return Some(module);
        }
        self.own.contains(first).then_some(self.root.as_str())
    }
}
