//! Azure's credentials as Velero's Secret contains them: lines of `NAME=value`.

use std::collections::BTreeMap;

use secrecy::SecretString;

use crate::error::{Error, Result};

/// Parses `NAME=value` lines, with `export`, quotes, comments and blank lines.
pub(crate) fn parse(content: &[u8]) -> Result<BTreeMap<String, SecretString>> {
    let text = std::str::from_utf8(content)
        .map_err(|_| Error::credentials_format("expected lines of NAME=value, but this is not UTF-8 text"))?;
    let mut variables = BTreeMap::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // The line is not quoted: it may contain a key.
        let Some((name, value)) = line.split_once('=') else {
            return Err(Error::credentials_format(format!("line {}: expected NAME=value", index + 1)));
        };
        variables.insert(name.trim().to_owned(), unquoted(value.trim()).to_owned().into());
    }
    Ok(variables)
}

fn unquoted(value: &str) -> &str {
    let inside = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use secrecy::ExposeSecret;

    use super::*;

    #[rstest]
    #[case::plain("KEY=CANARY==", "CANARY==")]
    #[case::quoted("KEY=\"CANARY\"", "CANARY")]
    #[case::single("KEY='CANARY'", "CANARY")]
    #[case::export("\n# c\nexport KEY = CANARY\r\n", "CANARY")]
    fn a_line_gives_a_variable(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(parse(text.as_bytes()).unwrap()["KEY"].expose_secret(), expected);
    }

    #[test]
    fn a_bad_line_is_counted_and_not_shown() {
        let error = parse(b"A=b\nCANARY").unwrap_err();
        assert_eq!(error.to_string(), "credentials: line 2: expected NAME=value");
    }
}
