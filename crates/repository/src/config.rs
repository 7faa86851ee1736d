//! The repository's config: version, ID and the polynomial with which files are split.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::Id;

/// The version of the format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Without compression; every restic can read it.
    V1,
    /// Compressed with zstd; restic 0.14 and later.
    #[default]
    V2,
}

impl Version {
    pub fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

impl std::str::FromStr for Version {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "1" => Ok(Self::V1),
            "2" | "latest" | "stable" | "" => Ok(Self::V2),
            other => Err(Error::invalid(
                "repository version",
                format!("'{other}' is not one of 1, 2, latest, stable"),
            )),
        }
    }
}

/// The content of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub version: Version,
    /// The ID of the repository, random; a copy of its files has the same ID.
    pub id: String,
    pub chunker_polynomial: u64,
}

#[derive(Serialize, Deserialize)]
struct Json {
    version: u32,
    id: String,
    chunker_polynomial: String,
}

impl Config {
    /// Parses the decrypted file.
    pub(crate) fn parse(plain: &[u8]) -> Result<Self> {
        let damaged = |detail: String| Error::damaged("the config", detail);
        let json: Json = serde_json::from_slice(plain).map_err(|error| damaged(error.to_string()))?;
        let version = match json.version {
            1 => Version::V1,
            2 => Version::V2,
            other => {
                let problem = format!("version {other} is not supported, only 1 and 2 are");
                return Err(Error::invalid("repository", problem));
            }
        };
        // The ID becomes the name of a directory of the cache, so anything but 64 hexadecimal digits is refused.
        if !json.id.parse::<Id>().is_ok_and(|id| id.to_string() == json.id) {
            let id = json.id.escape_debug();
            return Err(damaged(format!("'{id}' is not an ID of 64 lower-case hexadecimal digits")));
        }
        let polynomial = u64::from_str_radix(&json.chunker_polynomial, 16)
            .map_err(|_| damaged(format!("'{}' is not a polynomial", json.chunker_polynomial)))?;
        Ok(Self { version, id: json.id, chunker_polynomial: polynomial })
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        let json = Json {
            version: self.version.number(),
            id: self.id.clone(),
            chunker_polynomial: format!("{:x}", self.chunker_polynomial),
        };
        let mut text = serde_json::to_vec(&json).expect("a struct of numbers and strings becomes JSON");
        text.push(b'\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(id: &str) -> Result<Config> {
        let config = Config { version: Version::V2, id: id.to_owned(), chunker_polynomial: 1 };
        Config::parse(&config.json())
    }

    #[rstest::rstest]
    #[case::empty("")]
    #[case::above("..")]
    #[case::elsewhere("/etc")]
    #[case::short(&"a".repeat(63))]
    #[case::long(&"a".repeat(65))]
    #[case::upper_case(&"A".repeat(64))]
    #[case::no_digits(&"g".repeat(64))]
    #[case::a_path_of_the_right_length(&format!("/{}", "a".repeat(63)))]
    fn an_id_is_64_hexadecimal_digits_and_nothing_else(#[case] id: &str) {
        let error = parsed(id).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert_eq!(parsed(&"0a".repeat(32)).unwrap().id, "0a".repeat(32));
    }
}
