//! The shape of a line for a shell: one plain pipeline, which is cut at its `|`, or anything else, which one shell runs whole. A
//! line is cut only if the cut is certain, because every shell reads it in the same way: in doubt it is run whole. Pure.

/// The shape of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape<'a> {
    /// The sides of a pipeline, without blanks around them.
    Pipeline(Vec<&'a str>),
    Whole,
}

/// Why a line has no shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineError {
    /// A quote, substitution or expansion that is not closed.
    Unclosed(&'static str),
    EmptySide,
}

/// What ends a scan early.
enum Stop {
    /// It is not a plain pipeline.
    Whole,
    Unclosed(&'static str),
}

/// Words with a meaning of their own at the start of a command: what follows is more than a command.
const RESERVED: [&str; 18] = [
    "!", "{", "}", "[[", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case",
    "esac", "function", "select",
];

/// Finds the shape of a line.
pub(super) fn shape(line: &str) -> Result<Shape<'_>, LineError> {
    let mut scan = Scan { text: line.as_bytes(), place: 0 };
    let sides = match scan.sides() {
        Ok(sides) => sides,
        Err(Stop::Whole) => return Ok(Shape::Whole),
        Err(Stop::Unclosed(quote)) => return Err(LineError::Unclosed(quote)),
    };
    let sides: Vec<&str> = sides.into_iter().map(|(from, to)| line[from..to].trim()).collect();
    if sides.iter().any(|side| side.is_empty()) {
        return Err(LineError::EmptySide);
    }
    let is_compound = |side: &&str| {
        let first = side.split_ascii_whitespace().next().unwrap_or_default();
        RESERVED.contains(&first)
    };
    if sides.iter().any(is_compound) { Ok(Shape::Whole) } else { Ok(Shape::Pipeline(sides)) }
}

/// Whether a single word needs a shell.
pub(super) fn is_for_a_shell(word: &str) -> bool {
    word.chars().any(|character| character.is_whitespace() || "|&;<>()$`\\\"'*?[]#~{}!".contains(character))
}

struct Scan<'a> {
    text: &'a [u8],
    place: usize,
}

impl Scan<'_> {
    /// The ranges between the `|` of a plain pipeline.
    fn sides(&mut self) -> Result<Vec<(usize, usize)>, Stop> {
        let (mut sides, mut from) = (Vec::new(), 0);
        // Whether a word may begin here.
        let mut is_start = true;
        while let Some(byte) = self.peek() {
            let was_start = std::mem::replace(&mut is_start, false);
            match byte {
                b'|' => {
                    if matches!(self.after(1), Some(b'|' | b'&')) {
                        return Err(Stop::Whole);
                    }
                    sides.push((from, self.place));
                    self.place += 1;
                    from = self.place;
                    is_start = true;
                }
                b' ' | b'\t' => {
                    self.place += 1;
                    is_start = true;
                }
                b'\n' | b'\r' => {
                    // An empty line means nothing before a command, and at the end.
                    let is_blank = |part: &[u8]| part.iter().all(u8::is_ascii_whitespace);
                    if !is_blank(&self.text[from..self.place]) && !is_blank(&self.text[self.place..]) {
                        return Err(Stop::Whole);
                    }
                    self.place += 1;
                    is_start = true;
                }
                b'#' if was_start => return Err(Stop::Whole),
                b'&' | b';' | b'(' | b')' => return Err(Stop::Whole),
                b'<' | b'>' => self.redirection()?,
                _ => self.unit()?,
            }
        }
        sides.push((from, self.text.len()));
        Ok(sides)
    }

    /// `>file`, `2>&1`, `>|file`. Here-documents and process substitutions are not plain.
    fn redirection(&mut self) -> Result<(), Stop> {
        let first = self.text[self.place];
        self.place += match (first, self.after(1)) {
            (b'<', Some(b'<')) | (_, Some(b'(')) => return Err(Stop::Whole),
            (b'<', Some(b'&' | b'>')) | (b'>', Some(b'>' | b'&' | b'|')) => 2,
            _ => 1,
        };
        Ok(())
    }

    /// One character, or everything that is quoted or substituted.
    fn unit(&mut self) -> Result<(), Stop> {
        match self.text[self.place] {
            b'\\' => self.place += 2,
            b'\'' => self.single()?,
            b'"' => self.double()?,
            b'`' => self.backticks()?,
            b'$' => self.dollar()?,
            _ => self.place += 1,
        }
        self.place = self.place.min(self.text.len());
        Ok(())
    }

    fn single(&mut self) -> Result<(), Stop> {
        let rest = &self.text[self.place + 1..];
        let length = rest.iter().position(|byte| *byte == b'\'').ok_or(Stop::Unclosed("'"))?;
        self.place += length + 2;
        Ok(())
    }

    fn double(&mut self) -> Result<(), Stop> {
        self.place += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.place += 1;
                    return Ok(());
                }
                b'\'' => self.place += 1,
                // `$'` has no meaning between double quotes.
                b'$' if self.after(1) == Some(b'\'') => self.place += 1,
                _ => self.unit()?,
            }
        }
        Err(Stop::Unclosed("\""))
    }

    fn backticks(&mut self) -> Result<(), Stop> {
        self.place += 1;
        while let Some(byte) = self.peek() {
            self.place += if byte == b'\\' { 2 } else { 1 };
            if byte == b'`' {
                return Ok(());
            }
        }
        Err(Stop::Unclosed("`"))
    }

    fn dollar(&mut self) -> Result<(), Stop> {
        match self.after(1) {
            // Only some shells know this quote, so its end is not certain.
            Some(b'\'') => Err(Stop::Whole),
            Some(b'(') => self.nested(b'(', b')', "$("),
            Some(b'{') => self.nested(b'{', b'}', "${"),
            _ => {
                self.place += 1;
                Ok(())
            }
        }
    }

    /// `$(…)` or `${…}`, with what is nested in it.
    fn nested(&mut self, open: u8, close: u8, name: &'static str) -> Result<(), Stop> {
        self.place += 2;
        let mut depth = 1;
        while let Some(byte) = self.peek() {
            // A comment may hide the end.
            if byte == b'#' && open == b'(' && self.text[self.place - 1].is_ascii_whitespace() {
                return Err(Stop::Whole);
            }
            // The end of a here-document is not certain.
            if byte == b'<' && open == b'(' && self.after(1) == Some(b'<') {
                return Err(Stop::Whole);
            }
            if byte == open || byte == close {
                depth = if byte == open { depth + 1 } else { depth - 1 };
                self.place += 1;
                if depth == 0 {
                    return Ok(());
                }
            } else {
                self.unit()?;
            }
        }
        Err(Stop::Unclosed(name))
    }

    fn peek(&self) -> Option<u8> {
        self.after(0)
    }

    fn after(&self, distance: usize) -> Option<u8> {
        self.text.get(self.place + distance).copied()
    }
}
