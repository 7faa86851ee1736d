//! Files with patterns or names: `--exclude-file` and similar options, `--files-from`, `--files-from-verbatim` and
//! `--files-from-raw`. Takes the content of a file, returns the list; the CLI reads the files (or its input).

use crate::error::{Error, Result};

/// The patterns of an `--exclude-file` or `--include-file`: one per line, without surrounding space, comments (`#`)
/// and empty lines. `$NAME` and `${NAME}` are replaced by the result of `variable`, `$$` by `$`.
pub fn patterns(content: &[u8], variable: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    meaningful_lines(content).iter().map(|line| expand(line, variable)).collect()
}

/// The lines of a `--files-from` file: patterns for `glob::expand`, without comments and empty lines.
pub fn meaningful_lines(content: &[u8]) -> Vec<Vec<u8>> {
    let content = decode(content);
    let lines = lines(&content).map(trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).map(<[u8]>::to_vec).collect()
}

/// The names of a `--files-from-verbatim` file: one per line, unchanged.
pub fn verbatim(content: &[u8]) -> Vec<Vec<u8>> {
    let content = decode(content);
    lines(&content).filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The names of a `--files-from-raw` file: each ends with a zero byte.
pub fn raw(content: &[u8]) -> Result<Vec<Vec<u8>>> {
    let problem = |problem: &str| Err(Error::invalid("--files-from-raw", problem));
    let Some(names) = content.strip_suffix(b"\0") else {
        return if content.is_empty() {
            Ok(Vec::new())
        } else {
            problem("the last name does not end in a zero byte")
        };
    };
    let names: Vec<_> = names.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    if names.iter().any(Vec::is_empty) { problem("it has an empty name") } else { Ok(names) }
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Removes a byte order mark, and converts from UTF-16 if the mark says so: editors on Windows write such files.
fn decode(content: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let utf16 = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, _) = rest.as_chunks::<2>();
        let units = pairs.iter().map(|pair| unit(*pair));
        let text: String =
            char::decode_utf16(units).map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        text.into_bytes().into()
    };
    match content {
        [0xef, 0xbb, 0xbf, rest @ ..] => rest.into(),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        content => content.into(),
    }
}

fn trim(line: &[u8]) -> &[u8] {
    std::str::from_utf8(line).map_or(line.trim_ascii(), |text| text.trim().as_bytes())
}

/// Expands shell variables as Go's `os.Expand` does.
fn expand(mut text: &[u8], variable: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some(at) = text.iter().position(|byte| *byte == b'$') {
        let after = &text[at + 1..];
        out.extend_from_slice(&text[..at]);
        let (name, length) = variable_name(after);
        match name {
            b"" if length == 0 => out.push(b'$'),
            b"" => {}
            b"$" => out.push(b'$'),
            name => out.extend(variable(name).unwrap_or_default()),
        }
        text = &after[length..];
    }
    out.extend_from_slice(text);
    out
}

/// The name after a `$` and how many bytes it takes; an empty name with a length is invalid syntax, which is dropped.
fn variable_name(text: &[u8]) -> (&[u8], usize) {
    let is_special = |byte: &u8| b"*#$@!?-0123456789".contains(byte);
    match text {
        [b'{', rest @ ..] => match rest.iter().position(|byte| *byte == b'}') {
            Some(end) => (&rest[..end], end + 2),
            None => (b"", 1),
        },
        [first, ..] if is_special(first) => (&text[..1], 1),
        text => {
            let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
            let length = text.iter().take_while(is_part).count();
            (&text[..length], length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(list: &[Vec<u8>]) -> Vec<&str> {
        list.iter().map(|one| std::str::from_utf8(one).unwrap()).collect()
    }

    #[test]
    fn pattern_files_have_comments_space_and_variables() {
        let variable = |name: &[u8]| (name == b"HOME").then(|| b"/root".to_vec());
        let content =
            b"\xef\xbb\xbf  *.o \r\n# no\n\n$HOME/a\n${HOME}b\n$$x\n$NONE-y\n$\n${}z\n${oops\n$1a\na # b";
        let expected = ["*.o", "/root/a", "/rootb", "$x", "-y", "$", "z", "oops", "a", "a # b"];
        assert_eq!(text(&patterns(content, &variable)), expected);
    }

    #[test]
    fn utf16_files_are_understood() {
        let little: Vec<u8> = "\u{feff}ä\nb".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "\u{feff}ä\nb".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for content in [little, big] {
            assert_eq!(text(&verbatim(&content)), ["ä", "b"]);
        }
    }

    #[test]
    fn verbatim_names_keep_their_space_and_bytes() {
        assert_eq!(verbatim(b" a \n\n#b\n\xff\n"), [b" a ".to_vec(), b"#b".to_vec(), b"\xff".to_vec()]);
        assert_eq!(meaningful_lines(b" \xff a\t\n"), [b"\xff a".to_vec()]);
    }

    #[rstest::rstest]
    #[case(b"", Some(0))]
    #[case(b"a\0b\nc\0", Some(2))]
    #[case(b"a\0b", None)]
    #[case(b"a\0\0b\0", None)]
    #[case(b"\0", None)]
    fn raw_names_end_in_a_zero_byte(#[case] content: &[u8], #[case] expected: Option<usize>) {
        assert_eq!(raw(content).ok().map(|names| names.len()), expected);
    }
}
