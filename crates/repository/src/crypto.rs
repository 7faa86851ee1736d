//! The encryption of the format: AES-256 in counter mode with a random 16-byte nonce, and Poly1305-AES over the
//! ciphertext. A sealed message consists of nonce, ciphertext and tag: 32 bytes more than its plain text. Works in
//! place, so that a blob is never copied.

use std::cell::RefCell;

use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use poly1305::Poly1305;
use poly1305::universal_hash::{KeyInit, UniversalHash};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NONCE: usize = 16;
const TAG: usize = 16;
/// The difference in length between a sealed message and its plain text.
pub const OVERHEAD: usize = NONCE + TAG;

/// How much `open_in_pieces` decrypts at a time: whole blocks, and little enough for the L1 cache.
const PIECE: usize = 32 * 1024;

thread_local! {
    static OPENED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The message was not sealed with this key, or was changed afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it was changed, or was not written with this repository's key")]
pub struct NotAuthentic;

/// The key with which a repository's content is sealed.
pub struct Key {
    cipher: EncryptingKey,
    nonce_cipher: EncryptingKey,
    material: Material,
}

/// The bytes of a key, as stored in a key file (sealed with the password's key).
#[derive(Clone, Serialize, Deserialize)]
pub struct Material {
    mac: MacMaterial,
    #[serde(with = "base64_array")]
    encrypt: [u8; 32],
}

#[derive(Clone, Serialize, Deserialize)]
struct MacMaterial {
    #[serde(with = "base64_array")]
    k: [u8; 16],
    #[serde(with = "base64_array")]
    r: [u8; 16],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Material {
    /// From 64 bytes: the encryption key, then both halves of the MAC key.
    pub fn from_bytes(bytes: &[u8; 64]) -> Self {
        let (mut encrypt, mut k, mut r) = ([0; 32], [0; 16], [0; 16]);
        encrypt.copy_from_slice(&bytes[..32]);
        k.copy_from_slice(&bytes[32..48]);
        r.copy_from_slice(&bytes[48..]);
        Self { mac: MacMaterial { k, r }, encrypt }
    }

    /// A new random key.
    pub fn random() -> Self {
        Self::from_bytes(&rand::random())
    }

    /// Whether no part is all zeros, which indicates a broken key file.
    pub fn is_valid(&self) -> bool {
        let any = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
        any(&self.encrypt) && any(&self.mac.k) && any(&self.mac.r)
    }
}

impl Key {
    pub fn new(material: Material) -> Self {
        let unbound = |algorithm, bytes| {
            UnboundCipherKey::new(algorithm, bytes).expect("the arrays have the lengths of AES keys")
        };
        let cipher = EncryptingKey::ctr(unbound(&AES_256, &material.encrypt));
        let nonce_cipher = EncryptingKey::ecb(unbound(&AES_128, &material.mac.k));
        Self {
            cipher: cipher.expect("AES-256 has a counter mode"),
            nonce_cipher: nonce_cipher.expect("AES-128 has a block mode"),
            material,
        }
    }

    /// The content of a key file.
    pub fn material(&self) -> &Material {
        &self.material
    }

    /// Appends a nonce to `buffer`; the caller appends the plain text and then calls `seal` with the value returned
    /// here.
    pub fn begin(buffer: &mut Vec<u8>) -> usize {
        let start = buffer.len();
        let mut nonce: [u8; NONCE] = rand::random();
        // restic refuses an all-zero nonce; it is as unlikely as a hash collision.
        nonce[0] |= u8::from(nonce == [0; NONCE]);
        buffer.extend_from_slice(&nonce);
        start
    }

    /// Seals everything after the nonce that `begin` put at `start`, in place, and appends the tag.
    pub fn seal(&self, buffer: &mut Vec<u8>, start: usize) {
        let (nonce, text) = buffer[start..].split_at_mut(NONCE);
        let nonce: [u8; NONCE] = (&*nonce).try_into().expect("split at the nonce's length");
        self.apply(&nonce, text);
        let tag = self.tag(&nonce, text);
        buffer.extend_from_slice(&tag);
    }

    /// A sealed copy of `plain`.
    pub fn sealed(&self, plain: &[u8]) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(plain.len() + OVERHEAD);
        let start = Self::begin(&mut buffer);
        buffer.extend_from_slice(plain);
        self.seal(&mut buffer, start);
        buffer
    }

    /// Checks and decrypts a sealed message in place; returns the part that contains the plain text.
    pub fn open<'a>(&self, sealed: &'a mut [u8]) -> Result<&'a mut [u8], NotAuthentic> {
        let length = sealed.len().checked_sub(OVERHEAD).ok_or(NotAuthentic)?;
        let (nonce, rest) = sealed.split_at_mut(NONCE);
        let (text, tag) = rest.split_at_mut(length);
        let nonce: [u8; NONCE] = (&*nonce).try_into().expect("split at the nonce's length");
        let expected = self.tag(&nonce, text);
        if aws_lc_rs::constant_time::verify_slices_are_equal(&expected, tag).is_err() {
            return Err(NotAuthentic);
        }
        self.apply(&nonce, text);
        Ok(text)
    }

    /// Checks a sealed message and passes its plain text to `take` piece by piece, without changing the message and
    /// without memory for all of it.
    pub fn open_in_pieces<E: From<NotAuthentic>>(
        &self,
        sealed: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let length = sealed.len().checked_sub(OVERHEAD).ok_or(NotAuthentic)?;
        let (nonce, rest) = sealed.split_at(NONCE);
        let (text, tag) = rest.split_at(length);
        let nonce: [u8; NONCE] = nonce.try_into().expect("split at the nonce's length");
        let expected = self.tag(&nonce, text);
        aws_lc_rs::constant_time::verify_slices_are_equal(&expected, tag).map_err(|_| NotAuthentic)?;
        let mut counter = u128::from_be_bytes(nonce);
        OPENED.with_borrow_mut(|piece| {
            for part in text.chunks(PIECE) {
                piece.clear();
                piece.extend_from_slice(part);
                self.apply(&counter.to_be_bytes(), piece);
                take(piece)?;
                counter = counter.wrapping_add((PIECE / 16) as u128);
            }
            Ok(())
        })
    }

    /// Counter mode is its own inverse.
    fn apply(&self, nonce: &[u8; NONCE], text: &mut [u8]) {
        if text.is_empty() {
            return;
        }
        let context = EncryptionContext::Iv128(FixedLength::from(nonce));
        self.cipher.less_safe_encrypt(text, context).expect("counter mode takes any length");
    }

    fn tag(&self, nonce: &[u8; NONCE], text: &[u8]) -> [u8; TAG] {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.material.mac.r);
        let mut block = *nonce;
        self.nonce_cipher.encrypt(&mut block).expect("one block is what the block mode takes");
        key[16..].copy_from_slice(&block);
        let mut mac = Poly1305::new(&key.into());
        let (blocks, rest) = poly1305::Block::slice_as_chunks(text);
        mac.update(blocks);
        mac.compute_unpadded(rest).into()
    }
}

