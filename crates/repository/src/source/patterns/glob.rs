//! One component of a pattern: `*`, `?`, `[a-z]`, `[^a-z]` and `\` as in Go's `filepath.Match`, on bytes that are
//! usually UTF-8.

/// A parsed component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    /// The parts between the stars; a star precedes each except the first.
    chunks: Vec<Vec<Token>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    AnyCharacter,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// `None` if it is malformed: an unterminated class, or a trailing `\`.
    pub(crate) fn parse(mut pattern: &[u8]) -> Option<Self> {
        let mut chunks = vec![Vec::new()];
        while let [first, rest @ ..] = pattern {
            pattern = rest;
            let token = match first {
                b'*' => {
                    // Several stars in a row mean the same as one.
                    if chunks.len() == 1 || chunks.last().is_some_and(|chunk| !chunk.is_empty()) {
                        chunks.push(Vec::new());
                    }
                    continue;
                }
                b'?' => Token::AnyCharacter,
                b'[' => class(&mut pattern)?,
                b'\\' => Token::Byte(*pattern.split_off_first()?),
                byte => Token::Byte(*byte),
            };
            chunks.last_mut()?.push(token);
        }
        Some(Self { chunks })
    }

    /// Whether the whole name matches.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let Some((first, starred)) = self.chunks.split_first() else {
            return name.is_empty();
        };
        let Some(mut rest) = match_chunk(first, name) else {
            return false;
        };
        let Some((last, middle)) = starred.split_last() else {
            return rest.is_empty();
        };
        for chunk in middle {
            let found = (0..=rest.len()).find_map(|skipped| match_chunk(chunk, &rest[skipped..]));
            match found {
                Some(after) => rest = after,
                None => return false,
            }
        }
        last.is_empty()
            || (0..=rest.len()).any(|skipped| match_chunk(last, &rest[skipped..]) == Some(&[][..]))
    }
}

/// The rest of `name` after the tokens; `None` if they do not match its start.
fn match_chunk<'a>(tokens: &[Token], mut name: &'a [u8]) -> Option<&'a [u8]> {
    for token in tokens {
        name = match token {
            Token::Byte(byte) => name.strip_prefix(std::slice::from_ref(byte))?,
            Token::AnyCharacter => character(name)?.1,
            Token::Class { negated, ranges } => {
                let (character, rest) = character(name)?;
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                (inside != *negated).then_some(rest)?
            }
        };
    }
    Some(name)
}

/// The ranges of a class up to its `]`.
fn class(pattern: &mut &[u8]) -> Option<Token> {
    let negated = pattern.first() == Some(&b'^');
    if negated {
        pattern.split_off_first();
    }
    let mut ranges = Vec::new();
    while ranges.is_empty() || pattern.first() != Some(&b']') {
        let low = class_character(pattern)?;
        let is_range = pattern.first() == Some(&b'-');
        if is_range {
            pattern.split_off_first();
        }
        ranges.push((low, if is_range { class_character(pattern)? } else { low }));
    }
    pattern.split_off_first();
    Some(Token::Class { negated, ranges })
}

fn class_character(pattern: &mut &[u8]) -> Option<char> {
    match pattern.first()? {
        b'-' | b']' => return None,
        b'\\' => {
            pattern.split_off_first();
        }
        _ => {}
    }
    let (found, rest) = character(pattern)?;
    let is_text = found != char::REPLACEMENT_CHARACTER || pattern.len() - rest.len() > 1;
    *pattern = rest;
    (is_text && !rest.is_empty()).then_some(found)
}

/// The first character; an invalid UTF-8 byte counts as one unknown character.
fn character(text: &[u8]) -> Option<(char, &[u8])> {
    let longest = &text[..text.len().min(4)];
    let valid = longest.utf8_chunks().next()?.valid();
    Some(match valid.chars().next() {
        Some(first) => (first, &text[first.len_utf8()..]),
        None => (char::REPLACEMENT_CHARACTER, &text[1..]),
    })
}
