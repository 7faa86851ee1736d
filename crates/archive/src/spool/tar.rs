//! A strict reader of tar files: only regular files, with names of any length (PAX and GNU), and the end marker is
//! required. Not a library, because a reader for untrusted archives must be small and must not trust any size field.

use std::io::Read;

use super::SpoolError;

const HEADER: usize = 512;
/// The longest name or PAX record that is read.
const LONGEST_EXTENSION: u64 = 64 * 1024;

/// Entries of a tar file.
pub(crate) struct TarReader<R> {
    inner: R,
    /// Plain bytes read so far.
    pub(crate) plain: u64,
}

/// The header of a regular file; its content follows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) size: u64,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, plain: 0 }
    }

    /// The next file; None at the end of the archive.
    pub(crate) fn next(&mut self) -> Result<Option<Header>, SpoolError> {
        let mut long_name = None;
        let mut long_size = None;
        loop {
            let mut block = [0; HEADER];
            self.fill(&mut block)?;
            if block.iter().all(|&byte| byte == 0) {
                return self.end(long_name.is_some());
            }
            if Some(checksum(&block)) != octal(&block[148..156]) {
                return Err(damaged("the checksum of an entry's header is wrong"));
            }
            let size =
                octal(&block[124..136]).ok_or_else(|| damaged("the size of an entry is not a number"))?;
            match block[156] {
                b'0' | 0 => {
                    let name = match long_name {
                        Some(name) => name,
                        None => short_name(&block)?,
                    };
                    return Ok(Some(Header { name, size: long_size.unwrap_or(size) }));
                }
                b'x' => {
                    let record = self.extension(size)?;
                    let (name, size) = pax(&record)?;
                    long_name = name.or(long_name);
                    long_size = size.or(long_size);
                }
                b'L' => {
                    let mut name = self.extension(size)?;
                    while name.last() == Some(&0) {
                        name.pop();
                    }
                    long_name = Some(text(name)?);
                }
                _ => {
                    let name = long_name.map_or_else(|| short_name(&block), Ok)?;
                    let problem = "only regular files are allowed, no links, directories or devices";
                    return Err(SpoolError::Entry { name, problem });
                }
            }
        }
    }

    /// Reads the content of the file whose header was read last into `out`. `on_piece` may refuse it while it grows.
    pub(crate) fn content(
        &mut self,
        size: u64,
        out: &mut Vec<u8>,
        mut on_piece: impl FnMut(u64) -> Result<(), SpoolError>,
    ) -> Result<(), SpoolError> {
        const PIECE: u64 = 256 * 1024;
        out.clear();
        let mut left = size;
        while left > 0 {
            let piece = usize::try_from(left.min(PIECE)).unwrap_or(0);
            let from = out.len();
            out.resize(from + piece, 0);
            self.fill(&mut out[from..])?;
            left -= piece as u64;
            on_piece(self.plain)?;
        }
        self.skip_padding(size)
    }

    fn skip_padding(&mut self, size: u64) -> Result<(), SpoolError> {
        let padding = usize::try_from(size.next_multiple_of(HEADER as u64) - size).unwrap_or(0);
        self.fill(&mut [0; HEADER][..padding])
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, SpoolError> {
        if size > LONGEST_EXTENSION {
            return Err(damaged("the name of an entry is too long"));
        }
        let mut record = vec![0; usize::try_from(size).unwrap_or(0)];
        self.fill(&mut record)?;
        self.skip_padding(size)?;
        Ok(record)
    }

    /// After the first block of zeros: requires a second one, and only zeros up to the end of the file.
    fn end(&mut self, dangling: bool) -> Result<Option<Header>, SpoolError> {
        const MOST_PADDING: u64 = 1024 * 1024;
        let mut block = [0; HEADER];
        self.fill(&mut block)?;
        let mut rest = 0;
        while !dangling && block.iter().all(|&byte| byte == 0) && rest < MOST_PADDING {
            let count = self.inner.read(&mut block).map_err(|error| damaged(error.to_string()))?;
            if count == 0 {
                return Ok(None);
            }
            block[count..].fill(0);
            rest += count as u64;
        }
        Err(damaged("there is data after the end of the archive"))
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), SpoolError> {
        self.inner.read_exact(out).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("it ends unexpectedly"),
            _ => damaged(error.to_string()),
        })?;
        self.plain += out.len() as u64;
        Ok(())
    }
}

fn damaged(problem: impl Into<String>) -> SpoolError {
    SpoolError::Damaged(problem.into())
}

/// The sum of the header's bytes, with the checksum field taken as spaces.
fn checksum(block: &[u8; HEADER]) -> u64 {
    let field = 148..156;
    let sum = |(at, byte): (usize, &u8)| if field.contains(&at) { 32 } else { u64::from(*byte) };
    block.iter().enumerate().map(sum).sum()
}

/// A number in octal digits between spaces and NULs. Base-256 numbers are only needed for sizes that no entry may
/// have.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn short_name(block: &[u8; HEADER]) -> Result<String, SpoolError> {
    let until_nul = |field: &[u8]| field.iter().copied().take_while(|&byte| byte != 0).collect::<Vec<_>>();
    let mut name = Vec::new();
    // GNU headers use the prefix field for other purposes.
    if block[257..263] == *b"ustar\0" {
        name = until_nul(&block[345..500]);
        if !name.is_empty() {
            name.push(b'/');
        }
    }
    name.extend(until_nul(&block[..100]));
    text(name)
}

fn text(name: Vec<u8>) -> Result<String, SpoolError> {
    String::from_utf8(name).map_err(|_| damaged("the name of an entry is not UTF-8"))
}

/// The path and the size from a PAX header: records of the form `LENGTH key=value\n`.
fn pax(record: &[u8]) -> Result<(Option<String>, Option<u64>), SpoolError> {
    let bad = || damaged("an extended header is malformed");
    let mut rest = record;
    let (mut path, mut size) = (None, None);
    while !rest.is_empty() {
        let space = rest.iter().take(20).position(|&byte| byte == b' ').ok_or_else(bad)?;
        let length: usize = std::str::from_utf8(&rest[..space])
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(bad)?;
        if length <= space + 1 || length > rest.len() || rest[length - 1] != b'\n' {
            return Err(bad());
        }
        let pair = std::str::from_utf8(&rest[space + 1..length - 1]).map_err(|_| bad())?;
        let (key, value) = pair.split_once('=').ok_or_else(bad)?;
        match key {
            "path" => path = Some(value.to_owned()),
            "size" => size = Some(value.parse().map_err(|_| bad())?),
            key if key.starts_with("GNU.sparse") => return Err(damaged("it contains sparse files")),
            _ => {}
        }
        rest = &rest[length..];
    }
    Ok((path, size))
}