/// Byte arrays of fixed length as base64 text.
mod base64_array {
    use super::{Deserialize, Deserializer, Engine, STANDARD, Serializer};

    pub(super) fn serialize<S: Serializer, const N: usize>(
        bytes: &[u8; N],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D, const N: usize>(from: D) -> Result<[u8; N], D::Error>
    where
        D: Deserializer<'de>,
    {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        let bytes = STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom)?;
        bytes.try_into().map_err(|_| serde::de::Error::custom(format!("expected {N} bytes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::new(Material::from_bytes(&std::array::from_fn(|position| u8::try_from(position).unwrap() + 1)))
    }

    /// Sealed by Go's crypto packages with the key of `key()` and the nonce 0, 1, … 15.
    #[test]
    fn a_message_sealed_by_go_opens() {
        let mut sealed: Vec<u8> = (0..16).collect();
        sealed.extend_from_slice(GO_CIPHERTEXT);
        assert_eq!(key().open(&mut sealed).unwrap(), b"lifeboat opens what others sealed");
    }

    const GO_CIPHERTEXT: &[u8] = include_bytes!("crypto/go_sealed.bin");

    proptest! {
        #[test]
        fn any_message_comes_back_and_any_change_is_found(plain: Vec<u8>, at: prop::sample::Index, flip in 1_u8..) {
            let key = key();
            let mut sealed = key.sealed(&plain);
            prop_assert_eq!(sealed.len(), plain.len() + OVERHEAD);
            let mut copy = sealed.clone();
            prop_assert_eq!(&*key.open(&mut copy).unwrap(), &plain[..]);
            let at = at.index(sealed.len());
            sealed[at] ^= flip;
            prop_assert_eq!(key.open(&mut sealed).map(|_| ()), Err(NotAuthentic));
            let untaken = |_: &[u8]| -> Result<(), NotAuthentic> { unreachable!("it is not authentic") };
            prop_assert_eq!(key.open_in_pieces(&sealed, untaken), Err(NotAuthentic));
        }

        #[test]
        fn pieces_make_up_the_message(length in 0..3 * PIECE) {
            let plain: Vec<u8> = (0..=250).cycle().take(length).collect();
            let mut pieces = Vec::new();
            let take = |piece: &[u8]| -> Result<(), NotAuthentic> {
                pieces.extend_from_slice(piece);
                Ok(())
            };
            key().open_in_pieces(&key().sealed(&plain), take).unwrap();
            prop_assert_eq!(pieces, plain);
        }
    }

    #[test]
    fn cut_messages_are_refused() {
        let sealed = key().sealed(b"text");
        for length in 0..sealed.len() {
            assert!(key().open(&mut sealed[..length].to_vec()).is_err());
        }
    }
}
