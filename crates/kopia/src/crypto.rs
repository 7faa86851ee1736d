//! The keyed hashes and ciphers that kopia offers. A content is identified by the keyed hash of its bytes, and sealed
//! with a key derived from the master key and the end of that hash.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac, pbkdf2};
use hmac_generic::{KeyInit, Mac, SimpleHmac};
use secrecy::{ExposeSecret, SecretSlice};

use crate::error::{Error, Result};

/// The longest hash.
pub(crate) const LONGEST_HASH: usize = 32;
/// The bytes at the end of a hash that a content's key is derived from.
pub(crate) const IV: usize = 16;
pub(crate) const NONCE: usize = 12;
/// What sealing adds: nonce and tag.
pub(crate) const OVERHEAD: u32 = 28;

/// A keyed hash, whose key is the repository's.
#[derive(Clone)]
pub(crate) struct Hasher {
    algorithm: HashAlgorithm,
    length: usize,
}

#[derive(Clone)]
enum HashAlgorithm {
    Blake2b(Box<blake2b_simd::Params>),
    Blake2s(Box<blake2s_simd::Params>),
    Blake3(Box<[u8; 32]>),
    Sha2(Box<hmac::Key>),
    Sha3x224(Box<SimpleHmac<sha3::Sha3_224>>),
    Sha3x256(Box<SimpleHmac<sha3::Sha3_256>>),
}

/// The names of all hashes.
pub const HASHES: [&str; 11] = [
    "BLAKE2B-256",
    "BLAKE2B-256-128",
    "BLAKE2S-128",
    "BLAKE2S-256",
    "BLAKE3-256",
    "BLAKE3-256-128",
    "HMAC-SHA224",
    "HMAC-SHA256",
    "HMAC-SHA256-128",
    "HMAC-SHA3-224",
    "HMAC-SHA3-256",
];

impl Hasher {
    /// The hash that a format names, with the repository's secret.
    pub(crate) fn new(name: &str, secret: &SecretSlice<u8>) -> Result<Self> {
        let key = secret.expose_secret();
        if key.is_empty() {
            return Err(Error::damaged("the repository's format", "its hash has no key"));
        }
        let unusable = || Error::damaged("the repository's format", format!("its key does not fit {name}"));
        let (algorithm, length) = match name {
            "BLAKE2B-256-128" | "BLAKE2B-256" => {
                let key = Some(key).filter(|key| key.len() <= blake2b_simd::KEYBYTES).ok_or_else(unusable)?;
                let mut params = blake2b_simd::Params::new();
                params.hash_length(32).key(key);
                (HashAlgorithm::Blake2b(Box::new(params)), if name == "BLAKE2B-256" { 32 } else { 16 })
            }
            "BLAKE2S-128" | "BLAKE2S-256" => {
                let key = Some(key).filter(|key| key.len() <= blake2s_simd::KEYBYTES).ok_or_else(unusable)?;
                let length = if name == "BLAKE2S-128" { 16 } else { 32 };
                let mut params = blake2s_simd::Params::new();
                params.hash_length(length).key(key);
                (HashAlgorithm::Blake2s(Box::new(params)), length)
            }
            "BLAKE3-256" | "BLAKE3-256-128" => {
                let stretched;
                let key = if key.len() < 32 {
                    stretched = blake3::derive_key("kopia blake3 derived key v1", key);
                    stretched.as_slice()
                } else {
                    &key[..32]
                };
                let key: [u8; 32] = key.try_into().map_err(|_| unusable())?;
                (HashAlgorithm::Blake3(Box::new(key)), if name == "BLAKE3-256" { 32 } else { 16 })
            }
            "HMAC-SHA256" => (HashAlgorithm::Sha2(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key))), 32),
            "HMAC-SHA256-128" => (HashAlgorithm::Sha2(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key))), 16),
            "HMAC-SHA224" => (HashAlgorithm::Sha2(Box::new(hmac::Key::new(hmac::HMAC_SHA224, key))), 28),
            "HMAC-SHA3-224" => {
                let mac = SimpleHmac::new_from_slice(key).map_err(|_| unusable())?;
                (HashAlgorithm::Sha3x224(Box::new(mac)), 28)
            }
            "HMAC-SHA3-256" => {
                let mac = SimpleHmac::new_from_slice(key).map_err(|_| unusable())?;
                (HashAlgorithm::Sha3x256(Box::new(mac)), 32)
            }
            other => return Err(Error::unsupported("a hash", format!("'{other}'"))),
        };
        Ok(Self { algorithm, length })
    }

    /// The length of hashes in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Whether `bytes` have this hash.
    pub(crate) fn matches(&self, bytes: &[u8], hash: &[u8]) -> bool {
        let (computed, length) = self.hash(bytes);
        computed[..length] == *hash
    }

    /// Whether the hash of `bytes` ends with these.
    pub(crate) fn ends_with(&self, bytes: &[u8], end: &[u8]) -> bool {
        let (computed, length) = self.hash(bytes);
        computed[..length].ends_with(end)
    }

    /// The hash, and how many bytes of it count.
    pub(crate) fn hash(&self, bytes: &[u8]) -> ([u8; LONGEST_HASH], usize) {
        let mut out = [0; LONGEST_HASH];
        let mut keep = |hash: &[u8]| {
            let length = hash.len().min(LONGEST_HASH);
            out[..length].copy_from_slice(&hash[..length]);
        };
        match &self.algorithm {
            HashAlgorithm::Blake2b(params) => keep(params.hash(bytes).as_bytes()),
            HashAlgorithm::Blake2s(params) => keep(params.hash(bytes).as_bytes()),
            HashAlgorithm::Blake3(key) => keep(blake3::keyed_hash(key, bytes).as_bytes()),
            HashAlgorithm::Sha2(key) => keep(hmac::sign(key, bytes).as_ref()),
            HashAlgorithm::Sha3x224(mac) => {
                let mut mac = mac.clone();
                mac.update(bytes);
                keep(mac.finalize().as_bytes());
            }
            HashAlgorithm::Sha3x256(mac) => {
                let mut mac = mac.clone();
                mac.update(bytes);
                keep(mac.finalize().as_bytes());
            }
        }
        (out, self.length)
    }
}

