//! The paths in a source file: in code, imports, macros and attributes. Takes a parsed file, gives each path with its line
//! and the module it is in. The lints `cycles` and `neutral` read from here.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, Macro, Meta, UseTree, Visibility};

use super::source::SourceFile;

/// One path.
pub(crate) struct Use {
    pub(crate) path: Vec<String>,
    /// The module in which the path is.
    pub(crate) module: Vec<String>,
    pub(crate) line: usize,
    /// It is in a `pub use`.
    pub(crate) is_re_export: bool,
    /// It begins with `::`.
    pub(crate) is_absolute: bool,
}

/// All paths of a file.
pub(crate) fn of(file: &SourceFile) -> Vec<Use> {
    let mut reader = Reader { module: file.module.clone(), found: Vec::new() };
    for item in &file.items {
        reader.visit_item(item);
    }
    reader.found
}

struct Reader {
    module: Vec<String>,
    found: Vec<Use>,
}

impl Reader {
    fn add(&mut self, path: Vec<String>, span: Span, is_re_export: bool, is_absolute: bool) {
        if !path.is_empty() {
            let (module, line) = (self.module.clone(), span.start().line);
            self.found.push(Use { path, module, line, is_re_export, is_absolute });
        }
    }

    /// Macros and attributes are not parsed: their paths are found by their tokens, in texts too (`with = "crate::a"`).
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
                    self.add(std::mem::take(&mut path), start, false, false);
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
        self.add(path, start, false, false);
    }

    fn text(&mut self, literal: &str, span: Span) {
        let path: Vec<String> = literal.trim_matches('"').split("::").map(str::to_owned).collect();
        if path.len() > 1
            && (matches!(path[0].as_str(), "crate" | "super") || path[0].starts_with("lifeboat_"))
        {
            self.add(path, span, false, false);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_re_export = !matches!(item.vis, Visibility::Inherited);
        for Import { path, span, .. } in imports(&item.tree) {
            self.add(path, span, is_re_export, item.leading_colon.is_some());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(segments, path.segments[0].ident.span(), false, path.leading_colon.is_some());
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
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    /// Under which it is known afterwards.
    pub(crate) name: String,
    pub(crate) span: Span,
}

pub(crate) fn imports(tree: &UseTree) -> Vec<Import> {
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
