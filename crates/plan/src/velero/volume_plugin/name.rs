//! What becomes of a provider's ID as the name or a label of an object.

use crate::label;

/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// Whether an ID is a valid object name; providers' IDs often are not.
pub fn can_be_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (first, last) = (text.bytes().next(), text.bytes().last());
    text.len() <= 253
        && first.is_some_and(plain)
        && last.is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'.'))
}

/// A snapshot's ID as the value of a label: itself if it is a valid one, otherwise the first 32 hex digits of its
/// SHA-256, as in `printf %s ID | sha256sum | cut -c-32`.
pub fn snapshot_label(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    let (first, last) = (id.bytes().next(), id.bytes().last());
    let is_valid = id.len() <= LONGEST_LABEL
        && first.is_some_and(plain)
        && last.is_some_and(plain)
        && id.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'.' | b'_'));
    if is_valid { id.to_owned() } else { label::digest(id) }
}
