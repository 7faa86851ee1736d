//! Names that a provider gives, as names of objects.

/// A name that an object can have; a provider's names are often none.
pub fn can_be_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (first, last) = (text.bytes().next(), text.bytes().last());
    text.len() <= 253
        && first.is_some_and(plain)
        && last.is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'.'))
}
