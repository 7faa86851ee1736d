//! One entry of an order: a name, a pattern or a regular expression.

use regex::{Regex, RegexBuilder};

use crate::glob::{Glob, GlobError};

/// The memory limit of a compiled expression. Expressions come from users.
const MOST: usize = 1 << 20;

/// Why an entry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("the pattern cannot be used: {0}")]
    Glob(#[from] GlobError),
    #[error("the regular expression {text:?} cannot be used: {reason}")]
    Regex { text: String, reason: String },
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    text: String,
    is: Is,
}

#[derive(Clone, Debug)]
enum Is {
    Name,
    Glob(Glob),
    Regex(Regex),
}

impl Entry {
    fn new(text: &str) -> Result<Self, EntryError> {
        let is = if let Some(expression) = text.strip_prefix('~') {
            Is::Regex(regex(expression)?)
        } else if Glob::is_pattern(text) {
            Is::Glob(Glob::new(text)?)
        } else {
            Is::Name
        };
        Ok(Self { text: text.to_owned(), is })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it looks like several names that were separated by semicolons.
    pub(super) fn has_semicolon(&self) -> bool {
        self.text.contains(';') && !matches!(self.is, Is::Regex(_))
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        match &self.is {
            Is::Name => self.text == path,
            Is::Glob(glob) => glob.matches(path),
            Is::Regex(regex) => regex.is_match(path),
        }
    }
}

/// The entries of a list; empty ones, as after a trailing comma, are ignored.
pub(super) fn entries(list: &str) -> Result<Vec<Entry>, EntryError> {
    list.split(',').map(str::trim).filter(|text| !text.is_empty()).map(Entry::new).collect()
}

fn regex(expression: &str) -> Result<Regex, EntryError> {
    let whole = format!("^(?:{})$", unescaped(expression));
    RegexBuilder::new(&whole).size_limit(MOST).build().map_err(|error| {
        // The library marks the position over several lines; the last one has the error.
        let reason = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        EntryError::Regex { text: expression.to_owned(), reason }
    })
}

/// Replaces the escapes of comma, semicolon and equals sign, which the library would not accept inside `{1,3}`.
fn unescaped(expression: &str) -> String {
    let mut text = String::with_capacity(expression.len());
    let mut rest = expression.chars();
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        let code = rest.as_str().get(..3).map(str::to_ascii_lowercase);
        let sign = match code.as_deref() {
            Some("x2c") => Some(','),
            Some("x3b") => Some(';'),
            Some("x3d") => Some('='),
            _ => None,
        };
        if let Some(sign) = sign {
            text.push(sign);
            rest.nth(2);
        } else {
            text.push(letter);
            text.extend(rest.next());
        }
    }
    text
}
