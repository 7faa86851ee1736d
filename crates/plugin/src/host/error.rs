//! Errors of plugins, with messages that name the program, what happened and what to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::{Code, Status};

use crate::ActionError;

/// How much of a plugin's message is kept.
const LONGEST_MESSAGE: usize = 4096;

/// Why a plugin could not be started or called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("no {kind} plugin named '{name}' is installed; `lifeboat plugin get` lists those that are")]
    NotInstalled { kind: &'static str, name: String },
    #[error("cannot start the plugin program '{}': {reason}", program.display())]
    CannotStart { program: PathBuf, reason: String },
    #[error("'{}' is not a plugin program that this host can use: {reason}", program.display())]
    Handshake { program: PathBuf, reason: String },
    #[error("'{}' sent no plugin handshake within {}; it was ended", program.display(), seconds(*after))]
    StartTimeout { program: PathBuf, after: Duration },
    #[error("the plugin program '{}' could not be started {times} times in a row and is not tried again: {last}", program.display())]
    GivenUp { program: PathBuf, times: u32, last: String },
    #[error("plugin '{plugin}': its program ended during {call} ({how})")]
    Gone { plugin: String, call: &'static str, how: String },
    #[error("plugin '{plugin}': {call} took longer than {} and was ended", seconds(*after))]
    TimedOut { plugin: String, call: &'static str, after: Duration },
    #[error(
        "plugin '{plugin}': {call} gave no answer {times} times in a row and is not called again in this backup or restore (the last time: {last})"
    )]
    NotCalledAgain { plugin: String, call: &'static str, times: u32, last: String },
    #[error("plugin '{plugin}': {message}")]
    Failed { plugin: String, call: &'static str, code: Code, message: String },
    #[error("plugin '{plugin}': the answer to {call} cannot be used: {reason}")]
    Answer { plugin: String, call: &'static str, reason: String },
    #[error("the plugins of this backup or restore have been ended")]
    Closed,
}

impl PluginError {
    /// A category from a fixed list, for events and metrics.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotInstalled { .. } => "not_installed",
            Self::CannotStart { .. } | Self::StartTimeout { .. } | Self::GivenUp { .. } => "start",
            Self::Handshake { .. } => "handshake",
            Self::Gone { .. } => "crashed",
            Self::TimedOut { .. } => "timeout",
            Self::NotCalledAgain { .. } => "given_up",
            Self::Failed { .. } => "failed",
            Self::Answer { .. } => "answer",
            Self::Closed => "closed",
        }
    }

    /// The error for a gRPC status that a plugin returned.
    pub(crate) fn of_status(plugin: &str, call: &'static str, status: &Status) -> Self {
        let said = shortened(status.message());
        let message = match status.code() {
            Code::OutOfRange if said.contains("message length too large") => {
                return Self::Answer {
                    plugin: plugin.to_owned(),
                    call,
                    reason: format!("it is too large ({said})"),
                };
            }
            Code::ResourceExhausted if said.contains("larger than max") => {
                format!("the request of {call} is larger than the plugin accepts: {said}")
            }
            Code::Unimplemented => format!("it does not implement {call}"),
            Code::Aborted if said.contains("panicked") => format!("it panicked in {call}: {said}"),
            _ if said.is_empty() => format!("{call} failed without a message ({:?})", status.code()),
            _ => said,
        };
        Self::Failed { plugin: plugin.to_owned(), call, code: status.code(), message }
    }

    pub(super) fn no_plugin(program: &Path, reason: impl Into<String>) -> Self {
        Self::Handshake { program: program.to_owned(), reason: reason.into() }
    }
}

impl From<PluginError> for ActionError {
    fn from(error: PluginError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Text from a plugin, limited in length and without control characters.
pub(crate) fn shortened(text: &str) -> String {
    let clean =
        text.trim().chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c });
    let mut short: String = clean.take(LONGEST_MESSAGE).collect();
    if short.len() < text.trim().len() && short.chars().count() == LONGEST_MESSAGE {
        short.push_str(" …");
    }
    short
}

fn seconds(duration: Duration) -> String {
    if duration.as_secs() >= 120 {
        format!("{} minutes", duration.as_secs() / 60)
    } else {
        format!("{duration:?}")
    }
}
