//! Checks whether a provider's ID is a valid object name.

/// Whether an ID is a valid object name; providers' IDs often are not.
pub fn can_be_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (first, last) = (text.bytes().next(), text.bytes().last());
    text.len() <= 253
        && first.is_some_and(plain)
        && last.is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'.'))
}
