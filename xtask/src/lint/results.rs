//! Errors that are text: `Result<_, String>` or `Result<_, &str>` in a signature, a field or a variant that other modules
//! see. A caller can only print such an error; an enum says what failed, whether to retry and what to advise.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Field, GenericArgument, Item, ItemEnum, ItemFn, ItemImpl, ItemStruct, ItemTrait, ItemType, PathArguments,
    Signature, Type, Visibility,
};

use super::known;
use super::source::Target;

/// How many of them a package is known to have. These numbers may only become smaller.
const KNOWN: &[(&str, usize)] = &[];

const TABLE: &str = "KNOWN in xtask/src/lint/results.rs";

/// Fails for every package that has more or fewer of them than is known.
pub(crate) fn check(targets: &[Target]) -> Result<()> {
    let complaints = complaints(targets, KNOWN);
    if !complaints.is_empty() {
        bail!("errors that are text where other modules see them:\n  {}", complaints.join("\n  "));
    }
    Ok(())
}

fn complaints(targets: &[Target], known: &[(&str, usize)]) -> Vec<String> {
    let mut packages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for target in targets {
        let found = packages.entry(&target.package).or_default();
        for file in &target.files {
            for (name, line) in visible(&file.items) {
                found.push(format!("{}:{line}: {name}", file.path.display()));
            }
        }
    }
    let mut complaints: Vec<String> = packages
        .iter()
        .filter_map(|(package, found)| {
            let known = known.iter().find(|(name, _)| name == package).map_or(0, |(_, count)| *count);
            known::compare(package, "visible errors that are text", found, known, TABLE)
        })
        .collect();
    let gone = known.iter().filter(|(name, _)| !packages.contains_key(name));
    complaints.extend(gone.map(|(name, _)| format!("{name}: no such package; remove the entry in {TABLE}")));
    complaints
}

/// The names and lines of visible signatures, fields and variants that contain such a type.
fn visible(items: &[Item]) -> Vec<(String, usize)> {
    let mut reader = Reader { found: Vec::new() };
    for item in items {
        reader.visit_item(item);
    }
    reader.found
}

struct Reader {
    found: Vec<(String, usize)>,
}

impl Reader {
    fn signature(&mut self, signature: &Signature) {
        let mut search = TextError { found: false };
        search.visit_signature(signature);
        self.add(&search, &signature.ident, signature.span());
    }

    /// Adds a field under its own name, or under that of its type or variant if it has none.
    fn field(&mut self, field: &Field, owner: &syn::Ident) {
        let mut search = TextError { found: false };
        search.visit_type(&field.ty);
        self.add(&search, field.ident.as_ref().unwrap_or(owner), field.span());
    }

    fn add(&mut self, search: &TextError, name: &syn::Ident, span: Span) {
        if search.found {
            self.found.push((name.to_string(), span.start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if is_visible(&function.vis) {
            self.signature(&function.sig);
        }
        visit::visit_item_fn(self, function);
    }

    /// A method of a trait is counted once, where the trait is defined. Traits of other crates have their error as an
    /// associated type (`FromStr::Err`), which is counted here.
    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        for item in &block.items {
            match item {
                syn::ImplItem::Fn(method) if block.trait_.is_none() && is_visible(&method.vis) => {
                    self.signature(&method.sig);
                }
                syn::ImplItem::Type(error) if error.ident == "Err" || error.ident == "Error" => {
                    self.add(&TextError { found: is_text(&error.ty) }, &error.ident, error.span());
                }
                _ => {}
            }
        }
        visit::visit_item_impl(self, block);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        if is_visible(&item.vis) {
            for item in &item.items {
                if let syn::TraitItem::Fn(method) = item {
                    self.signature(&method.sig);
                }
            }
        }
        visit::visit_item_trait(self, item);
    }

    /// Fields that only the module reads are its own affair, also in a type that others see.
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        if is_visible(&item.vis) {
            for field in item.fields.iter().filter(|field| is_visible(&field.vis)) {
                self.field(field, &item.ident);
            }
        }
    }

    /// The fields of a variant are as visible as the enum.
    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        if is_visible(&item.vis) {
            for variant in &item.variants {
                for field in &variant.fields {
                    self.field(field, &variant.ident);
                }
            }
        }
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        if is_visible(&item.vis) {
            let mut search = TextError { found: false };
            search.visit_type(&item.ty);
            self.add(&search, &item.ident, item.span());
        }
    }
}

