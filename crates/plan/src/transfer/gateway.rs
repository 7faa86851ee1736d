//! The gateway, through which movers in tenants' namespaces access repositories whose keys are in another namespace:
//! the token of a mover, and when the certificate authority of the gateway is renewed. Called by crate `transfer`.
//!
//! A token is its readable content and a MAC over it, so that every replica can check it without a record of its own.
//! The object that the token names shows whether the task is still recorded.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::transfer::movers::Owner;

/// The Secret in Lifeboat's namespace with the key of tokens and the certificate authority.
pub const SECRET: &str = "lifeboat-gateway";
/// The Service in front of the gateways of all replicas.
pub const SERVICE: &str = "lifeboat-gateway";
/// The port of the Service and of the replicas.
pub const PORT: u16 = 8087;

/// The longest token; no token of a valid task is longer.
const LONGEST: usize = 4096;

/// What a mover may do with its repository. Whatever it is, the config and the keys are never written, and nothing but
/// the mover's own locks is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rights {
    /// Reads, and adds packs, index files, snapshots and locks.
    #[serde(rename = "backup")]
    Backup,
    /// Reads, and adds locks.
    #[serde(rename = "restore")]
    Restore,
}

/// The content of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claims {
    /// The key of the repository, as in `stash/shop/backups`.
    pub repository: String,
    pub rights: Rights,
    pub task: String,
    /// The namespace of the mover.
    pub namespace: String,
    pub owner_kind: String,
    pub owner_namespace: String,
    pub owner_name: String,
    pub owner_uid: String,
    /// Unix time in seconds.
    pub expires: i64,
}

impl Claims {
    /// The object that has recorded the task.
    pub fn owner(&self) -> Owner {
        Owner {
            kind: self.owner_kind.clone(),
            namespace: self.owner_namespace.clone(),
            name: self.owner_name.clone(),
            uid: self.owner_uid.clone(),
        }
    }
}

/// Why a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is not one of this installation")]
    Forged,
    #[error("the token has expired")]
    Expired,
}

/// Makes the token of these claims.
pub fn seal(claims: &Claims, key: &SecretSlice<u8>) -> SecretString {
    // Claims are plain data and always serialise.
    let said = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).unwrap_or_default());
    let seal = URL_SAFE_NO_PAD.encode(mac(key, &said).finalize().into_bytes());
    SecretString::from(format!("{said}.{seal}"))
}

/// The claims of a token, if its MAC is valid and it has not expired. The MAC is compared in constant time.
pub fn open(token: &str, key: &SecretSlice<u8>, now: Timestamp) -> Result<Claims, TokenError> {
    if token.len() > LONGEST {
        return Err(TokenError::Forged);
    }
    let (said, seal) = token.split_once('.').ok_or(TokenError::Forged)?;
    let seal = URL_SAFE_NO_PAD.decode(seal).map_err(|_| TokenError::Forged)?;
    mac(key, said).verify_slice(&seal).map_err(|_| TokenError::Forged)?;
    let said = URL_SAFE_NO_PAD.decode(said).map_err(|_| TokenError::Forged)?;
    let claims: Claims = serde_json::from_slice(&said).map_err(|_| TokenError::Forged)?;
    if claims.expires <= now.as_second() { Err(TokenError::Expired) } else { Ok(claims) }
}

fn mac(key: &SecretSlice<u8>, said: &str) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key.expose_secret()).expect("HMAC takes a key of any length");
    // Tokens of downloads and of later versions begin with another text.
    mac.update(b"lifeboat gateway 1\0");
    mac.update(said.as_bytes());
    mac
}

/// How long a certificate authority is valid.
pub const AUTHORITY_LIFE: Duration = Duration::from_hours(24 * 365 * 2);
/// How long before the end of an authority the next one is created. From then on movers trust both.
const NEXT_BEFORE: Duration = Duration::from_hours(24 * 60);
/// How long before the end of an authority the next one takes its place. Movers that trust only the old one have ended
/// by then: a mover may run for a week unless its task says otherwise.
const CHANGE_BEFORE: Duration = Duration::from_hours(24 * 14);

/// The change that the certificate authority of the gateway needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityPlan {
    Keep,
    /// There is none that can be used.
    Make,
    /// Create the authority that will follow the current one.
    MakeNext,
    /// The next one becomes the current one.
    Change,
}

/// Decides from the ends of the current authority and of the one that will follow it.
pub fn authority_plan(current: Option<Timestamp>, next: Option<Timestamp>, now: Timestamp) -> AuthorityPlan {
    let lasts = |end: Option<Timestamp>, limit: Duration| end.is_some_and(|end| now + limit < end);
    if lasts(current, CHANGE_BEFORE) {
        let is_prepared = lasts(next, CHANGE_BEFORE) || lasts(current, NEXT_BEFORE);
        return if is_prepared { AuthorityPlan::Keep } else { AuthorityPlan::MakeNext };
    }
    if lasts(next, CHANGE_BEFORE) { AuthorityPlan::Change } else { AuthorityPlan::Make }
}

