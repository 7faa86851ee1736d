//! What a plugin says when something cannot be done: text for the person who reads the results of the backup.

use std::fmt;

/// Why a plugin could not do what it was asked. Any error becomes one with `?`.
pub struct Error(String);

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Say what was attempted, with names, and what to do about it.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// With all its causes, because nobody will see the source.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        Self(text)
    }
}

/// Why a plugin program could not serve.
#[derive(thiserror::Error)]
pub enum ServeError {
    #[error(
        "this program is a plugin: put it into the plugin directory of Lifeboat or Velero, which starts it; `install DIRECTORY` copies it there"
    )]
    NotStartedByAHost,
    #[error("the host speaks protocol {0}, this plugin speaks 2")]
    Protocol(String),
    #[error("{0}")]
    Name(String),
    #[error("cannot listen on '{path}': {error}")]
    Listen { path: String, error: std::io::Error },
    #[error("cannot copy this program to '{path}': {error}")]
    Install { path: String, error: std::io::Error },
    #[error(
        "use it as `install [DIRECTORY]`: this program is copied into that directory, into /target where none is named"
    )]
    InstallArguments,
    #[error("cannot serve: {0}")]
    Serve(String),
}

/// `main` shows errors with Debug; people shall read words.
impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What `main` returns.
pub type Served = std::result::Result<(), ServeError>;