fn is_visible(visibility: &Visibility) -> bool {
    match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(to) => !to.path.is_ident("self"),
        Visibility::Inherited => false,
    }
}

/// Searches a type for a `Result` whose error is text, at any depth.
struct TextError {
    found: bool,
}

impl<'ast> Visit<'ast> for TextError {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if segment.ident == "Result"
            && let PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let Some(GenericArgument::Type(error)) = arguments.args.iter().nth(1)
        {
            self.found |= is_text(error);
        }
        visit::visit_path_segment(self, segment);
    }
}

fn is_text(error: &Type) -> bool {
    match error {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "String"),
        Type::Reference(reference) => {
            matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::source::testing;

    fn found(text: &str) -> Vec<String> {
        visible(&syn::parse_file(text).unwrap().items).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_visible_signature_is_found_however_it_is_written() {
        for text in [
            "pub fn f() -> Result<(), String> {}",
            "pub(crate) async fn f() -> Result<u8, std::string::String> {}",
            "pub(super) fn f() -> std::result::Result<(), &'static str> {}",
            "pub fn f(g: impl Fn() -> Result<(), String>) {}",
            "pub fn f() -> impl Future<Output = Result<(), String>> {}",
            "pub fn f() -> Option<Vec<Result<(), String>>> {}",
            "impl S { pub fn f(&self) -> Result<(), String> {} }",
            "pub trait T { fn f(&self) -> Result<(), String>; }",
            "pub(crate) type f = Result<(), String>;",
            "mod m { pub(super) fn f() -> Result<(), String> {} }",
            "pub struct S { pub f: Option<Result<(), String>> }",
            "pub(super) struct S { g: u8, pub(super) f: Vec<Result<u8, String>> }",
            "pub(crate) struct f(pub(crate) Result<(), &'static str>);",
            "pub struct S { pub f: Box<dyn Fn() -> Result<(), String>> }",
            "pub enum E { f(Result<(), String>), Other }",
            "pub(crate) enum E { V { f: Result<(), String> } }",
        ] {
            assert_eq!(found(text), ["f"], "{text}");
        }
        assert_eq!(found("impl FromStr for S { type Err = String; }"), ["Err"]);
    }

    #[test]
    fn what_stays_in_its_module_and_what_has_a_real_error_passes() {
        for text in [
            "fn f() -> Result<(), String> {}",
            "pub(self) fn f() -> Result<(), String> {}",
            "trait T { fn f(&self) -> Result<(), String>; }",
            "impl T for S { fn f(&self) -> Result<(), String> {} }",
            "pub fn f() -> Result<String, Error> {}",
            "pub fn f() -> Result<String> {}",
            "pub fn f() { let x: Result<(), String> = g(); }",
            "struct S { pub f: Result<(), String> }",
            "pub struct S { f: Result<(), String> }",
            "enum E { V(Result<(), String>) }",
            "pub struct S { pub f: Result<String, Error> }",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn known_numbers_pass_and_may_only_become_smaller() {
        let target = || [testing::target(&[("src/lib.rs", "\npub fn f() -> Result<(), String> {}\n")])];
        assert!(complaints(&target(), &[("sample", 1)]).is_empty());
        let more = complaints(&target(), &[]);
        assert!(more[0].contains("src/lib.rs:2: f"), "{more:?}");
        assert!(complaints(&target(), &[("sample", 2)])[0].contains("write 1 in KNOWN"));
        assert!(complaints(&target(), &[("sample", 1), ("other", 1)])[0].contains("no such package"));
    }
}
