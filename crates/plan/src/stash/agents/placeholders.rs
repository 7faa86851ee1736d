//! Placeholders such as `{{RepoName}}` in the commands of an agent. Their values are quoted in a line for a shell, so that a path
//! with blanks or signs stays one word. Pure.

use super::{AgentError, Use};
use crate::stash::databases::words::all_quoted;

/// The values of the placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The name of the repository, which only our `restic` resolves.
    pub repo_name: String,
    pub repo_dir: String,
    pub host: String,
    /// The snapshot that is recovered; None in a backup.
    pub snapshot: Option<String>,
    pub paths: Vec<String>,
}

/// Where a text stands, for messages.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) agent: &'a str,
    pub(super) name: &'a str,
    pub(super) purpose: Use,
}

impl Values {
    /// A line for a shell with its values.
    pub(super) fn in_line(&self, field: Field<'_>, text: &str) -> Result<String, AgentError> {
        self.replace(field, text, |before, words| match words {
            [word] if is_plain(word) => Some(word.clone()),
            // Between quotes, and in a here-document, a quoted value would not stay what it is.
            _ if text.contains("<<") || is_in_quotes(before) => None,
            words => Some(all_quoted(words)),
        })
    }

    /// An argument with its values.
    pub(super) fn in_argument(&self, field: Field<'_>, text: &str) -> Result<Vec<String>, AgentError> {
        if text == "{{Paths}}" {
            return Ok(self.paths.clone());
        }
        Ok(vec![self.replace(field, text, |_, words| Some(words.join(" ")))?])
    }

    fn replace(
        &self,
        field: Field<'_>,
        text: &str,
        write: impl Fn(&str, &[String]) -> Option<String>,
    ) -> Result<String, AgentError> {
        let (mut replaced, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else {
                return Err(AgentError::UnclosedPlaceholder {
                    agent: field.agent.into(),
                    field: field.name.into(),
                });
            };
            replaced.push_str(before);
            let name = name.trim();
            let value = write(&replaced, &self.value(field, name)?);
            let value = value.ok_or_else(|| AgentError::Quoted {
                agent: field.agent.into(),
                field: field.name.into(),
                name: name.into(),
            })?;
            replaced.push_str(&value);
            rest = after;
        }
        replaced.push_str(rest);
        Ok(replaced)
    }

    fn value(&self, field: Field<'_>, name: &str) -> Result<Vec<String>, AgentError> {
        let one = |value: &str| Ok(vec![value.to_owned()]);
        let (agent, field, purpose) = (field.agent.to_owned(), field.name.to_owned(), field.purpose);
        match (name, &self.snapshot) {
            ("RepoName", _) => one(&self.repo_name),
            ("RepoDir", _) => one(&self.repo_dir),
            ("Host", _) => one(&self.host),
            ("Paths", _) => Ok(self.paths.clone()),
            ("Snapshot", Some(snapshot)) => one(snapshot),
            ("Snapshot", None) => {
                Err(AgentError::NoValue { agent, field, name: name.to_owned(), purpose: purpose.field() })
            }
            _ => Err(AgentError::UnknownPlaceholder { agent, field, name: name.to_owned() }),
        }
    }
}

/// Whether a shell reads a word as it is.
fn is_plain(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,@%+=".contains(&byte);
    !word.is_empty() && word.bytes().all(is_plain)
}

/// Whether a shell is between quotes at the end of the text.
fn is_in_quotes(text: &str) -> bool {
    let (mut quote, mut is_escaped) = (None, false);
    for character in text.chars() {
        match (quote, character) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            _ => {}
        }
    }
    quote.is_some()
}
