//! Reads of the system time in the crates whose controllers get it from `lifeboat_control::Clock`: a test that sets the
//! clock would not reach them. Only `crates/control/src/clock.rs` reads it.

use std::path::Path;

use anyhow::{Result, bail};
use syn::Item;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::source::Target;

/// The crates above `cluster` that the server runs.
const PACKAGES: [&str; 6] = [
    "lifeboat-control",
    "lifeboat-items",
    "lifeboat-operator",
    "lifeboat-stash",
    "lifeboat-transfer",
    "lifeboat-velero",
];

/// The file that may read the time.
const CLOCK: &str = "crates/control/src/clock.rs";

/// The types whose `now` is the system time. `Instant` is not among them: it only measures.
const TIMES: [&str; 3] = ["Timestamp", "SystemTime", "Zoned"];

pub(crate) fn check(targets: &[Target]) -> Result<()> {
    let found = complaints(targets, &PACKAGES);
    if !found.is_empty() {
        bail!("reads of the system time; use `Core::now` or a `Clock`:\n  {}", found.join("\n  "));
    }
    Ok(())
}

fn complaints(targets: &[Target], packages: &[&str]) -> Vec<String> {
    let checked = targets.iter().filter(|target| packages.contains(&target.package.as_str()));
    let files = checked.flat_map(|target| &target.files).filter(|file| file.path != Path::new(CLOCK));
    files
        .flat_map(|file| reads(&file.items).map(move |line| format!("{}:{line}", file.path.display())))
        .collect()
}

/// The lines that read the system time.
fn reads(items: &[Item]) -> impl Iterator<Item = usize> + use<> {
    let mut reader = Reader { found: Vec::new() };
    for item in items {
        reader.visit_item(item);
    }
    reader.found.into_iter()
}

struct Reader {
    found: Vec<usize>,
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [.., of, now] = names.as_slice()
            && now == "now"
            && TIMES.contains(&of.as_str())
        {
            self.found.push(path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    /// The content of a macro is not parsed.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let text: String = call.tokens.to_string().split_whitespace().collect();
        if TIMES.iter().any(|of| text.contains(&format!("{of}::now"))) {
            self.found.push(call.span().start().line);
        }
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::source::testing;

    #[test]
    fn every_way_to_read_the_system_time_is_found() {
        for text in [
            "fn f() -> Timestamp { jiff::Timestamp::now() }",
            "fn f() { let read = std::time::SystemTime::now; }",
            "fn f() { let x = json!({\"at\": seconds(Timestamp::now())}); }",
        ] {
            let target = [testing::target(&[("src/lib.rs", text)])];
            assert_eq!(complaints(&target, &["sample"]), ["src/lib.rs:1"], "{text}");
            assert!(complaints(&target, &["other"]).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_clock_and_an_instant_pass_and_so_do_tests() {
        let text = "fn f() { context.now(); Instant::now(); clock.now(); }\n#[cfg(test)]\nmod tests { fn f() { Timestamp::now(); } }";
        assert!(complaints(&[testing::target(&[("src/lib.rs", text)])], &["sample"]).is_empty());
    }
}
