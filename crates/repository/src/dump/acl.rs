//! ACLs as text: archives contain them in the long text form of POSIX.1e, the repository in Linux's binary form.

/// The text of a Linux ACL, with numbers instead of names because the archive may be unpacked anywhere. None if it is
/// not a valid ACL.
pub(super) fn text(value: &[u8]) -> Option<String> {
    use std::fmt::Write;

    let (version, entries) = value.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != 2 || entries.len() % 8 != 0 {
        return None;
    }
    let mut text = String::new();
    for entry in entries.chunks_exact(8) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let rights = u16::from_le_bytes([entry[2], entry[3]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let (word, named) = match tag {
            0x01 => ("user", false),
            0x02 => ("user", true),
            0x04 => ("group", false),
            0x08 => ("group", true),
            0x10 => ("mask", false),
            0x20 => ("other", false),
            _ => return None,
        };
        let id = if named { id.to_string() } else { String::new() };
        let right = |bit: u16, letter: char| if rights & bit == 0 { '-' } else { letter };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{word}:{id}:{}{}{}", right(4, 'r'), right(2, 'w'), right(1, 'x'));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acls_become_the_long_text_form() {
        let mut value = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in
            [(1_u16, 7_u16, u32::MAX), (2, 5, 1000), (4, 4, u32::MAX), (16, 5, u32::MAX), (32, 0, 9)]
        {
            value.extend(tag.to_le_bytes());
            value.extend(rights.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        let expected = "user::rwx\nuser:1000:r-x\ngroup::r--\nmask::r-x\nother::---\n";
        assert_eq!(text(&value).as_deref(), Some(expected));
        assert_eq!(text(&value[..value.len() - 1]), None);
        assert_eq!(text(b"\x03\0\0\0"), None);
        assert_eq!(text(b""), None);
    }
}
