//! The sources of Debian packages: takes this machine's apt configuration and returns the part for the distribution
//! itself, as mmdebstrap needs it. So this project contains no host names, and a machine with its own mirror or proxy
//! keeps using it. Repositories of others are left out.
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The entries for one release, in apt's two formats; mmdebstrap accepts a file of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    pub(super) one_line: String,
    pub(super) deb822: String,
}

/// Reads `/etc/apt` (or its replacement in tests) for the release called `suite`.
pub(super) fn of_machine(apt: &Path, suite: &str) -> Result<Sources> {
    let mut sources = Sources::default();
    for path in source_files(apt)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("list") => sources.one_line += &one_line(&text, suite),
            Some("sources") => sources.deb822 += &deb822(&text, suite),
            _ => {}
        }
    }
    if sources == Sources::default() {
        bail!("no apt source for '{suite}' in {}: the test images are made from them", apt.display());
    }
    Ok(sources)
}

fn source_files(apt: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut files = vec![apt.join("sources.list")];
    let parts = apt.join("sources.list.d");
    if parts.is_dir() {
        let context = || format!("cannot list {}", parts.display());
        for entry in fs::read_dir(&parts).with_context(context)? {
            files.push(entry.with_context(context)?.path());
        }
    }
    files.sort();
    files.retain(|file| file.is_file());
    Ok(files)
}

/// The release, its updates and its security fixes; backports and other suites would change what is installed.
fn wanted(word: &str, suite: &str) -> bool {
    let rest = word.trim_end_matches('/').strip_prefix(suite);
    matches!(rest, Some("" | "-updates" | "-security"))
}

/// Keeps lines `deb [options] URI SUITE COMPONENT...`.
fn one_line(text: &str, suite: &str) -> String {
    let keep = |line: &&str| {
        let line = line.split('#').next().unwrap_or_default();
        let Some(rest) = line.trim_start().strip_prefix("deb ") else { return false };
        let rest = match rest.trim_start().strip_prefix('[') {
            Some(options) => options.split_once(']').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut fields = rest.split_whitespace().skip(1);
        fields.next().is_some_and(|word| wanted(word, suite)) && fields.any(|component| component == "main")
    };
    text.lines().filter(keep).flat_map(|line| [line.trim(), "\n"]).collect()
}

/// Keeps paragraphs that offer binary packages of the release, with `Suites` narrowed to it.
fn deb822(text: &str, suite: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.trim().is_empty()).filter_map(|lines| paragraph(lines, suite)).collect()
}

fn paragraph(lines: &[&str], suite: &str) -> Option<String> {
    let field = |name: &str| {
        lines.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    let has = |name, word| field(name).is_some_and(|value| value.split_whitespace().any(|w| w == word));
    let off = field("Enabled").is_some_and(|value| value.eq_ignore_ascii_case("no"));
    let suites: Vec<_> = field("Suites")?.split_whitespace().filter(|word| wanted(word, suite)).collect();
    if off || suites.is_empty() || !has("Types", "deb") || !has("Components", "main") {
        return None;
    }
    let mut text = format!("Types: deb\nSuites: {}\n", suites.join(" "));
    for line in lines {
        let key = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if key != "types" && key != "suites" {
            text += line;
            text.push('\n');
        }
    }
    text.push('\n');
    Some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_line_entries_of_the_release_are_kept() {
        let text = "# deb http://a trixie main\n\
                    deb http://a trixie main contrib\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://a trixie-security main\n\
                    deb-src http://a trixie main\n\
                    deb http://a trixie-backports main\n\
                    deb http://b trixie stable\n\
                    deb http://c sid main\n";
        assert_eq!(
            one_line(text, "trixie"),
            "deb http://a trixie main contrib\n\
             deb [arch=amd64 signed-by=/k.gpg] http://a trixie-security main\n"
        );
    }

    #[test]
    fn a_paragraph_keeps_its_key_and_loses_foreign_suites() {
        let text = "Types: deb deb-src\n# a remark\nURIs: http://a\nSuites: noble noble-updates noble-backports\n\
                    Components: main universe\nSigned-By:\n -----BEGIN PGP\n .\n mQIN\n\n\
                    Types: deb\nURIs: http://b\nSuites: nodistro\nComponents: main\n\n\
                    Types: deb\nEnabled: no\nURIs: http://c\nSuites: noble\nComponents: main\n";
        assert_eq!(
            deb822(text, "noble"),
            "Types: deb\nSuites: noble noble-updates\nURIs: http://a\nComponents: main universe\n\
             Signed-By:\n -----BEGIN PGP\n .\n mQIN\n\n"
        );
    }

    #[test]
    fn a_machine_without_sources_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = of_machine(directory.path(), "bookworm").unwrap_err();
        assert!(error.to_string().contains("no apt source for 'bookworm'"));
    }
}
