//! The repository's config: version, id and the polynomial that its files are cut with.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The version of the format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Not compressed; any restic can read it.
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
                format!("'{other}' is none of 1, 2, latest, stable"),
            )),
        }
    }
}

/// What the config says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub version: Version,
    /// Random; copies of a repository share it.
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
    /// Reads the decrypted file.
    pub(crate) fn parse(plain: &[u8]) -> Result<Self> {
        let damaged = |detail: String| Error::damaged("the config", detail);
        let json: Json = serde_json::from_slice(plain).map_err(|error| damaged(error.to_string()))?;
        let version = match json.version {
            1 => Version::V1,
            2 => Version::V2,
            other => {
                let problem = format!("version {other} is not known to this program, which reads 1 and 2");
                return Err(Error::invalid("repository", problem));
            }
        };
        let polynomial = u64::from_str_radix(&json.chunker_polynomial, 16)
            .map_err(|_| damaged(format!("'{}' is no polynomial", json.chunker_polynomial)))?;
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
