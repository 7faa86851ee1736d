//! S2, an extension of Snappy: blocks of up to 4 MiB in frames. A copy with offset 0 repeats the last offset, with longer
//! lengths than Snappy has. Checksums are not computed: the content's keyed hash is checked in any case.

const COMPRESSED: u8 = 0x00;
const UNCOMPRESSED: u8 = 0x01;
const FIRST_SKIPPABLE: u8 = 0x80;
const IDENTIFIER: u8 = 0xff;
const CHECKSUM: usize = 4;

type Result<T> = std::result::Result<T, &'static str>;
const CUT: &str = "it is cut off";

/// Decodes a stream of at most `most` bytes.
pub(super) fn decode(mut stream: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(most.min(64 * 1024));
    let mut identified = false;
    while let Some((head, rest)) = stream.split_first_chunk::<4>() {
        let length = u32::from_le_bytes([head[1], head[2], head[3], 0]) as usize;
        let (frame, rest) = rest.split_at_checked(length).ok_or(CUT)?;
        stream = rest;
        if !identified && head[0] != IDENTIFIER {
            return Err("it does not start as a stream of S2");
        }
        match head[0] {
            IDENTIFIER if frame == b"S2sTwO" || frame == b"sNaPpY" => identified = true,
            COMPRESSED => block(frame.get(CHECKSUM..).ok_or(CUT)?, most, &mut plain)?,
            UNCOMPRESSED => append(&mut plain, frame.get(CHECKSUM..).ok_or(CUT)?, most)?,
            FIRST_SKIPPABLE..IDENTIFIER => {}
            _ => return Err("it has a frame of unknown kind"),
        }
    }
    if stream.is_empty() && identified { Ok(plain) } else { Err(CUT) }
}

fn append(plain: &mut Vec<u8>, bytes: &[u8], most: usize) -> Result<()> {
    if bytes.len() > most - plain.len() {
        return Err("it is longer than it should be");
    }
    plain.extend_from_slice(bytes);
    Ok(())
}

/// Decodes one block behind what is decoded already.
fn block(mut input: &[u8], most: usize, plain: &mut Vec<u8>) -> Result<()> {
    let start = plain.len();
    let length = varint(&mut input)?;
    if length > most - start {
        return Err("it is longer than it should be");
    }
    let end = start + length;
    let mut last_offset = 0;
    while let Some((tag, rest)) = input.split_first() {
        input = rest;
        let value = usize::from(tag >> 2);
        let (offset, length) = match tag & 3 {
            0 => {
                let length = literal(value, &mut input)?;
                let (bytes, rest) = input.split_at_checked(length).ok_or(CUT)?;
                append(plain, bytes, end)?;
                input = rest;
                continue;
            }
            1 => {
                let low = number(&mut input, 1)?;
                let offset = usize::from(tag & 0xe0) << 3 | low;
                let short = value & 7;
                if offset == 0 { (last_offset, repeat(short, &mut input)?) } else { (offset, short + 4) }
            }
            2 => (number(&mut input, 2)?, value + 1),
            _ => (number(&mut input, 4)?, value + 1),
        };
        last_offset = offset;
        copy(plain, start, end, offset, length)?;
    }
    if plain.len() == end { Ok(()) } else { Err(CUT) }
}

fn copy(plain: &mut Vec<u8>, start: usize, end: usize, offset: usize, length: usize) -> Result<()> {
    if offset == 0 || offset > plain.len() - start || length > end - plain.len() {
        return Err("it copies from outside of its block");
    }
    // The copied bytes may overlap with those that they make.
    let mut left = length;
    while left > 0 {
        let from = plain.len() - offset;
        let part = left.min(offset);
        plain.extend_from_within(from..from + part);
        left -= part;
    }
    Ok(())
}

/// The length of a literal.
fn literal(value: usize, input: &mut &[u8]) -> Result<usize> {
    Ok(1 + if value < 60 { value } else { number(input, value - 59)? })
}

/// The length of a repeated copy.
fn repeat(short: usize, input: &mut &[u8]) -> Result<usize> {
    Ok(match short {
        5 => 8 + number(input, 1)?,
        6 => (1 << 8) + 4 + number(input, 2)?,
        7 => (1 << 16) + 4 + number(input, 3)?,
        _ => short + 4,
    })
}

/// A number of `length` bytes, little-endian.
fn number(input: &mut &[u8], length: usize) -> Result<usize> {
    let (bytes, rest) = input.split_at_checked(length).ok_or(CUT)?;
    *input = rest;
    Ok(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}

fn varint(input: &mut &[u8]) -> Result<usize> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = input.split_first().ok_or(CUT)?;
        *input = rest;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("its length is too large")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [&[kind], &length[..3], content].concat()
    }

    fn stream(block: &[u8]) -> Vec<u8> {
        [frame(IDENTIFIER, b"S2sTwO"), frame(COMPRESSED, &[&[0; 4], block].concat())].concat()
    }

    pub(in crate::compress) fn uncompressed(plain: &[u8]) -> Vec<u8> {
        let frames = plain.chunks(60_000).map(|part| frame(UNCOMPRESSED, &[&[0; 4], part].concat()));
        [vec![frame(IDENTIFIER, b"S2sTwO")], frames.collect()].concat().concat()
    }

    #[test]
    fn literals_copies_and_repeats() {
        // "abcd", copy of 4 from offset 4, then the last offset again: 4 + 4 bytes, and one of 8 + 3.
        let block = [23, 3 << 2, b'a', b'b', b'c', b'd', 1, 4, 1, 0, (5 << 2) | 1, 0, 3];
        assert_eq!(decode(&stream(&block), 23).unwrap(), b"abcdabcdabcdabcdabcdabc");
        assert!(decode(&stream(&block), 22).is_err());
    }

    #[test]
    fn overlapping_copies_repeat() {
        // A copy with an offset of two bytes: 10 bytes from offset 1.
        let block = [11, 0, b'x', (9 << 2) | 2, 1, 0];
        assert_eq!(decode(&stream(&block), 11).unwrap(), b"xxxxxxxxxxx");
    }

    #[rstest::rstest]
    #[case::nothing_to_repeat(&[8, 0, b'x', (3 << 2) | 1, 0])]
    #[case::before_the_block(&[8, 0, b'x', (3 << 2) | 2, 2, 0])]
    #[case::longer_than_said(&[3, 0, b'x', (9 << 2) | 2, 1, 0])]
    #[case::shorter_than_said(&[3, 0, b'x'])]
    #[case::endless_length(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff])]
    fn wrong_blocks_are_errors(#[case] block: &[u8]) {
        assert!(decode(&stream(block), 100).is_err());
    }

    #[test]
    fn frames_to_skip_are_skipped_and_unknown_ones_refused() {
        let with = |kind| [uncompressed(b"a"), frame(kind, b"anything")].concat();
        assert_eq!(decode(&with(0x99), 10).unwrap(), b"a");
        assert_eq!(decode(&with(0xfe), 10).unwrap(), b"a");
        assert!(decode(&with(0x02), 10).is_err());
        assert!(decode(&frame(UNCOMPRESSED, b"0000a"), 10).is_err());
        assert!(decode(b"", 10).is_err());
    }
}