/// The names of all ciphers.
pub const CIPHERS: [&str; 2] = ["AES256-GCM-HMAC-SHA256", "CHACHA20-POLY1305-HMAC-SHA256"];

/// A cipher with the key that all others are derived from.
#[derive(Clone)]
pub(crate) struct Cipher {
    algorithm: &'static aws_lc_rs::aead::Algorithm,
    keys: hmac::Key,
}

impl Cipher {
    /// The cipher that a format names, with the repository's master key.
    pub(crate) fn new(name: &str, master_key: &SecretSlice<u8>) -> Result<Self> {
        let algorithm = match name {
            "AES256-GCM-HMAC-SHA256" => &AES_256_GCM,
            "CHACHA20-POLY1305-HMAC-SHA256" => &CHACHA20_POLY1305,
            other => return Err(Error::unsupported("an encryption", format!("'{other}'"))),
        };
        if master_key.expose_secret().len() < 32 {
            return Err(Error::damaged("the repository's format", "its master key is too short"));
        }
        let derived = derive(master_key.expose_secret(), b"encryption", b"");
        Ok(Self { algorithm, keys: hmac::Key::new(hmac::HMAC_SHA256, &derived) })
    }

    /// Opens sealed bytes in place and returns the plain ones, or None if the tag does not match.
    pub(crate) fn open<'a>(&self, iv: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let key = hmac::sign(&self.keys, iv);
        open(self.algorithm, key.as_ref(), iv, sealed)
    }

    #[cfg(test)]
    pub(crate) fn seal(&self, iv: &[u8], plain: &[u8]) -> Vec<u8> {
        let key = hmac::sign(&self.keys, iv);
        let key = LessSafeKey::new(UnboundKey::new(self.algorithm, key.as_ref()).unwrap());
        let mut sealed = plain.to_vec();
        let nonce = Nonce::assume_unique_for_key([7; NONCE]);
        key.seal_in_place_append_tag(nonce, Aad::from(iv), &mut sealed).unwrap();
        [vec![7; NONCE], sealed].concat()
    }
}

fn open<'a>(
    algorithm: &'static aws_lc_rs::aead::Algorithm,
    key: &[u8],
    additional: &[u8],
    sealed: &'a mut [u8],
) -> Option<&'a mut [u8]> {
    let (nonce, rest) = sealed.split_at_mut_checked(NONCE)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
    key.open_in_place(nonce, Aad::from(additional), rest).ok()
}

