//! The paths of a REST server: maps keys in restic's layout to the server's paths and back. The server stores
//! `config` and five kinds of files that are named by their IDs; every other key is refused before any request is
//! sent.

use crate::backend::PageRequest;
use crate::error::{Error, Result};
use crate::key::Key;

/// The kinds of files that a REST server stores, besides the config.
pub(super) const KINDS: [&str; 5] = ["data", "index", "keys", "locks", "snapshots"];

/// The only file that is not named by an ID.
pub(super) const CONFIG: &str = "config";

/// The server's path of a key: pack files are not in subdirectories there.
pub(super) fn path(key: &Key) -> Result<String> {
    let segments: Vec<&str> = key.as_str().split('/').collect();
    match segments.as_slice() {
        [CONFIG] => Ok(CONFIG.to_owned()),
        ["data", directory, id] if is_id(id) && id.starts_with(directory) && directory.len() == 2 => {
            Ok(format!("data/{id}"))
        }
        [kind, id] if *kind != "data" && KINDS.contains(kind) && is_id(id) => Ok(format!("{kind}/{id}")),
        _ => Err(unsupported(key.as_str())),
    }
}

/// The key of a file of a kind.
pub(super) fn key(kind: &str, id: &str) -> String {
    match kind {
        "data" => format!("data/{}/{id}", id.get(..2).unwrap_or_default()),
        _ => format!("{kind}/{id}"),
    }
}

/// Whether a name is 64 lower-case hexadecimal digits; servers also list files that are still being uploaded.
pub(super) fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// What a listing has to request: the kinds, and whether it includes the config.
pub(super) fn wanted(request: &PageRequest) -> Result<(Vec<&'static str>, bool)> {
    let prefix = request.prefix.as_str();
    let fits = |kind: &&str| {
        let below = format!("{kind}/");
        below.starts_with(prefix) || prefix.starts_with(&below)
    };
    let kinds: Vec<&str> = KINDS.into_iter().filter(fits).collect();
    let config = CONFIG.starts_with(prefix);
    if kinds.is_empty() && !config { Err(unsupported(prefix)) } else { Ok((kinds, config)) }
}

fn unsupported(name: &str) -> Error {
    let reason = format!("a REST server only stores the files of a repository; '{name}' is not one");
    Error::Unsupported { operation: "this name", reason }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ID: &str = "245bc4c430d393f74fbe7b13325e30dbde9fb0745e50caad57c446c93d20096b";

    #[rstest]
    #[case::config("config", Some("config"))]
    #[case::key("keys/ID", Some("keys/ID"))]
    #[case::lock("locks/ID", Some("locks/ID"))]
    #[case::data("data/24/ID", Some("data/ID"))]
    #[case::data_in_the_wrong_place("data/25/ID", None)]
    #[case::data_in_an_empty_place("data/2/ID", None)]
    #[case::flat_data("data/ID", None)]
    #[case::mark("lifeboat/marks/ID", None)]
    #[case::no_id("keys/abc", None)]
    #[case::kind_alone("keys", None)]
    #[case::below_the_config("config/ID", None)]
    fn only_names_of_a_repository_have_a_path(#[case] name: &str, #[case] expected: Option<&str>) {
        let named = name.replace("ID", ID);
        let result = path(&Key::new(named.as_str()).unwrap());
        match expected {
            Some(expected) => assert_eq!(result.unwrap(), expected.replace("ID", ID)),
            None => assert_eq!(result.unwrap_err().category(), "unsupported"),
        }
    }

    #[rstest]
    #[case::everything("", &KINDS, true)]
    #[case::a_kind("data/", &["data"], false)]
    #[case::a_directory("data/ab/", &["data"], false)]
    #[case::part_of_a_name("snap", &["snapshots"], false)]
    #[case::config("config", &[], true)]
    fn a_listing_asks_for_what_its_prefix_can_hold(
        #[case] prefix: &str,
        #[case] kinds: &[&str],
        #[case] config: bool,
    ) {
        let request = PageRequest { prefix: prefix.into(), delimited: false, token: None };
        assert_eq!(wanted(&request).unwrap(), (kinds.to_vec(), config));
    }

    #[rstest]
    #[case::marks("lifeboat/")]
    #[case::other("backups/")]
    fn a_listing_of_something_else_is_refused(#[case] prefix: &str) {
        let request = PageRequest { prefix: prefix.into(), delimited: true, token: None };
        assert_eq!(wanted(&request).unwrap_err().category(), "unsupported");
    }
}
