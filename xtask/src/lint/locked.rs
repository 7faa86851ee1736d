//! Crates that must not be used, directly or through others: read from what cargo would build. `cargo deny` checks
//! licences and advisories too (deny.toml), but takes minutes to install.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};

use crate::run;

/// A crate and why it is banned.
const BANNED: [(&str, &str); 6] = [
    ("ring", "one TLS stack only: rustls with aws-lc-rs"),
    ("openssl-sys", "one TLS stack only: rustls with aws-lc-rs"),
    ("native-tls", "one TLS stack only: rustls with aws-lc-rs"),
    ("serde_yaml", "unmaintained; serde-saphyr is used"),
    ("serde_yml", "unmaintained; serde-saphyr is used"),
    ("tokio-tar", "abandoned, with known flaws"),
];

pub(crate) fn check(root: &Path) -> Result<()> {
    // Cargo.lock also lists disabled dependencies; the tree lists only what is built, on any system.
    let mut command = run::cargo();
    command.args(["tree", "--workspace", "--all-features", "--target", "all", "--edges", "all"]);
    command.args(["--prefix", "none", "--format", "{p}", "--manifest-path"]);
    let found = banned(&run::output(command.arg(root.join("Cargo.toml")))?);
    if !found.is_empty() {
        bail!("banned crates (`cargo tree -i NAME` shows which crates use them):\n  {}", found.join("\n  "));
    }
    Ok(())
}

fn banned(tree: &str) -> Vec<String> {
    let names: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let found = BANNED.iter().filter(|(name, _)| names.contains(name));
    found.map(|(name, why)| format!("{name}: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_crate_is_found_by_its_exact_name() {
        let tree = "lifeboat v0.1.0 (/somewhere)\nstring v1.0.0\nring v0.17.14\nring v0.17.14 (*)\n";
        assert_eq!(banned(tree), ["ring: one TLS stack only: rustls with aws-lc-rs"]);
    }
}
