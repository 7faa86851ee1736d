//! Identifiers of contents and objects, as they are written in manifests and directories.

use std::fmt;

use crate::crypto::LONGEST_HASH;
use crate::error::{Error, Result, shown};

/// How often an object may refer to a further list of its parts.
const DEEPEST: u8 = 4;

/// The identifier of a content: the keyed hash of its bytes, behind a letter for contents that are not file data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId {
    /// The letter (0 if there is none), and the hash.
    bytes: [u8; 1 + LONGEST_HASH],
    length: u8,
}

impl ContentId {
    /// From a key of an index: the letter and the hash.
    pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
        let prefix = *key.first()?;
        if !(2..=1 + LONGEST_HASH).contains(&key.len()) || !(prefix == 0 || is_prefix(prefix)) {
            return None;
        }
        let mut bytes = [0; 1 + LONGEST_HASH];
        bytes[..key.len()].copy_from_slice(key);
        Some(Self { bytes, length: u8::try_from(key.len()).ok()? })
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let (prefix, digits) = match text.split_first() {
            Some((first, rest)) if is_prefix(*first) => (*first, rest),
            _ => (0, text),
        };
        if digits.is_empty() || digits.len() % 2 != 0 || digits.len() > 2 * LONGEST_HASH {
            return None;
        }
        let mut key = vec![prefix];
        for pair in digits.chunks(2) {
            key.push(digit(pair[0])? << 4 | digit(pair[1])?);
        }
        Self::from_key(&key)
    }

    /// The letter and the hash.
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(crate) fn hash(&self) -> &[u8] {
        &self.key()[1..]
    }

    /// The letter; 0 if there is none.
    pub(crate) fn prefix(&self) -> u8 {
        self.bytes[0]
    }
}

fn is_prefix(byte: u8) -> bool {
    (b'g'..=b'z').contains(&byte)
}

/// kopia writes lower case only; another spelling would be another name of one content.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix() != 0 {
            write!(f, "{}", char::from(self.prefix()))?;
        }
        self.hash().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The identifier of an object: a file's content, a directory, the target of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId {
    /// How many lists lie between the object and its contents.
    pub(crate) indirection: u8,
    /// The content starts with the number of its compression (format version 1 only).
    pub(crate) compressed: bool,
    pub(crate) content: ContentId,
}

impl ObjectId {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::damaged("an object ID", format!("'{}'", shown(text)));
        let rest = text.trim_start_matches('I');
        let indirection = u8::try_from(text.len() - rest.len()).map_err(|_| wrong())?;
        if indirection > DEEPEST {
            return Err(wrong());
        }
        let (compressed, rest) = rest.strip_prefix('Z').map_or((false, rest), |rest| (true, rest));
        if compressed && indirection > 0 {
            return Err(wrong());
        }
        // The letter D is a relic, without a meaning.
        let rest = rest.strip_prefix('D').unwrap_or(rest);
        let content = ContentId::parse(rest).ok_or_else(wrong)?;
        Ok(Self { indirection, compressed, content })
    }

    /// The object that lists the parts of this one.
    pub(crate) fn list(self) -> Option<Self> {
        Some(Self { indirection: self.indirection.checked_sub(1)?, ..self })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.indirection).try_for_each(|_| f.write_str("I"))?;
        f.write_str(if self.compressed { "Z" } else { "" })?;
        self.content.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("00ff", "00ff")]
    #[case("k00ff", "k00ff")]
    #[case("D00ff", "00ff")]
    #[case("Z00ff", "Z00ff")]
    #[case("ZD00ff", "Z00ff")]
    #[case("IIx00ff", "IIx00ff")]
    #[case("IDx00ff", "Ix00ff")]
    fn current_and_old_ids_are_read(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(ObjectId::parse(text).unwrap().to_string(), shown);
    }

    #[rstest::rstest]
    #[case("")]
    #[case("k")]
    #[case("IZ00ff")]
    #[case("IIIII00ff")]
    #[case("00f")]
    #[case("00FF")]
    #[case("a\u{e4}00ff")]
    #[case("zz00ff")]
    #[case("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20")]
    fn other_ids_are_refused(#[case] text: &str) {
        assert!(ObjectId::parse(text).is_err(), "{text}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_error_or_an_id_that_is_written_alike(text in "[IZDa-z0-9]{0,70}") {
            if let Ok(id) = ObjectId::parse(&text) {
                proptest::prop_assert_eq!(ObjectId::parse(&id.to_string()).unwrap(), id);
            }
        }
    }
}
