//! The repository password: takes the content of the Secret and the password that was given, gives the content that
//! the Secret must have and the conditions to report. Called by `lifeboat install` and by the server when it becomes
//! leader.
//!
//! There is one password per installation. If an adopted Secret holds Velero's public default, existing repositories
//! keep it; new ones get a random password under a second key.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::conditions::Fact;

/// Upstream's name for the Secret, so that an existing one is adopted.
pub const SECRET: &str = "velero-repo-credentials";
/// Upstream's key.
pub const KEY: &str = "repository-password";
/// The password of new repositories where `KEY` holds the public default.
pub const NEW_REPOSITORIES_KEY: &str = "repository-password-new";
/// Set by `lifeboat repository-password export`: the time, and a fingerprint of the exported password, so that the
/// annotation becomes invalid when the password changes.
pub const EXPORTED_ANNOTATION: &str = "lifeboat.io/password-exported-at";

/// The advice to export the password.
const EXPORT: &str = "volume data cannot be restored without the repository password, and only this cluster has it: run \
                      `lifeboat repository-password export` and keep the result in a safe place";

/// The password of every Velero installation that does not set its own: it is public.
const PUBLIC_DEFAULT: &str = "static-passw0rd";

/// The content of the Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PasswordSecret {
    pub data: BTreeMap<String, Vec<u8>>,
    pub annotations: BTreeMap<String, String>,
    /// The resource version that was read; writes are conditional on it.
    pub version: Option<String>,
}

impl std::fmt::Debug for PasswordSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PasswordSecret")
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .field("annotations", &self.annotations)
            .field("version", &self.version)
            .finish()
    }
}

/// The change to the Secret.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordPlan {
    /// No change.
    Keep,
    /// Create the Secret with this key.
    Create { key: &'static str, password: String },
    /// Add this key to the Secret as it was read in `version`; the other keys stay.
    AddKey { key: &'static str, password: String, version: Option<String> },
}

/// Why a given password cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error(
        "the password file is empty; put the repository password in it, or leave out --repository-password-file to have one made"
    )]
    Empty,
    #[error(
        "secret {SECRET} already holds another repository password: repositories written with it could not be opened any more; leave out --repository-password-file to keep it"
    )]
    Differs,
}

/// Decides the content of the Secret. `random` is a fresh password, used only if one is needed.
pub fn plan(
    existing: Option<&PasswordSecret>,
    given: Option<&str>,
    random: &str,
) -> Result<PasswordPlan, PasswordError> {
    if given.is_some_and(|given| given.trim().is_empty()) {
        return Err(PasswordError::Empty);
    }
    let given = given.map(str::trim_end);
    let password = given.unwrap_or(random).to_owned();
    let Some(secret) = existing else { return Ok(PasswordPlan::Create { key: KEY, password }) };
    // The key that new repositories use.
    let key = if uses_public_default(existing) { NEW_REPOSITORIES_KEY } else { KEY };
    match (held(secret, key), given) {
        (Some(stored), Some(given)) if stored != given.as_bytes() => Err(PasswordError::Differs),
        (Some(_), _) => Ok(PasswordPlan::Keep),
        (None, _) => Ok(PasswordPlan::AddKey { key, password, version: secret.version.clone() }),
    }
}

/// The value of `key`, without the line end that a Secret made from a file often has; `None` if it is empty.
fn held<'a>(secret: &'a PasswordSecret, key: &str) -> Option<&'a [u8]> {
    secret.data.get(key).map(|value| value.trim_ascii_end()).filter(|value| !value.is_empty())
}

/// The key and value that protect new repositories; `None` if there is none to export.
pub fn to_export(secret: &PasswordSecret) -> Option<(&'static str, &[u8])> {
    let key = if uses_public_default(Some(secret)) { NEW_REPOSITORIES_KEY } else { KEY };
    held(secret, key).map(|value| (key, value))
}

/// The passwords that may open a repository, in the order to try them: that of new repositories first.
pub fn to_try(secret: &PasswordSecret) -> Vec<&str> {
    let mut keys = [KEY, NEW_REPOSITORIES_KEY];
    if uses_public_default(Some(secret)) {
        keys.reverse();
    }
    keys.iter().filter_map(|key| std::str::from_utf8(held(secret, key)?).ok()).collect()
}

/// The annotation value that records an export of the current password.
pub fn exported_mark(secret: &PasswordSecret, when: &str) -> Option<String> {
    to_export(secret).map(|(_, value)| format!("{when} {}", fingerprint(value)))
}

/// When the current password was exported; `None` if it was not, or has changed since.
pub fn exported_at(secret: &PasswordSecret) -> Option<&str> {
    let (when, mark) = secret.annotations.get(EXPORTED_ANNOTATION)?.split_once(' ')?;
    let (_, value) = to_export(secret)?;
    (mark == fingerprint(value)).then_some(when)
}

