//! Label values: upstream's rule for names that are too long for a label value, so that both products find the same
//! objects.

use sha2::{Digest, Sha256};

/// The longest value that the API server accepts.
const MOST: usize = 63;

/// The name itself, or its first 57 characters and six hex digits of its SHA-256.
pub fn value(name: &str) -> String {
    if name.len() <= MOST {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let end = (0..=MOST - 6).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{:02x}{:02x}{:02x}", &name[..end], digest[0], digest[1], digest[2])
}

/// The name itself, or its beginning and eight hex digits of a hash where it has more than `most` bytes: for names that get a suffix.
pub fn shortened(name: &str, most: usize) -> String {
    const HASH: usize = 8;
    if name.len() <= most {
        return name.to_owned();
    }
    let end = (0..most - HASH).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    let start = name[..end].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{start}-{}", &digest(name)[..HASH])
}

/// 32 hex digits of a hash, for use as a key in place of a text of any length.
pub fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).fold(String::new(), |all, byte| format!("{all}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_a_key_of_fixed_length() {
        assert_eq!(digest("").len(), 32);
        assert_ne!(digest("a/b"), digest("a/c"));
    }

    #[test]
    fn a_shortened_name_has_room_and_stays_distinct() {
        assert_eq!(shortened("data-web-0", 20), "data-web-0");
        let (one, other) =
            (shortened("data.web.with-a-long-name-0", 20), shortened("data.web.with-a-long-name-1", 20));
        assert!(one.len() <= 20 && one.starts_with("data.web."), "{one}");
        assert_ne!(one, other);
        assert!(!one.contains(".-") && !one.contains("--"), "{one}");
    }

    #[test]
    fn short_names_stay_and_long_ones_get_a_hash() {
        assert_eq!(value("default"), "default");
        let exact = "a".repeat(63);
        assert_eq!(value(&exact), exact);
        let long = value(&"a".repeat(64));
        // echo -n aaaa…(64) | sha256sum
        assert_eq!(long, format!("{}ffe054", "a".repeat(57)));
        assert_eq!(long.len(), 63);
    }
}
