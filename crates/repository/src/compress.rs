//! zstd with one context per thread: creating a context for every blob would take most of the time.

use std::cell::RefCell;
use std::io::Cursor;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

/// The compression level; the names are restic's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Trees and the repository's own files are still compressed.
    Off,
    Fastest,
    #[default]
    Auto,
    Better,
    Max,
}

impl Compression {
    pub(crate) fn level(self) -> i32 {
        match self {
            Self::Off | Self::Auto => 3,
            Self::Fastest => 1,
            Self::Better => 9,
            Self::Max => 19,
        }
    }
}

impl std::str::FromStr for Compression {
    type Err = crate::error::Error;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Ok(match word {
            "off" => Self::Off,
            "fastest" => Self::Fastest,
            "auto" => Self::Auto,
            "better" => Self::Better,
            "max" => Self::Max,
            other => {
                let problem = format!("'{other}' is not one of auto, off, fastest, better, max");
                return Err(crate::error::Error::invalid("compression", problem));
            }
        })
    }
}

thread_local! {
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends the compressed `plain` to `out`.
pub(crate) fn compress(plain: &[u8], compression: Compression, out: &mut Vec<u8>) -> std::io::Result<()> {
    let level = compression.level();
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = match slot {
            Some((used, compressor)) if *used == level => compressor,
            _ => &mut slot.insert((level, compressor(level)?)).1,
        };
        let start = out.len();
        out.reserve(zstd_safe::compress_bound(plain.len()));
        let mut cursor = Cursor::new(std::mem::take(out));
        cursor.set_position(start as u64);
        let result = compressor.compress_to_buffer(plain, &mut cursor);
        *out = cursor.into_inner();
        result.map(|_| ())
    })
}

fn compressor(level: i32) -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    // Everything is authenticated, so no checksum is needed.
    compressor.set_parameter(zstd_safe::CParameter::ChecksumFlag(false))?;
    Ok(compressor)
}

/// Appends the decompressed content to `out`; it must have exactly `length` bytes, so that a small message cannot
/// allocate a lot of memory.
pub(crate) fn decompress(compressed: &[u8], length: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(Decompressor::new()?),
        };
        let start = out.len();
        out.reserve_exact(length);
        let room = out.capacity();
        let mut cursor = Cursor::new(std::mem::take(out));
        cursor.set_position(start as u64);
        let result = decompressor.decompress_to_buffer(compressed, &mut cursor);
        *out = cursor.into_inner();
        debug_assert!(out.capacity() == room, "the decompressor does not grow its output");
        match result {
            Ok(written) if written == length => Ok(()),
            Ok(written) => Err(std::io::Error::other(format!("{written} bytes instead of {length}"))),
            Err(error) => Err(error),
        }
    })
}

/// Decompresses a file of the repository, whose length is only known from its frame: at most `limit` bytes.
pub(crate) fn decompress_unknown(compressed: &[u8], limit: usize) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    // How much is allocated up front because of the frame's size; the buffer grows if there is more.
    const PREALLOCATED: u64 = 32 * 1024 * 1024;
    let announced = zstd_safe::get_frame_content_size(compressed).ok().flatten().unwrap_or(0);
    let room = usize::try_from(announced.min(PREALLOCATED)).unwrap_or(0).min(limit);
    // One byte more, so that the end is detected without growing.
    let mut plain = Vec::with_capacity(room + 1);
    let decoder = zstd::stream::read::Decoder::with_buffer(compressed)?;
    decoder.take(limit as u64 + 1).read_to_end(&mut plain)?;
    if plain.len() > limit {
        return Err(std::io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(plain: Vec<u8>, before: Vec<u8>) {
            let mut out = before.clone();
            compress(&plain, Compression::Auto, &mut out).unwrap();
            let mut back = before.clone();
            decompress(&out[before.len()..], plain.len(), &mut back).unwrap();
            prop_assert_eq!(&back[before.len()..], &plain[..]);
            prop_assert_eq!(decompress_unknown(&out[before.len()..], plain.len()).unwrap(), plain);
        }

        #[test]
        fn nonsense_is_an_error_and_never_more_than_was_asked_for(bytes: Vec<u8>, length in 0_usize..1000) {
            let mut out = Vec::new();
            if decompress(&bytes, length, &mut out).is_ok() {
                prop_assert_eq!(out.len(), length);
            }
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        let mut bomb = Vec::new();
        compress(&vec![0; 10_000_000], Compression::Max, &mut bomb).unwrap();
        assert!(bomb.len() < 2000);
        assert!(decompress(&bomb, 1000, &mut Vec::new()).is_err());
        assert!(decompress_unknown(&bomb, 9_999_999).is_err());
    }
}
