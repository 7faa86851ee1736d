//! The functions of a file and their numbers of lines, from the signature to the closing brace.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, Item, ItemFn, Signature, TraitItemFn};

pub(super) struct Function {
    pub(super) name: String,
    pub(super) start: usize,
    pub(super) lines: usize,
}

pub(super) fn of(items: &[Item]) -> Vec<Function> {
    let mut counter = Counter { found: Vec::new() };
    for item in items {
        counter.visit_item(item);
    }
    counter.found
}

struct Counter {
    found: Vec<Function>,
}

impl Counter {
    fn add(&mut self, signature: &Signature, body: &Block) {
        let (first, last): (Span, Span) = (signature.span(), body.span());
        let start = first.start().line;
        let lines = last.end().line - start + 1;
        self.found.push(Function { name: signature.ident.to_string(), start, lines });
    }
}

impl<'ast> Visit<'ast> for Counter {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}
