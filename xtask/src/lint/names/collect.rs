//! Reads the source and returns the names that leave the process, each with its kind: `text` for labels, annotations,
//! tags, metrics, variables and file names, which are recognised by their form; `json` for keys of serde types and of
//! `json!` literals. Tests are not part of the sources; comments and attributes other than serde's are not read. Crate
//! `api` is left out of the JSON keys: its definitions are generated files, which the check `generated` compares.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::Item;
use syn::visit::Visit;

use crate::lint::source::Target;

pub(super) fn names(targets: &[Target]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for target in targets.iter().filter(|target| target.package.starts_with("lifeboat-")) {
        for file in target.files.iter().filter(|file| is_product(&file.path)) {
            let with_keys = target.package != "lifeboat-api" && target.package != "lifeboat-cli";
            of_items(&file.items, with_keys, &mut names);
        }
    }
    names
}

/// Whether a file is part of the product, and not one of the fakes that crates provide for tests.
fn is_product(path: &Path) -> bool {
    let fake =
        |part: &OsStr| Path::new(part).file_stem().is_some_and(|stem| stem == "testing" || stem == "world");
    path.starts_with("crates")
        && path.iter().nth(2).is_some_and(|part| part == "src")
        && !path.iter().any(fake)
}

fn of_items(items: &[Item], with_keys: bool, names: &mut BTreeSet<String>) {
    let mut collector = Collector { with_keys, names };
    for item in items {
        collector.visit_item(item);
    }
}

struct Collector<'a> {
    with_keys: bool,
    names: &'a mut BTreeSet<String>,
}

impl Collector<'_> {
    fn text(&mut self, text: &str) {
        if is_name(text) {
            self.names.insert(format!("text {text}"));
        }
    }

    fn key(&mut self, key: &str) {
        if self.with_keys && !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.names.insert(format!("json {key}"));
        }
    }

    /// Literals inside a macro; in `json!` those before a colon are keys.
    fn tokens(&mut self, tokens: TokenStream, is_json: bool) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        for (place, tree) in trees.iter().enumerate() {
            match tree {
                TokenTree::Group(group) => self.tokens(group.stream(), is_json),
                TokenTree::Literal(literal) => {
                    let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) else { continue };
                    self.text(&text.value());
                    let is_colon =
                        |tree: &TokenTree| matches!(tree, TokenTree::Punct(mark) if mark.as_char() == ':');
                    if is_json && trees.get(place + 1).is_some_and(is_colon) {
                        self.key(&text.value());
                    }
                }
                _ => {}
            }
        }
    }

    fn fields(&mut self, fields: &syn::Fields, rule: Option<&str>) {
        for field in fields {
            let Some(name) = &field.ident else { continue };
            let serde = Serde::of(&field.attrs);
            if !serde.is_skipped {
                let name = name.to_string();
                let name = name.strip_prefix("r#").unwrap_or(&name);
                self.key(&serde.rename.unwrap_or_else(|| renamed(name, rule)));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.text(&text.value());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let is_json = call.path.segments.last().is_some_and(|name| name.ident == "json");
        self.tokens(call.tokens.clone(), is_json);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if is_serde(&item.attrs) {
            self.fields(&item.fields, Serde::of(&item.attrs).rename_all.as_deref());
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if !is_serde(&item.attrs) {
            return;
        }
        let of_enum = Serde::of(&item.attrs);
        for variant in &item.variants {
            let serde = Serde::of(&variant.attrs);
            let name = variant.ident.to_string();
            self.key(
                &serde
                    .rename
                    .clone()
                    .unwrap_or_else(|| renamed_variant(&name, of_enum.rename_all.as_deref())),
            );
            self.fields(
                &variant.fields,
                serde.rename_all.as_deref().or(of_enum.rename_all_fields.as_deref()),
            );
        }
        if let Some(tag) = &of_enum.tag {
            self.key(tag);
        }
    }
}

/// Whether a text has the form of a name used in objects, storage, metrics or the environment.
fn is_name(text: &str) -> bool {
    const GROUPS: [&str; 4] = ["lifeboat.io", "velero.io", "stash.appscode.com", "appcatalog.appscode.com"];
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/=".contains(c));
    if text.is_empty() || !plain(text) {
        return false;
    }
    let of_group = || {
        let (domain, _) = text.split_once('/').unwrap_or((text, ""));
        GROUPS.iter().any(|group| domain == *group || domain.ends_with(&format!(".{group}")))
    };
    let metric = || {
        text.strip_prefix("lifeboat_")
            .or_else(|| text.strip_prefix("velero_"))
            .is_some_and(|rest| !rest.is_empty())
    };
    let variable =
        || text.strip_prefix("LIFEBOAT_").is_some_and(|rest| rest.chars().all(|c| !c.is_lowercase()));
    let object = || text.starts_with("lifeboat-") || text.starts_with("velero-");
    let file = || {
        let extension = Path::new(text).extension().unwrap_or_default();
        extension == "gz" || extension == "json" || text == ".json"
    };
    of_group() || metric() || variable() || object() || file()
}

/// The serde attributes of a type, a variant or a field.
#[derive(Default)]
struct Serde {
    rename: Option<String>,
    rename_all: Option<String>,
    rename_all_fields: Option<String>,
    tag: Option<String>,
    is_skipped: bool,
}

impl Serde {
    fn of(attributes: &[syn::Attribute]) -> Self {
        let mut found = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            let read = attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                if name == "skip" || name == "flatten" {
                    found.is_skipped = true;
                }
                if meta.input.peek(syn::Token![=]) {
                    let value: syn::Expr = meta.value()?.parse()?;
                    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = value else {
                        return Ok(());
                    };
                    match name.as_str() {
                        "rename" => found.rename = Some(text.value()),
                        "rename_all" => found.rename_all = Some(text.value()),
                        "rename_all_fields" => found.rename_all_fields = Some(text.value()),
                        "tag" => found.tag = Some(text.value()),
                        _ => {}
                    }
                } else if meta.input.peek(syn::token::Paren) {
                    let _: proc_macro2::Group = meta.input.parse()?;
                }
                Ok(())
            });
            debug_assert!(read.is_ok(), "serde reads the same attributes");
        }
        found
    }
}