/// The names under which movers reach the gateway inside the cluster; the first one is in their URL.
pub fn names(namespace: &str) -> Vec<String> {
    ["svc", "svc.cluster.local"].map(|suffix| format!("{SERVICE}.{namespace}.{suffix}")).to_vec()
}

/// The URL of the gateway inside the cluster.
pub fn url(namespace: &str) -> String {
    format!("https://{SERVICE}.{namespace}.svc:{PORT}/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(text: &str) -> SecretSlice<u8> {
        SecretSlice::from(text.as_bytes().to_vec())
    }

    fn claims() -> Claims {
        Claims {
            repository: "stash/shop/backups".into(),
            rights: Rights::Restore,
            task: "u.0.ab-1".into(),
            namespace: "bank".into(),
            owner_kind: "RestoreSession".into(),
            owner_namespace: "bank".into(),
            owner_name: "back".into(),
            owner_uid: "u".into(),
            expires: 100,
        }
    }

    fn sealed(claims: &Claims, with: &str) -> String {
        seal(claims, &key(with)).expose_secret().to_owned()
    }

    #[test]
    fn a_token_says_what_it_was_made_for_until_it_expires() {
        let token = sealed(&claims(), "secret");
        assert_eq!(open(&token, &key("secret"), at(99)), Ok(claims()));
        assert_eq!(open(&token, &key("secret"), at(100)), Err(TokenError::Expired));
        assert_eq!(open(&token, &key("other"), at(99)), Err(TokenError::Forged));
        assert_eq!(claims().owner().uid, "u");
    }

    #[rstest]
    #[case::more_rights(Claims { rights: Rights::Backup, ..claims() })]
    #[case::other_repository(Claims { repository: "stash/shop/other".into(), ..claims() })]
    #[case::other_task(Claims { task: "u.0.ab-2".into(), ..claims() })]
    #[case::longer(Claims { expires: 1000, ..claims() })]
    fn a_seal_is_good_for_its_own_claims_only(#[case] other: Claims) {
        let (ours, theirs) = (sealed(&claims(), "secret"), sealed(&other, "guess"));
        let forged = format!("{}.{}", theirs.split_once('.').unwrap().0, ours.split_once('.').unwrap().1);
        assert_eq!(open(&forged, &key("secret"), at(0)), Err(TokenError::Forged));
    }

    #[test]
    fn a_token_of_a_download_is_none_of_the_gateway() {
        use crate::velero::download::{Grant, seal};
        let grant = Grant { location: "default".into(), key: "k".into(), expires: 100 };
        assert_eq!(open(&seal(&grant, b"secret"), &key("secret"), at(0)), Err(TokenError::Forged));
    }

    proptest! {
        #[test]
        fn no_other_text_is_a_token(text in "[A-Za-z0-9_.-]{0,200}") {
            prop_assert_eq!(open(&text, &key("secret"), at(0)), Err(TokenError::Forged));
        }
    }

    #[rstest]
    #[case::none(None, None, AuthorityPlan::Make)]
    #[case::new(Some(700), None, AuthorityPlan::Keep)]
    #[case::soon_over(Some(59), None, AuthorityPlan::MakeNext)]
    #[case::next_is_made(Some(59), Some(700), AuthorityPlan::Keep)]
    #[case::next_is_too_old(Some(59), Some(13), AuthorityPlan::MakeNext)]
    #[case::nearly_over(Some(13), Some(700), AuthorityPlan::Change)]
    #[case::over(Some(-1), Some(700), AuthorityPlan::Change)]
    #[case::nearly_over_without_next(Some(13), None, AuthorityPlan::Make)]
    #[case::both_over(Some(-9), Some(-1), AuthorityPlan::Make)]
    fn an_authority_is_replaced_before_its_end_by_one_that_movers_know(
        #[case] current_days: Option<i64>,
        #[case] next_days: Option<i64>,
        #[case] expected: AuthorityPlan,
    ) {
        let now = at(1_800_000_000);
        let end = |days: i64| at(1_800_000_000 + days * 24 * 3600);
        assert_eq!(authority_plan(current_days.map(end), next_days.map(end), now), expected);
    }

    #[test]
    fn the_url_has_the_first_of_the_names() {
        assert_eq!(names("lifeboat")[0], "lifeboat-gateway.lifeboat.svc");
        assert_eq!(url("lifeboat"), "https://lifeboat-gateway.lifeboat.svc:8087/");
    }
}
