//! Download requests: which file is meant, how long the request is kept, and the token of links to the server's own
//! download endpoint. Called by the controller of DownloadRequest and by the download endpoint.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use lifeboat_api::velero::DownloadTargetKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

/// How long a link is valid: upstream's value.
pub const LINK_LIFE: Duration = Duration::from_mins(10);

/// How long a request that cannot be answered is retried.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// The next step for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPlan {
    Answer,
    /// Answered; check again after this time.
    KeepFor(Duration),
    Remove,
}

pub fn plan(request: &Value, now: Timestamp) -> RequestPlan {
    let time = |path: &str| {
        request.pointer(path).and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok())
    };
    let url = request.pointer("/status/downloadURL").and_then(Value::as_str).unwrap_or_default();
    let until = if url.is_empty() {
        let Some(created) = time("/metadata/creationTimestamp") else { return RequestPlan::Answer };
        // No client waits this long for an answer.
        return if now > created + PATIENCE { RequestPlan::Remove } else { RequestPlan::Answer };
    } else {
        time("/status/expiration")
    };
    match until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default()) {
        Some(rest) if !rest.is_zero() => RequestPlan::KeepFor(rest.min(LINK_LIFE)),
        _ => RequestPlan::Remove,
    }
}

/// The kind of object that a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Backup,
    Restore,
}

/// The owner of a kind of target; None for a kind that this version does not know.
pub fn owner(kind: &DownloadTargetKind) -> Option<Owner> {
    match kind {
        DownloadTargetKind::RestoreLog
        | DownloadTargetKind::RestoreResults
        | DownloadTargetKind::RestoreResourceList
        | DownloadTargetKind::RestoreItemOperations
        | DownloadTargetKind::RestoreVolumeInfo => Some(Owner::Restore),
        DownloadTargetKind::Other(_) => None,
        _ => Some(Owner::Backup),
    }
}

/// What a token permits: reading one object of one location, until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    #[serde(rename = "l")]
    pub location: String,
    #[serde(rename = "k")]
    pub key: String,
    /// Unix time in seconds.
    #[serde(rename = "e")]
    pub expires: i64,
}

/// Why a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is not one of ours")]
    Forged,
    #[error("the token has expired")]
    Expired,
}

/// The token of a grant: its readable content and a MAC over it with `secret`. Safe in the path of a URL.
pub fn seal(grant: &Grant, secret: &[u8]) -> String {
    let said = URL_SAFE_NO_PAD.encode(serde_json::to_vec(grant).unwrap_or_default());
    let seal = URL_SAFE_NO_PAD.encode(mac(secret, &said).finalize().into_bytes());
    format!("{said}.{seal}")
}

/// The grant of a token, if its MAC is valid and it has not expired. Compared in constant time.
pub fn open(token: &str, secret: &[u8], now: Timestamp) -> Result<Grant, TokenError> {
    let (said, seal) = token.split_once('.').ok_or(TokenError::Forged)?;
    let seal = URL_SAFE_NO_PAD.decode(seal).map_err(|_| TokenError::Forged)?;
    mac(secret, said).verify_slice(&seal).map_err(|_| TokenError::Forged)?;
    let said = URL_SAFE_NO_PAD.decode(said).map_err(|_| TokenError::Forged)?;
    let grant: Grant = serde_json::from_slice(&said).map_err(|_| TokenError::Forged)?;
    if grant.expires <= now.as_second() { Err(TokenError::Expired) } else { Ok(grant) }
}

fn mac(secret: &[u8], said: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(b"lifeboat download 1\0");
    mac.update(said.as_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn grant() -> Grant {
        Grant { location: "default".into(), key: "backups/b/b-logs.gz".into(), expires: 100 }
    }

    #[test]
    fn a_token_opens_its_object_until_it_expires() {
        let token = seal(&grant(), b"secret");
        assert_eq!(open(&token, b"secret", at(99)), Ok(grant()));
        assert_eq!(open(&token, b"secret", at(100)), Err(TokenError::Expired));
        assert_eq!(open(&token, b"other", at(99)), Err(TokenError::Forged));
    }

    #[rstest]
    #[case::other_object(Grant { key: "backups/b/b.tar.gz".into(), ..grant() })]
    #[case::other_location(Grant { location: "other".into(), ..grant() })]
    #[case::longer(Grant { expires: 1000, ..grant() })]
    fn a_seal_is_good_for_its_own_grant_only(#[case] other: Grant) {
        let (ours, theirs) = (seal(&grant(), b"secret"), seal(&other, b"guess"));
        let forged = format!("{}.{}", theirs.split_once('.').unwrap().0, ours.split_once('.').unwrap().1);
        assert_eq!(open(&forged, b"secret", at(0)), Err(TokenError::Forged));
    }

    proptest! {
        #[test]
        fn no_other_text_is_a_token(text in "[A-Za-z0-9_.-]{0,200}") {
            prop_assert_eq!(open(&text, b"secret", at(0)), Err(TokenError::Forged));
        }
    }

    #[rstest]
    #[case::new(json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}}), 5, RequestPlan::Answer)]
    #[case::new_and_old(json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}}), 601, RequestPlan::Remove)]
    #[case::answered(
        json!({"status": {"downloadURL": "x", "expiration": "1970-01-01T00:10:00Z"}}),
        60,
        RequestPlan::KeepFor(Duration::from_mins(9))
    )]
    #[case::expired(
        json!({"status": {"downloadURL": "x", "expiration": "1970-01-01T00:10:00Z"}}), 600, RequestPlan::Remove
    )]
    #[case::no_expiration(json!({"status": {"downloadURL": "x"}}), 0, RequestPlan::Remove)]
    fn a_request_lives_as_long_as_its_link(
        #[case] request: Value,
        #[case] now: i64,
        #[case] expected: RequestPlan,
    ) {
        assert_eq!(plan(&request, at(now)), expected);
    }

    #[test]
    fn every_known_kind_of_file_has_an_owner() {
        for kind in DownloadTargetKind::KNOWN {
            let expected = if kind.as_str().starts_with("Restore") { Owner::Restore } else { Owner::Backup };
            assert_eq!(owner(kind), Some(expected), "{kind}");
        }
        assert_eq!(owner(&"Later".into()), None);
    }
}
