//! Cuts a template into texts and actions, and an action into tokens.

use super::TemplateError;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// What is between the braces, without the marks that trim blanks.
    Action(&'a str),
}

/// A token of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// `.` or `.A.B`.
    Field(String),
    Word(String),
    Text(String),
    Number(i64),
    Open,
    Close,
}

/// Cuts a template. `{{- ` removes blanks before the action, ` -}}` those after it.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut trim = false;
    while let Some(start) = rest.find("{{") {
        let at = text.len() - rest.len() + start;
        let mut before = if trim { rest[..start].trim_start() } else { &rest[..start] };
        let action = &rest[start + 2..];
        let length = closing(action).ok_or(TemplateError::Unclosed { at })?;
        rest = &action[length + 2..];
        let mut action = &action[..length];
        if let Some(inner) = action.strip_prefix('-').filter(|inner| inner.starts_with(is_blank)) {
            (action, before) = (inner, before.trim_end());
        }
        let after = action.strip_suffix('-').filter(|inner| inner.ends_with(is_blank));
        trim = after.is_some();
        pieces.push(Piece::Text(before));
        pieces.push(Piece::Action(after.unwrap_or(action)));
    }
    pieces.push(Piece::Text(if trim { rest.trim_start() } else { rest }));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

/// The position of the braces that close an action: the first that are not in a text.
fn closing(action: &str) -> Option<usize> {
    let bytes = action.as_bytes();
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(b'"'), b'\\') => at += 1,
            (Some(open), byte) if open == byte => quote = None,
            (None, byte @ (b'"' | b'`')) => quote = Some(byte),
            (None, b'}') if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// Cuts an action into tokens.
pub(super) fn tokens(action: &str) -> Result<Vec<Token>, TemplateError> {
    let mut tokens = Vec::new();
    let mut rest = action.trim_matches(is_blank);
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '(' => (Token::Open, &rest[1..]),
            ')' => (Token::Close, &rest[1..]),
            '"' => quoted(rest)?,
            '`' => raw(rest)?,
            '.' | '-' | '0'..='9' | 'a'..='z' | 'A'..='Z' | '_' => word(rest)?,
            _ => return Err(TemplateError::Unsupported { what: one_word(rest).to_owned() }),
        };
        tokens.push(token);
        rest = after.trim_start_matches(is_blank);
    }
    Ok(tokens)
}

/// The text up to the next blank.
fn one_word(text: &str) -> &str {
    text.split(is_blank).next().unwrap_or_default()
}

fn word(text: &str) -> Result<(Token, &str), TemplateError> {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let end = text.find(|c: char| !is_inside(c)).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    let token = match word.chars().next() {
        Some('.') => Token::Field(word.to_owned()),
        Some('-' | '0'..='9') => {
            let number = word.parse().map_err(|_| TemplateError::Unsupported { what: word.to_owned() })?;
            Token::Number(number)
        }
        _ => Token::Word(word.to_owned()),
    };
    Ok((token, after))
}

fn raw(text: &str) -> Result<(Token, &str), TemplateError> {
    let (inner, after) =
        text[1..].split_once('`').ok_or_else(|| TemplateError::Text { text: text.to_owned() })?;
    Ok((Token::Text(inner.to_owned()), after))
}

fn quoted(text: &str) -> Result<(Token, &str), TemplateError> {
    let mut read = String::new();
    let mut letters = text[1..].char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((Token::Text(read), &text[at + 2..])),
            '\\' => read.push(escaped(letters.next().map(|(_, letter)| letter), text)?),
            letter => read.push(letter),
        }
    }
    Err(TemplateError::Text { text: text.to_owned() })
}

fn escaped(letter: Option<char>, text: &str) -> Result<char, TemplateError> {
    match letter {
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some('r') => Ok('\r'),
        Some(letter @ ('"' | '\\')) => Ok(letter),
        Some(letter) => Err(TemplateError::Unsupported { what: format!("\\{letter}") }),
        None => Err(TemplateError::Text { text: text.to_owned() }),
    }
}
