//! Wildcards in names, with upstream's syntax: `*` for any run of characters, `?` for one, `[abc]`, `[a-z]`,
//! `[!a-c]`. Matching takes time proportional to pattern and text, because patterns come from users.

/// A validated pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Exactly(char),
    One,
    Any,
    Among { ranges: Vec<(char, char)>, not: bool },
}

/// Why a text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    #[error("the `[` in {0:?} is not closed; write `[abc]`, or `?` for any one character")]
    Open(String),
    #[error("the `[]` in {0:?} names no character")]
    Empty(String),
}

impl Glob {
    pub fn new(text: &str) -> Result<Self, GlobError> {
        let mut parts = Vec::new();
        let mut rest = text.chars();
        while let Some(letter) = rest.next() {
            parts.push(match letter {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => among(&mut rest, text)?,
                other => Part::Exactly(other),
            });
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// Whether `text` contains wildcards.
    pub fn is_pattern(text: &str) -> bool {
        text.contains(['*', '?', '['])
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, name: &str) -> bool {
        let letters: Vec<char> = name.chars().collect();
        let (mut part, mut letter) = (0, 0);
        // Where matching continues when the last `*` has to take one more character.
        let mut again: Option<(usize, usize)> = None;
        while letter < letters.len() {
            match self.parts.get(part) {
                Some(Part::Any) => {
                    again = Some((part, letter));
                    part += 1;
                    continue;
                }
                Some(single) if single.takes(letters[letter]) => {
                    part += 1;
                    letter += 1;
                    continue;
                }
                _ => {}
            }
            let Some((star, taken)) = again else { return false };
            again = Some((star, taken + 1));
            part = star + 1;
            letter = taken + 1;
        }
        self.parts[part..].iter().all(|rest| *rest == Part::Any)
    }
}

impl Part {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Exactly(wanted) => *wanted == letter,
            Self::One | Self::Any => true,
            Self::Among { ranges, not } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&letter)) != *not
            }
        }
    }
}

/// Parses a character class: the text after `[`, up to its `]`.
fn among(rest: &mut std::str::Chars<'_>, text: &str) -> Result<Part, GlobError> {
    let open = || GlobError::Open(text.to_owned());
    let not = rest.as_str().starts_with(['!', '^']);
    if not {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        let low = rest.next().ok_or_else(open)?;
        if low == ']' {
            break;
        }
        let mut ahead = rest.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) if high != ']' => {
                *rest = ahead;
                high
            }
            _ => low,
        };
        ranges.push((low, high));
    }
    if ranges.is_empty() {
        return Err(GlobError::Empty(text.to_owned()));
    }
    Ok(Part::Among { ranges, not })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::exact("shop", "shop", true)]
    #[case::exact_is_whole("shop", "shops", false)]
    #[case::all("*", "", true)]
    #[case::head("shop-*", "shop-1", true)]
    #[case::tail("*-db", "shop-db", true)]
    #[case::middle("a*c*e", "abcde", true)]
    #[case::stars_take_as_much_as_needed("a*bc", "abcbc", true)]
    #[case::one("web-?", "web-1", true)]
    #[case::one_is_not_none("web-?", "web-", false)]
    #[case::among("web-[ab]", "web-b", true)]
    #[case::range("web-[0-3]", "web-4", false)]
    #[case::not_among("web-[!ab]", "web-c", true)]
    #[case::no_match("a*d", "abc", false)]
    fn a_pattern_matches_whole_names(#[case] pattern: &str, #[case] name: &str, #[case] expected: bool) {
        assert_eq!(Glob::new(pattern).unwrap().matches(name), expected);
    }

    #[rstest]
    #[case("web-[", GlobError::Open("web-[".into()))]
    #[case("web-[]", GlobError::Empty("web-[]".into()))]
    fn a_broken_pattern_is_named(#[case] pattern: &str, #[case] expected: GlobError) {
        assert_eq!(Glob::new(pattern).unwrap_err(), expected);
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = Glob::new(&"*a".repeat(200)).unwrap();
        assert!(!pattern.matches(&"a".repeat(5000).replace("aaaa", "aaab").replacen('a', "b", 4800)));
    }
}