/// A fingerprint that identifies a password without revealing it. It is stored next to the password itself.
fn fingerprint(value: &[u8]) -> String {
    let digest = Sha256::new().chain_update(b"lifeboat repository password\n").chain_update(value).finalize();
    digest[..6].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// The conditions about the password that every location reports, so that a password that was never exported is
/// noticed before it is needed.
pub fn facts(secret: Option<&PasswordSecret>) -> Vec<Fact> {
    let marked = secret.is_some_and(|secret| secret.annotations.contains_key(EXPORTED_ANNOTATION));
    let (holds, reason, message) = match secret.and_then(exported_at) {
        Some(when) => (true, "Exported", format!("the repository password was exported at {when}")),
        None if marked => (
            false,
            "ChangedSinceExport",
            format!("the repository password was changed after it was exported: {EXPORT}"),
        ),
        None => (false, "NeverExported", EXPORT.to_owned()),
    };
    let mut facts = vec![Fact { kind: "RepositoryPasswordExported", holds, reason: reason.into(), message }];
    if uses_public_default(secret) {
        facts.push(Fact {
            kind: "RepositoryPasswordPrivate",
            holds: false,
            reason: "PublicDefault".into(),
            message: format!(
                "secret {SECRET} holds Velero's public default password: repositories that exist keep it and can be \
                 read by anyone who reaches the bucket; new repositories use key {NEW_REPOSITORIES_KEY}"
            ),
        });
    }
    facts
}

/// Whether existing repositories are protected only by Velero's public default.
pub fn uses_public_default(secret: Option<&PasswordSecret>) -> bool {
    secret.and_then(|secret| secret.data.get(KEY)).is_some_and(|stored| is_public_default(stored))
}

/// Whether a password is Velero's public default.
pub fn is_public_default(stored: &[u8]) -> bool {
    stored.trim_ascii_end() == PUBLIC_DEFAULT.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn secret(entries: &[(&str, &str)]) -> PasswordSecret {
        PasswordSecret {
            data: entries.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect(),
            annotations: BTreeMap::new(),
            version: Some("7".into()),
        }
    }

    impl std::fmt::Debug for PasswordPlan {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            match self {
                Self::Keep => write!(f, "keep"),
                Self::Create { key, password } => write!(f, "create {key}={password}"),
                Self::AddKey { key, password, version } => {
                    write!(f, "add {key}={password} at {}", version.as_deref().unwrap_or("any version"))
                }
            }
        }
    }

    #[rstest]
    #[case::fresh_installation(None, None, "create repository-password=random")]
    #[case::fresh_with_a_given_one(None, Some("mine\n"), "create repository-password=mine")]
    #[case::taken_over(Some(secret(&[(KEY, "old")])), None, "keep")]
    #[case::the_same_given_again(Some(secret(&[(KEY, "old")])), Some("old"), "keep")]
    #[case::public_default(Some(secret(&[(KEY, "static-passw0rd")])), None, "add repository-password-new=random at 7")]
    #[case::public_default_and_given(Some(secret(&[(KEY, "static-passw0rd")])), Some("mine"),
        "add repository-password-new=mine at 7")]
    #[case::public_default_taken_over_before(
        Some(secret(&[(KEY, "static-passw0rd"), (NEW_REPOSITORIES_KEY, "x")])), None, "keep")]
    #[case::a_secret_without_the_key(Some(secret(&[("other", "x")])), None, "add repository-password=random at 7")]
    #[case::an_empty_value(Some(secret(&[(KEY, "")])), None, "add repository-password=random at 7")]
    #[case::made_from_a_file_and_given_as_exported(Some(secret(&[(KEY, "old\n")])), Some("old\n"), "keep")]
    #[case::the_new_one_made_from_a_file(
        Some(secret(&[(KEY, "static-passw0rd\n"), (NEW_REPOSITORIES_KEY, "x\n")])), Some("x"), "keep")]
    #[case::an_empty_new_one(
        Some(secret(&[(KEY, "static-passw0rd"), (NEW_REPOSITORIES_KEY, "")])), None,
        "add repository-password-new=random at 7")]
    fn keeps_what_exists_and_never_relies_on_the_public_default(
        #[case] existing: Option<PasswordSecret>,
        #[case] given: Option<&str>,
        #[case] expected: &str,
    ) {
        let plan = plan(existing.as_ref(), given, "random").unwrap();
        assert_eq!(format!("{plan:?}"), expected);
    }

    #[rstest]
    #[case::another_one_exists(Some(secret(&[(KEY, "old")])), "new", PasswordError::Differs)]
    #[case::empty_file(None, " \n", PasswordError::Empty)]
    fn refuses_what_would_lock_people_out(
        #[case] existing: Option<PasswordSecret>,
        #[case] given: &str,
        #[case] expected: PasswordError,
    ) {
        assert_eq!(plan(existing.as_ref(), Some(given), "random").err(), Some(expected));
    }

    #[test]
    fn reports_that_it_was_never_exported_and_that_it_is_public() {
        let stored = secret(&[(KEY, "static-passw0rd")]);
        let kinds: Vec<_> = facts(Some(&stored)).into_iter().map(|fact| (fact.kind, fact.holds)).collect();
        assert_eq!(kinds, [("RepositoryPasswordExported", false), ("RepositoryPasswordPrivate", false)]);
    }

    #[test]
    fn an_exported_private_password_is_one_true_condition_until_it_changes() {
        let mut stored = secret(&[(KEY, "x")]);
        let mark = exported_mark(&stored, "2026-01-01T00:00:00Z").unwrap();
        stored.annotations.insert(EXPORTED_ANNOTATION.into(), mark);
        let before = facts(Some(&stored));
        assert_eq!((before.len(), before[0].holds), (1, true));
        stored.data.insert(KEY.into(), b"y".to_vec());
        let after = facts(Some(&stored));
        assert_eq!((after[0].holds, after[0].reason.as_ref()), (false, "ChangedSinceExport"));
        stored.data.remove(KEY);
        assert!(!facts(Some(&stored))[0].holds);
    }

    #[test]
    fn an_empty_password_is_nothing_to_export() {
        assert_eq!(to_export(&secret(&[(KEY, "\n")])), None);
        assert_eq!(to_export(&secret(&[(KEY, "static-passw0rd")])), None);
        let both = secret(&[(KEY, "static-passw0rd"), (NEW_REPOSITORIES_KEY, "new")]);
        assert_eq!(to_export(&both), Some((NEW_REPOSITORIES_KEY, b"new".as_slice())));
    }

    #[test]
    fn debug_output_never_shows_a_password() {
        let shown = format!("{:?}", secret(&[(KEY, "canary-value")]));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
