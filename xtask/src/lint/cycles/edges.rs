//! Reads from the sources of a target which top-level module uses which: paths that begin with `crate`, `super` or
//! `self`, in code, imports, macros and attributes. A name that the root re-exports leads to the module it comes from.
//! The root is a module too, named like its file, for the items it defines; its re-exports do not count as uses.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, Meta, UseTree, Visibility};

use super::graph::Graph;
use crate::lint::source::{SourceFile, Target};

pub(super) fn of(target: &Target) -> Graph {
    let names = Names::of(target);
    let mut graph = Graph::default();
    for file in &target.files {
        let mut reader = Reader { names: &names, file, module: file.module.clone(), graph: &mut graph };
        for item in &file.items {
            reader.visit_item(item);
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
                for Import { path, name, .. } in imports(&item.tree) {
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

struct Reader<'a> {
    names: &'a Names,
    file: &'a SourceFile,
    module: Vec<String>,
    graph: &'a mut Graph,
}

impl Reader<'_> {
    fn uses(&mut self, path: &[String], span: Span) {
        let Some(to) = self.names.resolve(&self.module, path) else { return };
        let from = self.module.first().unwrap_or(&self.names.root);
        let place = || format!("{}:{}", self.file.path.display(), span.start().line);
        self.graph.add(from, to, place);
    }

    /// Macros and attributes are not parsed: paths are found in their tokens, including string literals (`with =
    /// "crate::a"`).
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut start = Span::call_site();
        for token in tokens {
            let continues = colons == 2 && !path.is_empty();
            match &token {
                TokenTree::Ident(ident) if continues => path.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                _ => {
                    self.uses(&std::mem::take(&mut path), start);
                    start = token.span();
                    match token {
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Literal(literal) => self.text(&literal.to_string(), start),
                        TokenTree::Punct(_) => {}
                    }
                }
            }
            colons = 0;
        }
        self.uses(&path, start);
    }

    fn text(&mut self, literal: &str, span: Span) {
        let path: Vec<String> = literal.trim_matches('"').split("::").map(str::to_owned).collect();
        if matches!(path[0].as_str(), "crate" | "super") {
            self.uses(&path, span);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let re_export = self.module.is_empty() && !matches!(item.vis, Visibility::Inherited);
        if re_export || item.leading_colon.is_some() {
            return;
        }
        for Import { path, span, .. } in imports(&item.tree) {
            self.uses(&path, span);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.uses(&segments, path.segments[0].ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }
}

/// One name of a `use`.
struct Import {
    path: Vec<String>,
    /// The name under which it is known afterwards.
    name: String,
    span: Span,
}

fn imports(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    collect(tree, Vec::new(), &mut found);
    found
}

fn collect(tree: &UseTree, mut path: Vec<String>, found: &mut Vec<Import>) {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            collect(&step.tree, path, found);
        }
        UseTree::Name(last) => {
            let name = last.ident.to_string();
            if name != "self" || path.is_empty() {
                path.push(name.clone());
            }
            let name = path.last().cloned().unwrap_or(name);
            found.push(Import { path, name, span: last.ident.span() });
        }
        UseTree::Rename(last) => {
            if last.ident != "self" {
                path.push(last.ident.to_string());
            }
            found.push(Import { path, name: last.rename.to_string(), span: last.rename.span() });
        }
        UseTree::Glob(star) => {
            path.push("*".to_owned());
            found.push(Import { path, name: "*".to_owned(), span: star.star_token.spans[0] });
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, path.clone(), found)),
    }
}