/// HKDF-SHA256 to 32 bytes.
fn derive(key: &[u8], salt: &[u8], info: &[u8]) -> [u8; 32] {
    let mut derived = [0; 32];
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(key);
    secret
        .expand(&[info], hkdf::HKDF_SHA256)
        .and_then(|key| key.fill(&mut derived))
        .expect("32 bytes are less than HKDF's limit");
    derived
}

/// The names of all functions that derive a key from the password.
pub const KEY_DERIVATIONS: [&str; 2] = ["scrypt-65536-8-1", "pbkdf2-sha256-600000"];
const ITERATIONS: std::num::NonZeroU32 = std::num::NonZeroU32::new(600_000).expect("not zero");

/// The key of the format blob. Takes some tenths of a second, and 64 MiB with scrypt. The parameters are part of the
/// function's name, so the repository cannot demand more.
pub(crate) fn format_key(function: &str, password: &str, salt: &[u8]) -> Result<SecretSlice<u8>> {
    let mut key = vec![0; 32];
    match function {
        "scrypt-65536-8-1" => {
            let params = scrypt::Params::new(16, 8, 1).expect("these parameters are valid");
            scrypt::scrypt(password.as_bytes(), salt, &params, &mut key).expect("32 bytes are valid");
        }
        "pbkdf2-sha256-600000" => {
            pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, salt, password.as_bytes(), &mut key);
        }
        other => return Err(Error::unsupported("a key derivation", format!("'{other}'"))),
    }
    Ok(SecretSlice::from(key))
}

/// Opens the inner part of the format blob with the key derived from the password.
pub(crate) fn open_format(
    key: &SecretSlice<u8>,
    salt: &[u8],
    mut sealed: Vec<u8>,
) -> Option<SecretSlice<u8>> {
    let cipher_key = derive(key.expose_secret(), salt, b"AES");
    let additional = derive(key.expose_secret(), salt, b"CHECKSUM");
    let plain = open(&AES_256_GCM, &cipher_key, &additional, &mut sealed)?.to_vec();
    Some(SecretSlice::from(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretSlice<u8> {
        SecretSlice::from(text.as_bytes().to_vec())
    }

    #[test]
    fn every_hash_has_the_length_in_its_name() {
        for name in HASHES {
            let hasher = Hasher::new(name, &secret("0123456789012345678901234567890a")).unwrap();
            let bits: usize = name.rsplit('-').next().unwrap().trim_start_matches("SHA").parse().unwrap();
            assert_eq!(hasher.length() * 8, bits, "{name}");
            let (hash, length) = hasher.hash(b"abc");
            assert!(hasher.matches(b"abc", &hash[..length]));
            assert!(!hasher.matches(b"abd", &hash[..length]));
            assert!(!hasher.matches(b"abc", &hash[..length - 1]));
        }
    }

    #[test]
    fn what_is_sealed_opens_with_its_own_iv_only() {
        for name in CIPHERS {
            let cipher = Cipher::new(name, &secret("0123456789012345678901234567890a")).unwrap();
            let sealed = cipher.seal(&[1; IV], b"plain");
            assert_eq!(sealed.len(), 5 + OVERHEAD as usize);
            assert_eq!(cipher.open(&[1; IV], &mut sealed.clone()).unwrap(), b"plain");
            assert!(cipher.open(&[2; IV], &mut sealed.clone()).is_none());
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert!(cipher.open(&[1; IV], &mut changed).is_none(), "byte {at}");
                assert!(cipher.open(&[1; IV], &mut sealed[..at].to_vec()).is_none(), "cut at {at}");
            }
        }
    }

    #[test]
    fn unknown_names_are_refused_by_name() {
        let key = secret("0123456789012345678901234567890a");
        let text = |error: Error| error.to_string();
        assert!(text(Hasher::new("SHA4", &key).err().unwrap()).contains("'SHA4'"));
        assert!(text(Cipher::new("ROT13", &key).err().unwrap()).contains("'ROT13'"));
        assert!(text(format_key("scrypt-2-2-2", "", b"").err().unwrap()).contains("'scrypt-2-2-2'"));
    }
}
