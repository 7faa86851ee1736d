//! Reads values of the Secret and names of the backend, and checks their format.

use super::{BackendProblem, SecretData};

/// The Secret of a backend.
pub(super) struct Values<'a> {
    /// Its name.
    pub(super) secret: &'a str,
    pub(super) data: &'a SecretData,
}

impl Values<'_> {
    /// A value without the line end that a Secret made from a file often has; None if it is missing or empty.
    pub(super) fn text(&self, key: &'static str) -> Result<Option<String>, BackendProblem> {
        let Some(value) = self.data.get(key) else { return Ok(None) };
        let text = std::str::from_utf8(&value.0).map_err(|_| self.wrong(key, "UTF-8 text"))?.trim();
        Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
    }

    /// A value that becomes part of a line of a credentials file.
    pub(super) fn key(&self, key: &'static str) -> Result<Option<String>, BackendProblem> {
        let text = self.text(key)?;
        match &text {
            Some(text) if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err(self.wrong(key, "one word of letters, digits and signs"))
            }
            _ => Ok(text),
        }
    }

    pub(super) fn required(
        &self,
        key: &'static str,
        meaning: &'static str,
    ) -> Result<String, BackendProblem> {
        // A password may contain spaces; it is written to a file of its own.
        let value = if key == super::PASSWORD { self.text(key)? } else { self.key(key)? };
        let missing = || BackendProblem::Missing { secret: self.secret.to_owned(), key, meaning };
        value.ok_or_else(missing)
    }

    /// Two keys that belong together: both, or none if pods have a cloud identity.
    pub(super) fn pair(
        &self,
        first: &'static str,
        second: &'static str,
    ) -> Result<Option<(String, String)>, BackendProblem> {
        let half = |there, key| BackendProblem::HalfPair { secret: self.secret.to_owned(), there, key };
        match (self.key(first)?, self.key(second)?) {
            (Some(one), Some(other)) => Ok(Some((one, other))),
            (Some(_), None) => Err(half(first, second)),
            (None, Some(_)) => Err(half(second, first)),
            (None, None) => Ok(None),
        }
    }

    pub(super) fn certificates(&self, key: &'static str) -> Result<Option<Vec<u8>>, BackendProblem> {
        match self.text(key)? {
            Some(pem) if !pem.contains("-----BEGIN CERTIFICATE-----") => {
                Err(self.wrong(key, "PEM certificates ('-----BEGIN CERTIFICATE-----')"))
            }
            pem => Ok(pem.map(|pem| format!("{pem}\n").into_bytes())),
        }
    }

    pub(super) fn wrong(&self, key: &'static str, expected: &'static str) -> BackendProblem {
        BackendProblem::Value { secret: self.secret.to_owned(), key, expected }
    }

    /// A key of the Secret in a message about a field.
    pub(super) fn name(&self, key: &str) -> String {
        format!("key '{key}' of Secret '{}'", self.secret)
    }
}

/// The name of a bucket or container.
pub(super) fn bucket(field: &str, name: &str) -> Result<String, BackendProblem> {
    let is_name = !name.is_empty() && !matches!(name, "." | "..") && !name.contains(['/', '\\']);
    if is_name && !name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Ok(name.to_owned());
    }
    Err(wrong(field, name, "the name of a bucket; a directory inside it belongs in prefix"))
}

/// A directory inside a bucket, without slashes at its ends; empty for the root.
pub(super) fn prefix(field: &str, text: Option<&str>) -> Result<String, BackendProblem> {
    let text = text.unwrap_or_default();
    let trimmed = text.trim_matches('/');
    if trimmed.is_empty() || is_path(trimmed) {
        return Ok(trimmed.to_owned());
    }
    Err(wrong(field, text, "a path without '.', '..' and empty parts, such as 'backups/shop'"))
}

/// A directory inside a volume; None for its root.
pub(super) fn relative(field: &str, text: Option<&str>) -> Result<Option<String>, BackendProblem> {
    match text {
        None | Some("") => Ok(None),
        Some(path) if !path.starts_with('/') && is_path(path.trim_end_matches('/')) => {
            Ok(Some(path.trim_end_matches('/').to_owned()))
        }
        Some(path) => Err(wrong(field, path, "a relative path without '.', '..' and empty parts")),
    }
}

fn is_path(text: &str) -> bool {
    text.split('/').all(|part| !matches!(part, "" | "." | "..")) && !text.chars().any(char::is_control)
}

pub(super) fn wrong(field: &str, value: &str, expected: &'static str) -> BackendProblem {
    BackendProblem::Field { field: field.to_owned(), value: value.to_owned(), expected }
}
