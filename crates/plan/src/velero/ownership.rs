//! Proofs that this installation made a snapshot, or set a date. They are written beside what they prove,
//! into files of the bucket: a user with write access to the bucket can copy them, but not make new ones.
//! Called before a list is written, and before something is deleted that only a bucket names.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

/// The annotation of a stored Backup that proves its `status.expiration`.
pub const EXPIRATION_PROOF: &str = "lifeboat.io/expiration-proof";

/// The annotation of a synced Backup whose `status.expiration` nothing proves: it does not expire by itself.
/// A user who removes the annotation confirms the date.
pub const EXPIRATION_UNPROVEN: &str = "lifeboat.io/expiration-unproven";

/// What is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned<'a> {
    /// A snapshot that a volume snapshotter took.
    Native {
        location: &'a str,
        id: &'a str,
    },
    Csi {
        driver: &'a str,
        handle: &'a str,
    },
    /// `status.expiration` of the backup.
    Expiration(&'a str),
}

/// The backup that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerId<'a> {
    pub backup: &'a str,
    pub uid: &'a str,
}

/// The keys of this installation, derived from its repository passwords.
#[derive(Clone, Default)]
pub struct OwnershipKeys {
    /// The one that signs comes first.
    keys: Vec<[u8; 32]>,
}

impl std::fmt::Debug for OwnershipKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnershipKeys({})", self.keys.len())
    }
}

impl OwnershipKeys {
    pub fn new(keys: Vec<[u8; 32]>) -> Self {
        Self { keys }
    }

    /// None if the installation has no password of its own.
    pub fn proof(&self, owner: OwnerId<'_>, what: Owned<'_>) -> Option<String> {
        let bytes = mac(self.keys.first()?, owner, what).finalize().into_bytes();
        Some(bytes.iter().fold(String::with_capacity(64), |mut digits, byte| {
            // Writing to a String cannot fail.
            let _ = write!(digits, "{byte:02x}");
            digits
        }))
    }

    /// Compared in constant time.
    pub fn proves(&self, proof: &str, owner: OwnerId<'_>, what: Owned<'_>) -> bool {
        let Some(proof) = bytes_of(proof) else { return false };
        !owner.uid.is_empty()
            && self.keys.iter().any(|key| mac(key, owner, what).verify_slice(&proof).is_ok())
    }

    /// Whether a stored Backup proves its own expiration.
    pub fn prove_expiration(&self, backup: &Value) -> bool {
        let text = |path: &str| backup.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let owner = OwnerId { backup: text("/metadata/name"), uid: text("/metadata/uid") };
        let proof = text("/metadata/annotations/lifeboat.io~1expiration-proof");
        self.proves(proof, owner, Owned::Expiration(text("/status/expiration")))
    }
}

fn mac(key: &[u8; 32], owner: OwnerId<'_>, what: Owned<'_>) -> Hmac<Sha256> {
    let said = match what {
        Owned::Native { location, id } => json!(["native", location, id]),
        Owned::Csi { driver, handle } => json!(["csi", driver, handle]),
        Owned::Expiration(date) => json!(["expiration", date]),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(b"lifeboat ownership 1\0");
    mac.update(json!([owner.backup, owner.uid, said]).to_string().as_bytes());
    mac
}

fn bytes_of(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const OWNER: OwnerId<'_> = OwnerId { backup: "nightly", uid: "u" };
    const SNAPSHOT: Owned<'_> = Owned::Native { location: "cloud", id: "snap-1" };

    #[rstest]
    #[case::itself(OWNER, SNAPSHOT, true)]
    #[case::another_backup(OwnerId { backup: "evil", ..OWNER }, SNAPSHOT, false)]
    #[case::another_object_of_the_name(OwnerId { uid: "v", ..OWNER }, SNAPSHOT, false)]
    #[case::another_snapshot(OWNER, Owned::Native { location: "cloud", id: "snap-2" }, false)]
    #[case::another_location(OWNER, Owned::Native { location: "other", id: "snap-1" }, false)]
    #[case::of_a_driver(OWNER, Owned::Csi { driver: "cloud", handle: "snap-1" }, false)]
    fn a_proof_is_for_one_thing_of_one_backup(
        #[case] owner: OwnerId<'_>,
        #[case] owned: Owned<'_>,
        #[case] holds: bool,
    ) {
        let keys = OwnershipKeys::new(vec![[7; 32]]);
        let proof = keys.proof(OWNER, SNAPSHOT).unwrap();
        assert_eq!(keys.proves(&proof, owner, owned), holds);
        assert!(!OwnershipKeys::new(vec![[8; 32]]).proves(&proof, owner, owned), "of another installation");
        let changed = OwnershipKeys::new(vec![[8; 32], [7; 32]]);
        assert_eq!(changed.proves(&proof, owner, owned), holds, "an earlier password proves, too");
    }

    #[rstest]
    #[case("")]
    #[case("zz")]
    #[case(&"é".repeat(32))]
    #[case(&"0".repeat(64))]
    fn other_texts_prove_nothing(#[case] proof: &str) {
        assert!(!OwnershipKeys::new(vec![[7; 32]]).proves(proof, OWNER, SNAPSHOT));
        assert_eq!(OwnershipKeys::default().proof(OWNER, SNAPSHOT), None);
    }
}