fn renamed(field: &str, rule: Option<&str>) -> String {
    match rule {
        Some("camelCase") => {
            let mut parts = field.split('_');
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |name, part| name + &capitalised(part))
        }
        Some("kebab-case") => field.replace('_', "-"),
        Some("PascalCase") => field.split('_').map(capitalised).collect(),
        _ => field.to_owned(),
    }
}

fn renamed_variant(variant: &str, rule: Option<&str>) -> String {
    match rule {
        Some("camelCase") => {
            let mut letters = variant.chars();
            letters
                .next()
                .map(|first| first.to_ascii_lowercase().to_string() + letters.as_str())
                .unwrap_or_default()
        }
        Some("lowercase") => variant.to_lowercase(),
        _ => variant.to_owned(),
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn is_serde(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|attribute| {
        let mut found = false;
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta
                .path
                .segments
                .last()
                .is_some_and(|name| name.ident == "Serialize" || name.ident == "Deserialize");
            Ok(())
        });
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        let mut names = BTreeSet::new();
        let file: syn::File = syn::parse_str(source).expect("it is Rust");
        of_items(&file.items, true, &mut names);
        names.into_iter().collect()
    }

    #[test]
    fn names_are_known_by_their_form() {
        let source = r#"const A: &str = "lifeboat.io/attempt"; const B: &str = "an error of velero.io";
            fn f() -> String { format!("dead-owner.lifeboat.io/{}", 1); g("lifeboat_leader", "backups.velero.io") }"#;
        assert_eq!(
            found(source),
            ["text backups.velero.io", "text lifeboat.io/attempt", "text lifeboat_leader"]
        );
    }

    #[test]
    fn keys_of_serde_types_and_of_json_literals_are_found_under_their_names_on_the_wire() {
        let source = r#"
            #[derive(Serialize)] #[serde(rename_all = "camelCase", tag = "kind")]
            struct Task { pod_uid: String, #[serde(rename = "x")] other: u8, #[serde(skip)] not: u8 }
            #[derive(Debug)] struct Plain { inside: u8 }
            fn f() { json!({"status": {"phase": "New"}}); }"#;
        assert_eq!(found(source), ["json phase", "json podUid", "json status", "json x"]);
    }
}
