//! Writes entries of a tar file as Go does: USTAR headers, preceded by a PAX record for a name that does not fit.
//! Regular files with mode 0755 and owner 0, as in Velero's archives.

const HEADER: usize = 512;

/// Appends one file.
pub(crate) fn append(out: &mut Vec<u8>, path: &str, content: &[u8], time: u64) {
    let name = if let Some(name) = UstarName::new(path) {
        name
    } else {
        let record = pax_record("path", path);
        let short = UstarName { prefix: "", name: "PaxHeaders.0/entry" };
        header(out, &short, record.len() as u64, b'x', time);
        padded(out, record.as_bytes());
        // Readers take the name from the PAX record; this one is for readers without PAX support.
        UstarName { prefix: "", name: "entry" }
    };
    header(out, &name, content.len() as u64, b'0', time);
    padded(out, content);
}

/// Appends the end marker of the archive.
pub(crate) fn end(out: &mut Vec<u8>) {
    out.resize(out.len() + 2 * HEADER, 0);
}

/// A name as two fields of a header.
struct UstarName<'a> {
    prefix: &'a str,
    name: &'a str,
}

impl<'a> UstarName<'a> {
    fn new(path: &'a str) -> Option<Self> {
        if !path.is_ascii() {
            return None;
        }
        if path.len() <= 100 {
            return Some(Self { prefix: "", name: path });
        }
        // The name field keeps as little as possible: Go splits at the last slash within the first 155 bytes.
        let cut = path.as_bytes().iter().take(156).rposition(|&c| c == b'/')?;
        let (prefix, name) = (&path[..cut], &path[cut + 1..]);
        (name.len() <= 100 && !name.is_empty() && !prefix.is_empty()).then_some(Self { prefix, name })
    }
}

fn header(out: &mut Vec<u8>, name: &UstarName<'_>, size: u64, kind: u8, time: u64) {
    let mut block = [0_u8; HEADER];
    put(&mut block, 0, name.name.as_bytes());
    put(&mut block, 100, b"0000755\0");
    put(&mut block, 108, b"0000000\0");
    put(&mut block, 116, b"0000000\0");
    octal(&mut block[124..136], size);
    octal(&mut block[136..148], time);
    put(&mut block, 148, b"        ");
    block[156] = kind;
    put(&mut block, 257, b"ustar\x0000");
    put(&mut block, 329, b"0000000\0");
    put(&mut block, 337, b"0000000\0");
    put(&mut block, 345, name.prefix.as_bytes());
    let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
    octal(&mut block[148..155], sum);
    out.extend_from_slice(&block);
}

fn put(block: &mut [u8; HEADER], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Fills the field with octal digits, except for its last byte, a NUL.
fn octal(field: &mut [u8], mut value: u64) {
    let digits = field.len() - 1;
    for place in field[..digits].iter_mut().rev() {
        *place = b'0' + u8::try_from(value & 7).unwrap_or_default();
        value >>= 3;
    }
    field[digits] = 0;
}

fn padded(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(HEADER), 0);
}

/// `LENGTH key=value\n`, where LENGTH is the length of the whole record.
fn pax_record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}
