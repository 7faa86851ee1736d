//! Go's `strconv.Quote` without its quotation marks: restic's encoding in JSON for file names that are not UTF-8.

/// Appends `name` quoted: valid text unchanged, except control characters, `"` and `\`; other bytes as `\x..`.
pub(super) fn quote(name: &[u8], out: &mut String) {
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            quote_char(character, out);
        }
        for byte in chunk.invalid() {
            hex(u32::from(*byte), 2, 'x', out);
        }
    }
}

fn quote_char(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        '\0'..='\x1f' | '\x7f' => hex(character.into(), 2, 'x', out),
        character if is_printable(character) => out.push(character),
        character if u32::from(character) < 0x1_0000 => hex(character.into(), 4, 'u', out),
        character => hex(character.into(), 8, 'U', out),
    }
}

/// Go's `strconv.IsPrint` for the non-ASCII characters that occur in names: all except control and format characters,
/// spaces other than the ASCII one, and private use. A difference costs a duplicate tree, never a wrong name.
fn is_printable(character: char) -> bool {
    !matches!(character,
        '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{61c}' | '\u{1680}' | '\u{180e}' | '\u{2000}'..='\u{200f}'
        | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}' | '\u{e0000}'..='\u{10ffff}')
}

fn hex(value: u32, digits: usize, letter: char, out: &mut String) {
    out.push('\\');
    out.push(letter);
    for position in (0..digits).rev() {
        out.push(char::from_digit((value >> (4 * position)) & 15, 16).unwrap_or('0'));
    }
}

/// Parses the output of `quote` and of Go; `None` for anything else.
pub(super) fn unquote(text: &str) -> Option<Vec<u8>> {
    if !text.contains('\\') {
        return Some(text.as_bytes().to_vec());
    }
    let mut name = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            push(character, &mut name);
            continue;
        }
        match characters.next()? {
            'a' => name.push(7),
            'b' => name.push(8),
            'f' => name.push(12),
            'n' => name.push(b'\n'),
            'r' => name.push(b'\r'),
            't' => name.push(b'\t'),
            'v' => name.push(11),
            same @ ('\\' | '"' | '\'') => push(same, &mut name),
            'x' => name.push(u8::try_from(number(&mut characters, 2, 16)?).ok()?),
            'u' => push(char::from_u32(number(&mut characters, 4, 16)?)?, &mut name),
            'U' => push(char::from_u32(number(&mut characters, 8, 16)?)?, &mut name),
            first @ '0'..='7' => {
                let rest = number(&mut characters, 2, 8)?;
                name.push(u8::try_from(first.to_digit(8)? * 64 + rest).ok()?);
            }
            _ => return None,
        }
    }
    Some(name)
}

fn push(character: char, name: &mut Vec<u8>) {
    name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn number(characters: &mut std::str::Chars<'_>, digits: usize, radix: u32) -> Option<u32> {
    (0..digits).try_fold(0_u32, |sum, _| Some(sum * radix + characters.next()?.to_digit(radix)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rstest::rstest]
    #[case(b"plain.txt", "plain.txt")]
    #[case(b"a\"b\\c", "a\\\"b\\\\c")]
    #[case(b"tab\tline\n\x01\x7f", "tab\\tline\\n\\x01\\x7f")]
    #[case("grüße 文".as_bytes(), "grüße 文")]
    #[case(b"\xff\xfe", "\\xff\\xfe")]
    #[case("\u{200b}\u{1f600}\u{f0000}".as_bytes(), "\\u200b\u{1f600}\\U000f0000")]
    fn names_are_quoted_as_go_does(#[case] name: &[u8], #[case] quoted: &str) {
        let mut out = String::new();
        quote(name, &mut out);
        assert_eq!(out, quoted);
        assert_eq!(unquote(quoted).unwrap(), name);
    }

    #[rstest::rstest]
    #[case("\\")]
    #[case("\\q")]
    #[case("\\x1")]
    #[case("\\ud800")]
    #[case("\\777")]
    fn what_go_would_not_write_is_refused(#[case] text: &str) {
        assert_eq!(unquote(text), None);
    }

    proptest! {
        #[test]
        fn any_name_comes_back(name: Vec<u8>) {
            let mut out = String::new();
            quote(&name, &mut out);
            prop_assert_eq!(unquote(&out).unwrap(), name);
        }
    }
}
