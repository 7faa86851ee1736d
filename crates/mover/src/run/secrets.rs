//! Masks the values of secrets in what a program prints, as it comes: a value that is cut in two by the size of a read is
//! masked, too. Pure.

use std::sync::Arc;

/// What is shown instead of a secret.
const MASK: &[u8] = b"***";

/// The values that no message or log shows.
#[derive(Clone, Default)]
pub(in crate::run) struct Secrets(Arc<Vec<Vec<u8>>>);

impl Secrets {
    pub(in crate::run) fn of(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<Vec<u8>> = values
            .into_iter()
            .map(|value| value.trim().as_bytes().to_vec())
            .filter(|value| !value.is_empty())
            .collect();
        // A value that contains another one is masked as a whole.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(Arc::new(values))
    }

    pub(in crate::run) fn masking(&self) -> Masking {
        Masking { secrets: self.clone(), held: Vec::new() }
    }

    /// The secret with which the text starts.
    fn at_start_of(&self, text: &[u8]) -> Option<&[u8]> {
        self.0.iter().map(Vec::as_slice).find(|secret| text.starts_with(secret))
    }

    /// Whether more text could make the whole rest a secret.
    fn may_begin(&self, text: &[u8]) -> bool {
        self.0.iter().any(|secret| secret.len() > text.len() && secret.starts_with(text))
    }
}

/// Text on its way, of which the end may be the beginning of a secret.
pub(in crate::run) struct Masking {
    secrets: Secrets,
    held: Vec<u8>,
}

impl Masking {
    /// The text that can be shown so far.
    pub(in crate::run) fn mask(&mut self, more: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(more);
        let (masked, rest) = self.masked(true);
        self.held = rest;
        masked
    }

    /// The rest of the text, after its end; None if there is none.
    pub(in crate::run) fn finish(&mut self) -> Option<Vec<u8>> {
        if self.held.is_empty() {
            return None;
        }
        let (masked, _) = self.masked(false);
        self.held.clear();
        Some(masked)
    }

    fn masked(&self, goes_on: bool) -> (Vec<u8>, Vec<u8>) {
        let (mut masked, mut rest) = (Vec::with_capacity(self.held.len()), self.held.as_slice());
        while let Some((first, after)) = rest.split_first() {
            if goes_on && self.secrets.may_begin(rest) {
                break;
            }
            if let Some(secret) = self.secrets.at_start_of(rest) {
                masked.extend_from_slice(MASK);
                rest = &rest[secret.len()..];
            } else {
                masked.push(*first);
                rest = after;
            }
        }
        (masked, rest.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(secrets: &[&str], pieces: &[&str]) -> String {
        let secrets = Secrets::of(secrets.iter().map(|&secret| secret.to_owned()));
        let mut masking = secrets.masking();
        let mut all: Vec<u8> = pieces.iter().flat_map(|piece| masking.mask(piece.as_bytes())).collect();
        all.extend(masking.finish().unwrap_or_default());
        String::from_utf8(all).unwrap()
    }

    #[rstest::rstest]
    #[case::none(&[], &["plain"], "plain")]
    #[case::empty_values(&["", " "], &["a b"], "a b")]
    #[case::in_one_piece(&["pass"], &["password pass"], "***word ***")]
    #[case::cut_in_two(&["secret"], &["a sec", "ret b"], "a *** b")]
    #[case::byte_by_byte(&["aab"], &["a", "a", "a", "b"], "a***")]
    #[case::the_longer_one(&["pass", "password"], &["pass", "word pass"], "*** ***")]
    #[case::only_its_beginning(&["secret"], &["a sec"], "a sec")]
    #[case::with_a_line_break_at_its_end(&["secret\n"], &["secret!"], "***!")]
    fn secrets_are_masked(#[case] secrets: &[&str], #[case] pieces: &[&str], #[case] expected: &str) {
        assert_eq!(masked(secrets, pieces), expected);
    }
}
