//! Removes the tests from a parsed file: modules, functions, imports, methods, statements. Called once for each file by
//! `source`.

use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, File, ImplItem, Item, ItemImpl, ItemMod, Meta, Stmt};

/// Removes everything that is compiled for tests only, and returns the number of its lines.
pub(super) fn remove(file: &mut File) -> usize {
    let mut remover = Remover { lines: 0 };
    remover.visit_file_mut(file);
    remover.lines
}

struct Remover {
    lines: usize,
}

impl Remover {
    fn take(&mut self, is_test: bool, item: &impl Spanned) -> bool {
        if is_test {
            let span = item.span();
            self.lines += span.end().line - span.start().line + 1;
        }
        !is_test
    }

    fn items(&mut self, items: &mut Vec<Item>) {
        items.retain(|item| self.take(is_test(item), item));
    }
}

impl VisitMut for Remover {
    fn visit_file_mut(&mut self, file: &mut File) {
        self.items(&mut file.items);
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut ItemMod) {
        if let Some((_, items)) = &mut module.content {
            self.items(items);
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut ItemImpl) {
        block.items.retain(|item| {
            let ImplItem::Fn(method) = item else { return true };
            self.take(for_tests(&method.attrs), item)
        });
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        block.stmts.retain(|statement| {
            let attributes: &[Attribute] = match statement {
                Stmt::Local(local) => &local.attrs,
                Stmt::Macro(call) => &call.attrs,
                Stmt::Item(item) => return self.take(is_test(item), statement),
                Stmt::Expr(..) => &[],
            };
            self.take(for_tests(attributes), statement)
        });
        visit_mut::visit_block_mut(self, block);
    }
}

fn is_test(item: &Item) -> bool {
    match item {
        Item::Mod(module) => module.ident == "tests" || for_tests(&module.attrs),
        Item::Const(item) => for_tests(&item.attrs),
        Item::Enum(item) => for_tests(&item.attrs),
        Item::Fn(item) => for_tests(&item.attrs),
        Item::Impl(item) => for_tests(&item.attrs),
        Item::Macro(item) => for_tests(&item.attrs),
        Item::Static(item) => for_tests(&item.attrs),
        Item::Struct(item) => for_tests(&item.attrs),
        Item::Trait(item) => for_tests(&item.attrs),
        Item::Type(item) => for_tests(&item.attrs),
        Item::Use(item) => for_tests(&item.attrs),
        _ => false,
    }
}

/// `#[test]`, `#[cfg(test)]` and `#[cfg(all(test, …))]`; not `#[cfg(any(test, …))]`, which other builds include too.
fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
        }
        _ => false,
    })
}

fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(needs_test)),
        _ => false,
    }
}
