//! The texts in a source file: string literals in code, in macros and in attributes. Doc comments are no texts.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, LitStr, Macro, Meta};

use crate::lint::source::SourceFile;

/// Each text with its line.
pub(super) fn of(file: &SourceFile) -> Vec<(usize, String)> {
    let mut reader = Reader::default();
    for item in &file.items {
        reader.visit_item(item);
    }
    reader.found
}

#[derive(Default)]
struct Reader {
    found: Vec<(usize, String)>,
}

impl Reader {
    /// Macros and attributes are not parsed: their texts are found among their tokens.
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<LitStr>(&literal.to_string()) {
                        self.found.push((literal.span().start().line, text.value()));
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_lit_str(&mut self, text: &'ast LitStr) {
        self.found.push((text.span().start().line, text.value()));
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }
}
