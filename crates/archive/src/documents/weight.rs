//! The memory that JSON needs once it is parsed, estimated from its text before anything is parsed: `{"":0},` is seven
//! bytes of text and seven hundred bytes in memory.

/// The deepest nesting that is read; `serde_json` reads no deeper either.
const DEEPEST: u32 = 127;

/// An object with at least one field: a node of a map, or the fields of a struct that are not in the text.
const OBJECT: usize = 640;
/// A further field of an object: nodes of maps are at least half full.
const FIELD: usize = 112;
/// A further element of an array: arrays grow to twice their length.
const ELEMENT: usize = 64;
/// A text, in addition to its bytes.
const TEXT: usize = 24;

/// Takes JSON in pieces. It does not check the JSON: what is not JSON gets some weight, and is refused by the parser.
#[derive(Debug, Default)]
pub(super) struct Scale {
    bytes: usize,
    /// One bit for each open bracket, the innermost last: whether it is an object.
    open: u128,
    depth: u32,
    is_text: bool,
    is_escaped: bool,
    commas: usize,
    is_too_deep: bool,
}

impl Scale {
    pub(super) fn add(&mut self, json: &[u8]) {
        for byte in json {
            if self.is_text {
                self.text(*byte);
            } else {
                self.structure(*byte);
            }
        }
    }

    /// An upper bound for the memory of the JSON so far, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// At most so many elements does the outermost list have.
    pub(super) fn elements(&self) -> usize {
        self.commas + 1
    }

    pub(super) fn is_too_deep(&self) -> bool {
        self.is_too_deep
    }

    fn text(&mut self, byte: u8) {
        self.bytes += 1;
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.is_text = false,
            _ => {}
        }
    }

    fn structure(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.is_text = true;
                self.bytes += TEXT;
            }
            b'{' | b'[' => self.enter(byte == b'{'),
            b'}' | b']' => {
                self.open >>= 1;
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => {
                self.commas += usize::from(self.depth == 1);
                self.bytes += if self.open & 1 == 1 { FIELD } else { ELEMENT };
            }
            _ => {}
        }
    }

    fn enter(&mut self, is_object: bool) {
        self.is_too_deep |= self.depth >= DEEPEST;
        self.depth = self.depth.saturating_add(1);
        self.open = self.open << 1 | u128::from(is_object);
        self.bytes += if is_object { OBJECT } else { ELEMENT };
    }
}

/// An upper bound for the memory of a JSON text as a value.
pub fn weight(json: &[u8]) -> usize {
    let mut scale = Scale::default();
    scale.add(json);
    scale.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_as_text_and_large_in_memory_weighs_what_it_needs() {
        let bomb = format!("[{}0]", r#"{"":0},"#.repeat(1000));
        assert!(weight(bomb.as_bytes()) > 1000 * 640, "{}", weight(bomb.as_bytes()));
        let text = format!(r#"{{"a":"{}"}}"#, "x{,[".repeat(1000));
        assert!(weight(text.as_bytes()) < 5000, "brackets in texts are text: {}", weight(text.as_bytes()));
    }

    #[test]
    fn elements_of_the_outermost_list_are_counted_through_escapes_and_pieces() {
        let mut scale = Scale::default();
        for piece in [r#"[{"a":[1,2],"b":"\""#, r#",],"},"x,\\","#, "3]"] {
            scale.add(piece.as_bytes());
        }
        assert_eq!(scale.elements(), 3);
        assert!(!scale.is_too_deep());
        scale.add("[".repeat(200).as_bytes());
        assert!(scale.is_too_deep());
    }
}
