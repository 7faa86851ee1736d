//! Which certificates the calls of hooks trust, from annotations of the object with the hooks. Takes the annotations;
//! gives the ConfigMap or Secret with certificate authorities, or that any certificate is accepted. Called before a
//! call over HTTPS is made.
//!
//! Kubernetes probes do not verify certificates. Calls of hooks do, because their bodies and headers may contain
//! secrets.

use std::fmt;

/// Annotation of an object with hooks: `configmap/NAME` or `secret/NAME` of its namespace, whose key [`AUTHORITY_KEY`] has certificates that are
/// trusted in addition to the system's.
pub const HOOK_CA: &str = "lifeboat.io/hook-ca";
/// Annotation of an object with hooks: `true` if its calls accept any certificate.
pub const HOOK_SKIP_VERIFY: &str = "lifeboat.io/hook-skip-verify";
/// The key with certificates in PEM.
pub const AUTHORITY_KEY: &str = "ca.crt";
/// The longest list of certificates: it becomes part of a task, whose Secret holds 1 MiB.
pub const LONGEST_AUTHORITY: usize = 256 * 1024;

/// Whom the calls of an object's hooks trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HookTrust {
    /// The authorities of the system.
    #[default]
    System,
    /// Those, and the authorities that an object has.
    Also(AuthorityRef),
    Anybody,
}

/// A ConfigMap or Secret with the certificates of authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityRef {
    pub kind: AuthorityKind,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityKind {
    ConfigMap,
    Secret,
}

impl fmt::Display for AuthorityRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            AuthorityKind::ConfigMap => "ConfigMap",
            AuthorityKind::Secret => "Secret",
        };
        write!(formatter, "{kind} {}", self.name)
    }
}

/// Why the annotations are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    #[error("annotation {HOOK_CA} is {value:?}; expected configmap/NAME or secret/NAME")]
    Reference { value: String },
    #[error("annotation {HOOK_SKIP_VERIFY} is {value:?}; expected \"true\" or \"false\"")]
    SkipVerify { value: String },
    #[error("annotations {HOOK_CA} and {HOOK_SKIP_VERIFY} contradict each other; remove one of the two")]
    Both,
    #[error(
        "annotation {HOOK_CA}: {reference} does not exist in namespace {namespace}; create it, or correct the annotation"
    )]
    Missing { reference: AuthorityRef, namespace: String },
    #[error(
        "annotation {HOOK_CA}: {reference} of namespace {namespace} has no key {AUTHORITY_KEY} with certificates in PEM of at most \
         {LONGEST_AUTHORITY} bytes"
    )]
    NoCertificates { reference: AuthorityRef, namespace: String },
}

impl HookTrust {
    /// `annotation`: the value of an annotation of the object.
    pub fn of<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Result<Self, TrustError> {
        let skips = match annotation(HOOK_SKIP_VERIFY) {
            None | Some("false" | "") => false,
            Some("true") => true,
            Some(value) => return Err(TrustError::SkipVerify { value: value.to_owned() }),
        };
        match (annotation(HOOK_CA).filter(|value| !value.is_empty()), skips) {
            (None, false) => Ok(Self::System),
            (None, true) => Ok(Self::Anybody),
            (Some(_), true) => Err(TrustError::Both),
            (Some(value), false) => AuthorityRef::parse(value)
                .map(Self::Also)
                .ok_or_else(|| TrustError::Reference { value: value.to_owned() }),
        }
    }
}

