//! The errors of a plugin: text for the reader of the backup's results.

use std::fmt;

/// Why a plugin could not fulfil a request. Any error is converted with `?`.
pub struct Error(String);

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The message should say what was attempted, with names, and what to do about it.
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

/// Includes all causes, because the message is all that reaches the user.
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
        "use it as `install [DIRECTORY]`: this program is copied into that directory, by default into /target"
    )]
    InstallArguments,
    #[error("cannot serve: {0}")]
    Serve(String),
}

/// `main` prints errors with Debug; this prints the message for users.
impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The return type of `main`.
pub type Served = std::result::Result<(), ServeError>;
