//! Files that the `lifeboat` image takes from Debian packages of this machine: CA roots and time zones. Returns
//! contents for `lifeboat.rs`; installs the packages if they are missing.
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::apt::apt_install;

const CA_ROOTS: &str = "/usr/share/ca-certificates/mozilla";
const ZONES: &str = "/usr/share/zoneinfo";

/// The bundle of public CA roots, from the files of package ca-certificates. `/etc/ssl/certs` itself is not used: it
/// also contains certificates that were added to this machine (a company's or a proxy's CA), which no image should
/// trust.
pub(super) fn ca_bundle() -> Result<Vec<u8>> {
    if !Path::new(CA_ROOTS).is_dir() {
        apt_install(&["ca-certificates"])?;
    }
    let mut bundle = Vec::new();
    for (_, path) in sorted(Path::new(CA_ROOTS))? {
        if path.extension().is_some_and(|extension| extension == "crt") {
            let certificate = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            bundle.extend_from_slice(certificate.trim_ascii());
            bundle.push(b'\n');
        }
    }
    if bundle.is_empty() {
        bail!("no CA roots in {CA_ROOTS}: reinstall the package ca-certificates");
    }
    Ok(bundle)
}

/// Every time zone by name ("Europe/Berlin"), symbolic links resolved. Only compiled zones: `posix/` repeats them,
/// `right/` counts leap seconds, which are unsuitable for schedules, and the tables are documentation.
pub(super) fn zones() -> Result<Vec<(String, Vec<u8>)>> {
    if !Path::new(ZONES).join("UTC").exists() {
        apt_install(&["tzdata"])?;
    }
    let mut zones = Vec::new();
    collect_zones(Path::new(ZONES), "", &mut zones)?;
    if zones.is_empty() {
        bail!("no time zones in {ZONES}: reinstall the package tzdata");
    }
    Ok(zones)
}

fn collect_zones(directory: &Path, prefix: &str, zones: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for (name, path) in sorted(directory)? {
        if prefix.is_empty() && matches!(name.as_str(), "posix" | "right" | "posixrules" | "localtime") {
            continue;
        }
        if path.is_dir() {
            collect_zones(&path, &format!("{prefix}{name}/"), zones)?;
            continue;
        }
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if content.starts_with(b"TZif") {
            zones.push((format!("{prefix}{name}"), content));
        }
    }
    Ok(())
}

fn sorted(directory: &Path) -> Result<Vec<(String, std::path::PathBuf)>> {
    let context = || format!("cannot list {}", directory.display());
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).with_context(context)? {
        let entry = entry.with_context(context)?;
        entries.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn zones_come_without_duplicates_of_the_tree_and_without_tables() {
        let names: Vec<_> = zones().unwrap().into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"Europe/Berlin".to_owned()));
        assert!(names.contains(&"UTC".to_owned()));
        assert!(!names.iter().any(|name| name.starts_with("posix") || name.starts_with("right/")));
        assert!(!names.contains(&"zone1970.tab".to_owned()));
    }

    #[test]
    fn the_bundle_holds_only_whole_certificates() {
        let bundle = String::from_utf8(ca_bundle().unwrap()).unwrap();
        let count = |line: &str| bundle.lines().filter(|l| *l == line).count();
        let begins = count("-----BEGIN CERTIFICATE-----");
        assert!(begins > 50, "{begins}");
        assert_eq!(begins, count("-----END CERTIFICATE-----"));
    }
}