impl AuthorityRef {
    fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let kind = match kind.to_ascii_lowercase().as_str() {
            "configmap" => AuthorityKind::ConfigMap,
            "secret" => AuthorityKind::Secret,
            _ => return None,
        };
        // It becomes part of a path of the API server.
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        let is_name =
            !name.starts_with('.') && !name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain);
        is_name.then(|| Self { kind, name: name.to_owned() })
    }

    /// The error if the object does not exist.
    pub fn missing(&self, namespace: &str) -> TrustError {
        TrustError::Missing { reference: self.clone(), namespace: namespace.to_owned() }
    }

    /// The certificates that its key has. `content`: that of the key, if the object has it.
    pub fn certificates(&self, namespace: &str, content: Option<Vec<u8>>) -> Result<String, TrustError> {
        let text = content.filter(|content| content.len() <= LONGEST_AUTHORITY);
        let text = text.and_then(|content| String::from_utf8(content).ok());
        let text = text.filter(|text| text.contains("-----BEGIN CERTIFICATE-----"));
        let (reference, namespace) = (self.clone(), namespace.to_owned());
        text.ok_or(TrustError::NoCertificates { reference, namespace })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn trust(ca: Option<&str>, skip: Option<&str>) -> Result<HookTrust, TrustError> {
        let values = [(HOOK_CA, ca), (HOOK_SKIP_VERIFY, skip)];
        HookTrust::of(|name| values.iter().find(|(known, _)| *known == name).and_then(|(_, value)| *value))
    }

    fn reference(kind: AuthorityKind) -> HookTrust {
        HookTrust::Also(AuthorityRef { kind, name: "own-ca".into() })
    }

    #[rstest]
    #[case::nothing(None, None, HookTrust::System)]
    #[case::empty(Some(""), Some("false"), HookTrust::System)]
    #[case::config_map(Some("configmap/own-ca"), None, reference(AuthorityKind::ConfigMap))]
    #[case::as_kubectl_writes_kinds(Some("ConfigMap/own-ca"), None, reference(AuthorityKind::ConfigMap))]
    #[case::secret(Some("secret/own-ca"), None, reference(AuthorityKind::Secret))]
    #[case::anybody(None, Some("true"), HookTrust::Anybody)]
    fn servers_are_verified_unless_the_object_says_otherwise(
        #[case] ca: Option<&str>,
        #[case] skip: Option<&str>,
        #[case] expected: HookTrust,
    ) {
        assert_eq!(trust(ca, skip), Ok(expected));
    }

    #[rstest]
    #[case::no_kind(Some("own-ca"), None, "expected configmap/NAME or secret/NAME")]
    #[case::other_kind(Some("pod/own-ca"), None, "is \"pod/own-ca\"")]
    #[case::other_namespace(Some("secret/other/own-ca"), None, "is \"secret/other/own-ca\"")]
    #[case::path(Some("secret/.."), None, "is \"secret/..\"")]
    #[case::no_bool(None, Some("yes"), "lifeboat.io/hook-skip-verify is \"yes\"")]
    #[case::both(Some("secret/own-ca"), Some("true"), "contradict each other")]
    fn annotations_that_cannot_be_followed_are_named(
        #[case] ca: Option<&str>,
        #[case] skip: Option<&str>,
        #[case] says: &str,
    ) {
        let message = trust(ca, skip).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }

    #[rstest]
    #[case::no_key(None, "has no key ca.crt")]
    #[case::no_pem(Some(b"s3cret".to_vec()), "has no key ca.crt with certificates")]
    #[case::too_long(Some(b"-----BEGIN CERTIFICATE-----".repeat(10_000)), "of at most 262144 bytes")]
    fn what_has_no_certificates_is_named_and_not_shown(#[case] content: Option<Vec<u8>>, #[case] says: &str) {
        let reference = AuthorityRef { kind: AuthorityKind::Secret, name: "own-ca".into() };
        let message = reference.certificates("shop", content).unwrap_err().to_string();
        assert!(message.contains(says) && message.contains("Secret own-ca"), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
        let pem = b"-----BEGIN CERTIFICATE-----\nx".to_vec();
        assert!(reference.certificates("shop", Some(pem)).is_ok());
        assert!(reference.missing("shop").to_string().contains("does not exist in namespace shop"));
    }
}
