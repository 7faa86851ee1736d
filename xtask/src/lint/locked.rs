//! Crates that must not come in, directly or through others: read from Cargo.lock. `cargo deny` checks licences and
//! advisories too (deny.toml), but takes minutes to install; this takes none.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// A crate and why it is not wanted.
const BANNED: [(&str, &str); 6] = [
    ("ring", "one TLS stack only: rustls with aws-lc-rs"),
    ("openssl-sys", "one TLS stack only: rustls with aws-lc-rs"),
    ("native-tls", "one TLS stack only: rustls with aws-lc-rs"),
    ("serde_yaml", "unmaintained; serde-saphyr is used"),
    ("serde_yml", "unmaintained; serde-saphyr is used"),
    ("tokio-tar", "abandoned, with known flaws"),
];

pub(crate) fn check(root: &Path) -> Result<()> {
    let path = root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let found = banned(&lock);
    if !found.is_empty() {
        bail!("crates that must not come in (`cargo tree -i NAME` tells who brings them):\n  {}", found.join("\n  "));
    }
    Ok(())
}

fn banned(lock: &str) -> Vec<String> {
    let names = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    names
        .filter_map(|name| BANNED.iter().find(|(banned, _)| *banned == name))
        .map(|(name, why)| format!("{name}: {why}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_crate_is_found_by_its_exact_name() {
        let lock = "[[package]]\nname = \"ring\"\nversion = \"1\"\n\n[[package]]\nname = \"string\"\n";
        assert_eq!(banned(lock).len(), 1);
        assert!(banned(lock)[0].starts_with("ring: "));
    }
}
