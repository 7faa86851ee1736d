//! The notation for a snapshot: an ID, a prefix of one, `latest`, `latest~2`, optionally followed by a colon and a
//! folder. Takes text, returns a selector; `snapshots::find` looks it up.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::id::{Id, SnapshotId};

/// How many candidates an error about an ambiguous prefix lists.
const NAMED_CANDIDATES: usize = 5;

/// Identifies one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The newest that matches the filter, or the one `back` before it.
    Latest {
        back: usize,
    },
    Id(SnapshotId),
    /// Lower-case hexadecimal digits, shorter than an ID.
    Prefix(String),
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "latest" {
            return Ok(Self::Latest { back: 0 });
        }
        if let Some(back) = text.strip_prefix("latest~") {
            let problem = |_| Error::invalid(format!("snapshot '{text}'"), "a number must follow '~'");
            return Ok(Self::Latest { back: back.parse().map_err(problem)? });
        }
        if let Ok(id) = text.parse::<Id>() {
            return Ok(Self::Id(SnapshotId(id)));
        }
        if text.is_empty() || text.len() > 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let problem = "expected an ID of hexadecimal digits, a prefix of one, `latest` or `latest~N`";
            return Err(Error::invalid(format!("snapshot '{text}'"), problem));
        }
        Ok(Self::Prefix(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest { back: 0 } => f.write_str("latest"),
            Self::Latest { back } => write!(f, "latest~{back}"),
            Self::Id(id) => write!(f, "{id}"),
            Self::Prefix(prefix) => f.write_str(prefix),
        }
    }
}

/// A snapshot, and a folder in it if one was given: `latest:/srv/data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub snapshot: Selector,
    /// The text after the first colon; never empty.
    pub subfolder: Option<PathBuf>,
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(OsStr::new(text))
    }
}

impl Selection {
    /// The folder need not be UTF-8, just as file names need not be.
    pub fn parse(text: &OsStr) -> Result<Self> {
        let mut parts = text.as_bytes().splitn(2, |byte| *byte == b':');
        let snapshot = String::from_utf8_lossy(parts.next().unwrap_or_default());
        let subfolder = parts.next().filter(|folder| !folder.is_empty());
        let subfolder = subfolder.map(|folder| PathBuf::from(OsStr::from_bytes(folder)));
        Ok(Self { snapshot: snapshot.parse()?, subfolder })
    }
}

/// The only ID that starts with `prefix`. Needs only a listing: a damaged snapshot does not prevent finding others.
pub fn by_prefix(ids: &[SnapshotId], prefix: &str) -> Result<SnapshotId> {
    let candidates: Vec<SnapshotId> =
        ids.iter().filter(|id| id.0.hex().starts_with(prefix.as_bytes())).copied().collect();
    match candidates.as_slice() {
        [id] => Ok(*id),
        [] => Err(Error::NothingFound { what: format!("there is no snapshot '{prefix}'") }),
        many => {
            let mut named: Vec<String> =
                many.iter().take(NAMED_CANDIDATES).map(ToString::to_string).collect();
            if many.len() > NAMED_CANDIDATES {
                named.push(format!("{} more", many.len() - NAMED_CANDIDATES));
            }
            let problem = format!("{} snapshots start with it: {}", many.len(), named.join(", "));
            Err(Error::invalid(format!("snapshot '{prefix}'"), problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("latest", Selector::Latest { back: 0 }, None)]
    #[case("latest:/srv", Selector::Latest { back: 0 }, Some("/srv"))]
    #[case("latest~12:a:b", Selector::Latest { back: 12 }, Some("a:b"))]
    #[case("4AF0", Selector::Prefix("4af0".into()), None)]
    #[case("4af0:", Selector::Prefix("4af0".into()), None)]
    fn a_snapshot_and_a_folder_of_it_are_separated_at_the_first_colon(
        #[case] text: Selection,
        #[case] snapshot: Selector,
        #[case] subfolder: Option<&str>,
    ) {
        assert_eq!(text, Selection { snapshot, subfolder: subfolder.map(PathBuf::from) });
    }

    #[rstest]
    #[case("")]
    #[case(":/srv")]
    #[case("latest~")]
    #[case("latest~-1")]
    #[case("latest~99999999999999999999999")]
    #[case("last")]
    #[case("4af0 ")]
    fn what_names_no_snapshot_is_refused(#[case] text: &str) {
        assert!(matches!(text.parse::<Selection>(), Err(Error::Invalid { .. })));
    }

    #[test]
    fn a_folder_need_not_be_text() {
        let folder = OsStr::from_bytes(b"/a\xff:b");
        let text = [OsStr::new("latest:"), folder].into_iter().collect::<std::ffi::OsString>();
        assert_eq!(Selection::parse(&text).unwrap().subfolder, Some(PathBuf::from(folder)));
        assert!(Selection::parse(OsStr::from_bytes(b"\xff")).is_err());
    }

    #[test]
    fn a_whole_id_is_an_id() {
        let id = SnapshotId(Id::of(b"x"));
        assert_eq!(id.to_string().parse::<Selector>().unwrap(), Selector::Id(id));
    }
}
