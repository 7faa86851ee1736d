//! Patterns of `--exclude`, `--include` and similar options, with restic's semantics: a pattern matches at any level
//! unless it starts with `/`, everything below a match matches, `**` stands for any number of directories, `!`
//! reverts the match of an earlier pattern. Pure: used by backup, restore, ls, find and others.

mod glob;

pub(super) use glob::Glob;

use crate::error::{Error, Result};

/// Whether upper and lower case are distinguished (`--iexclude`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Case {
    #[default]
    Matters,
    Ignored,
}

/// A parsed list of patterns. A pattern with `!` only reverts matches of earlier patterns in the same list.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    list: Vec<Pattern>,
    case: Case,
}

/// The result of a list for a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Match {
    pub matched: bool,
    /// Whether something below the path could match.
    pub below: bool,
}

#[derive(Debug, Clone)]
struct Pattern {
    parts: Vec<Part>,
    absolute: bool,
    negated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// The `/` at the start of an absolute path.
    Root,
    /// `**`
    Any,
    Literal(Vec<u8>),
    Glob(Glob),
}

impl Patterns {
    /// Empty patterns are ignored, malformed ones are refused.
    pub fn parse<P: AsRef<[u8]>>(patterns: impl IntoIterator<Item = P>, case: Case) -> Result<Self> {
        let patterns = patterns.into_iter();
        let list = patterns.filter(|pattern| !pattern.as_ref().is_empty()).map(|pattern| {
            let text = pattern.as_ref();
            let lower = (case == Case::Ignored).then(|| lower_case(text));
            Pattern::parse(lower.as_deref().unwrap_or(text)).ok_or_else(|| {
                let what = format!("the pattern '{}'", String::from_utf8_lossy(text));
                Error::invalid(what, "malformed: a '[' without its ']' or a '\\' at the end")
            })
        });
        Ok(Self { list: list.collect::<Result<_>>()?, case })
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the path, or one of its parent directories, matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.look_up(path, false).matched
    }

    /// Whether the path matches, and whether something below it could match, so that a restore has to descend.
    pub fn matches_or_below(&self, path: &[u8]) -> Match {
        self.look_up(path, true)
    }

    fn look_up(&self, path: &[u8], with_below: bool) -> Match {
        if self.list.is_empty() || path.is_empty() {
            return Match::default();
        }
        let lower = (self.case == Case::Ignored).then(|| lower_case(path));
        let path = components(lower.as_deref().unwrap_or(path));
        let mut result = Match::default();
        for pattern in &self.list {
            let matched = pattern.matches(&path);
            if pattern.negated {
                result.matched &= !matched;
                result.below &= !matched;
            } else {
                result.matched |= matched;
                result.below |= with_below && pattern.may_match_below(&path);
            }
        }
        result
    }
}

impl Pattern {
    fn parse(text: &[u8]) -> Option<Self> {
        let positive = text.strip_prefix(b"!");
        let cleaned = super::path::clean(positive.unwrap_or(text));
        let parts: Vec<_> = components(&cleaned).into_iter().map(Part::parse).collect::<Option<_>>()?;
        let absolute = parts.first() == Some(&Part::Root);
        Some(Self { parts: simplified(parts), absolute, negated: positive.is_some() })
    }

    fn matches(&self, path: &[&[u8]]) -> bool {
        if self.absolute {
            return fits(&self.parts, path, 0, path.len());
        }
        let first = usize::from(path.first() == Some(&&b"/"[..]));
        (first..path.len()).any(|offset| fits(&self.parts, path, offset, path.len() + offset))
    }

    /// Whether the path matches an absolute pattern up to its first `**`; relative patterns can match anywhere.
    fn may_match_below(&self, path: &[&[u8]]) -> bool {
        let precise = self.parts.iter().position(|part| *part == Part::Any).unwrap_or(self.parts.len());
        !self.absolute || self.parts[..precise].iter().zip(path).all(|(part, name)| part.matches(name))
    }
}

/// Whether the parts match the path from `at` on, not necessarily to its end. `limit` is how far `**` may reach:
/// restic counts every further part as at least one component, even a `**`.
fn fits(parts: &[Part], path: &[&[u8]], at: usize, limit: usize) -> bool {
    match parts {
        [] => true,
        [Part::Any, rest @ ..] => {
            let Some(last) = limit.checked_sub(rest.len()) else {
                return false;
            };
            (at..=last.min(path.len())).any(|next| fits(rest, path, next, limit))
        }
        [part, rest @ ..] => {
            path.get(at).is_some_and(|name| part.matches(name)) && fits(rest, path, at + 1, limit)
        }
    }
}

/// A leading `**` adds nothing to a relative pattern, which can start anywhere: removing it saves trying every
/// length.
fn simplified(mut parts: Vec<Part>) -> Vec<Part> {
    let only_leading = parts.iter().rposition(|part| *part == Part::Any) == Some(0);
    if only_leading && parts.len() > 1 {
        parts.remove(0);
    }
    parts
}

impl Part {
    fn parse(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"/" => Self::Root,
            // Only `/` alone has an empty component: it means everything, like `/**`.
            b"**" | b"" => Self::Any,
            text if text.iter().any(|byte| b"\\[]*?".contains(byte)) => Self::Glob(Glob::parse(text)?),
            text => Self::Literal(text.to_vec()),
        })
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Root => name == b"/",
            Self::Any => true,
            Self::Literal(text) => text == name,
            Self::Glob(glob) => glob.matches(name),
        }
    }
}

/// The components of a path; the first component of an absolute path is `/`.
fn components(path: &[u8]) -> Vec<&[u8]> {
    let mut parts: Vec<_> = path.split(|byte| *byte == b'/').collect();
    if let [first @ b"", ..] = parts.as_mut_slice() {
        *first = b"/";
    }
    parts
}

/// Like Go: character by character; invalid UTF-8 becomes the replacement character.
fn lower_case(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let lower = |character: char| character.to_lowercase().next().unwrap_or(character);
    String::from_utf8_lossy(text).chars().map(lower).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests;
