//! Objects as the user names them: `NAME`, or `KIND/NAME` where a command takes several kinds.

use crate::args::{ValueError, object_name};
use crate::nouns::{
    BACKUP_BATCH, BACKUP_CONFIGURATION, BACKUP_SESSION, Noun, RESTORE_BATCH, RESTORE_SESSION,
};

/// A kind that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    BackupConfiguration,
    BackupBatch,
    BackupSession,
    RestoreSession,
    RestoreBatch,
}

/// An object of one of these kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectName {
    pub(super) kind: Kind,
    pub(super) name: String,
}

/// Why a name is refused; clap prints it after the argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error(transparent)]
    Name(#[from] ValueError),
    #[error("kind {kind:?} is not expected here; write {expected}")]
    Kind { kind: String, expected: String },
}

impl Kind {
    pub(super) fn noun(self) -> Noun {
        match self {
            Self::BackupConfiguration => BACKUP_CONFIGURATION,
            Self::BackupBatch => BACKUP_BATCH,
            Self::BackupSession => BACKUP_SESSION,
            Self::RestoreSession => RESTORE_SESSION,
            Self::RestoreBatch => RESTORE_BATCH,
        }
    }

    /// The kind in front of a name, in lower case.
    fn word(self) -> String {
        self.noun().one.to_lowercase()
    }

    /// kubectl's short names, plurals, and the kind as it is in manifests.
    fn is_called(self, word: &str) -> bool {
        let word = word.to_lowercase();
        let short: &[&str] = match self {
            Self::BackupConfiguration => &["bc", "backupconfig"],
            Self::BackupBatch | Self::RestoreBatch | Self::BackupSession => &[],
            Self::RestoreSession => &["restore"],
        };
        let many = self.noun().many.to_lowercase();
        word == self.word() || word == many || short.contains(&word.as_str())
    }
}

impl ObjectName {
    pub(super) fn new(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }

    /// As commands take it: `restorebatch/NAME`.
    pub(super) fn argument(&self) -> String {
        format!("{}/{}", self.kind.word(), self.name)
    }
}

/// A BackupConfiguration or a BackupBatch.
pub(super) fn invoker(text: &str) -> Result<ObjectName, NameError> {
    parse(text, &[Kind::BackupConfiguration, Kind::BackupBatch])
}

/// A RestoreSession or a RestoreBatch.
pub(super) fn restore(text: &str) -> Result<ObjectName, NameError> {
    parse(text, &[Kind::RestoreSession, Kind::RestoreBatch])
}

/// A session, or an invoker, which stands for its newest session.
pub(super) fn session(text: &str) -> Result<ObjectName, NameError> {
    let kinds = [
        Kind::BackupSession,
        Kind::RestoreSession,
        Kind::RestoreBatch,
        Kind::BackupConfiguration,
        Kind::BackupBatch,
    ];
    parse(text, &kinds)
}

/// The first kind is that of a name without one.
fn parse(text: &str, kinds: &[Kind]) -> Result<ObjectName, NameError> {
    let (kind, name) = match text.split_once('/') {
        None => (kinds.first().copied(), text),
        Some((word, name)) => (kinds.iter().copied().find(|kind| kind.is_called(word)), name),
    };
    let Some(kind) = kind else {
        let word = text.split('/').next().unwrap_or_default().to_owned();
        let forms = kinds.iter().map(|kind| format!("{}/NAME", kind.word())).collect::<Vec<_>>();
        return Err(NameError::Kind { kind: word, expected: forms.join(" or ") });
    };
    Ok(ObjectName { kind, name: object_name(name)? })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("app", Kind::BackupConfiguration)]
    #[case("bc/app", Kind::BackupConfiguration)]
    #[case("backupconfigurations/app", Kind::BackupConfiguration)]
    #[case("BackupBatch/app", Kind::BackupBatch)]
    #[case("backupbatches/app", Kind::BackupBatch)]
    fn an_invoker_is_named_as_kubectl_names_it(#[case] text: &str, #[case] kind: Kind) {
        assert_eq!(invoker(text), Ok(ObjectName::new(kind, "app")));
    }

    #[test]
    fn another_kind_is_refused_with_those_that_fit() {
        let message = restore("backupbatch/x").unwrap_err().to_string();
        assert!(message.ends_with("write restoresession/NAME or restorebatch/NAME"), "{message}");
        assert!(session("x/").is_err() && session("restorebatch/X").is_err());
        assert_eq!(restore("r").unwrap().argument(), "restoresession/r");
    }
}
