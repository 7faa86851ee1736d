//! What a person types to name a snapshot: an id, the start of one, `latest`, `latest~2`, and with a folder of it
//! after a colon. Takes text, gives a selector; `snapshots::find` looks it up.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::id::{Id, SnapshotId};

/// How many candidates an error about an ambiguous prefix names.
const NAMED_CANDIDATES: usize = 5;

/// Names one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The newest that the filter lets through, or the one `back` before it.
    Latest {
        back: usize,
    },
    Id(SnapshotId),
    /// Lower case hexadecimal digits, less than a whole id.
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
            let problem = "give an id of hexadecimal digits, the start of one, `latest` or `latest~N`";
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

/// A snapshot, and a folder of it when one was given: `latest:/srv/data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub snapshot: Selector,
    /// What followed the first colon; never empty.
    pub subfolder: Option<String>,
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (snapshot, subfolder) = text.split_once(':').unwrap_or((text, ""));
        let subfolder = (!subfolder.is_empty()).then(|| subfolder.to_owned());
        Ok(Self { snapshot: snapshot.parse()?, subfolder })
    }
}

/// The one id that starts with `prefix`. It needs a listing only: a damaged snapshot is not in the way of others.
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
    fn a_snapshot_and_a_folder_of_it_are_told_apart_at_the_first_colon(
        #[case] text: Selection,
        #[case] snapshot: Selector,
        #[case] subfolder: Option<&str>,
    ) {
        assert_eq!(text, Selection { snapshot, subfolder: subfolder.map(str::to_owned) });
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
    fn a_whole_id_is_an_id() {
        let id = SnapshotId(Id::of(b"x"));
        assert_eq!(id.to_string().parse::<Selector>().unwrap(), Selector::Id(id));
    }
}
