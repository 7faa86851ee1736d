//! Splits bytes into lines of limited length, and limits how many lines pass. Pure.

use std::time::Instant;

/// The rest of a longer line is dropped.
const LONGEST_LINE: usize = 16 * 1024;
/// How many lines may arrive at once.
const BURST: f64 = 1000.0;
/// How many lines per second may arrive permanently.
const PER_SECOND: f64 = 100.0;

/// Splits a stream of bytes into lines.
#[derive(Default)]
pub(crate) struct Lines {
    open: Vec<u8>,
    cut: bool,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8], line: &mut dyn FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.ends_with(b"\n");
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = LONGEST_LINE - self.open.len();
            self.cut |= text.len() > room;
            self.open.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                self.finish(line);
            }
        }
    }

    /// Returns the rest that has no line break.
    pub(crate) fn finish(&mut self, line: &mut dyn FnMut(&str)) {
        let open = std::mem::take(&mut self.open);
        let text = String::from_utf8_lossy(&open);
        if std::mem::take(&mut self.cut) {
            line(&format!("{text} … (cut)"));
        } else if !text.is_empty() {
            line(&text);
        }
    }
}

/// Limits the number of lines: a burst, then a rate.
pub(crate) struct Allowance {
    left: f64,
    since: Instant,
    left_out: u64,
}

impl Allowance {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: BURST, since: now, left_out: 0 }
    }

    /// Whether a line passes, and how many were dropped before it.
    pub(crate) fn admit(&mut self, now: Instant) -> (bool, u64) {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.since = now;
        self.left = (self.left + passed * PER_SECOND).min(BURST);
        if self.left < 1.0 {
            self.left_out += 1;
            return (false, 0);
        }
        self.left -= 1.0;
        // Reported once the rate allows several lines again, not after every dropped line.
        let dropped = if self.left_out > 0 && self.left >= PER_SECOND / 2.0 {
            std::mem::take(&mut self.left_out)
        } else {
            0
        };
        (true, dropped)
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cut(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut all) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, &mut |line| all.push(line.to_owned()));
        }
        lines.finish(&mut |line| all.push(line.to_owned()));
        all
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        assert_eq!(cut(&[b"a", b"b\nc\n\xff\n", b"d"]), ["ab", "c", "\u{fffd}", "d"]);
    }

    #[test]
    fn a_line_without_end_stays_small() {
        let lines = cut(&[&vec![b'x'; 100_000], &vec![b'y'; 100_000], b"\nnext\n"]);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() < LONGEST_LINE + 20 && lines[0].ends_with("(cut)"));
    }

    #[test]
    fn after_a_flood_the_number_of_dropped_lines_is_reported_once() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let passed = (0..5000).filter(|_| allowance.admit(start).0).count();
        assert_eq!(passed, 1000);
        assert_eq!(allowance.admit(start + Duration::from_secs(1)), (true, 4000));
        assert_eq!(allowance.admit(start + Duration::from_secs(1)), (true, 0));
    }
}
