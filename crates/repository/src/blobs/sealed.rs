//! Checks a sealed blob without memory for its content: the tree of a large directory has some hundred MiB.

use std::io::{self, Write};

use crate::crypto::{Key, NotAuthentic};
use crate::id::{BlobId, Hasher};

/// Whether the content of a sealed blob has this ID and length.
pub(crate) fn contains(key: &Key, sealed: &[u8], is_compressed: bool, id: BlobId, length: u64) -> bool {
    let mut content = Content { hasher: Hasher::new(), left: length };
    let opened = if is_compressed {
        decompress(key, sealed, &mut content)
    } else {
        key.open_in_pieces(sealed, |piece| content.write_all(piece).map_err(|_| NotAuthentic))
    };
    opened.is_ok() && content.left == 0 && content.hasher.finish() == id.0
}

fn decompress(key: &Key, sealed: &[u8], content: &mut Content) -> Result<(), NotAuthentic> {
    let mut decoder = zstd::stream::write::Decoder::new(content).map_err(|_| NotAuthentic)?;
    key.open_in_pieces(sealed, |piece| decoder.write_all(piece).map_err(|_| NotAuthentic))?;
    decoder.flush().map_err(|_| NotAuthentic)
}

/// Hashes what is written; no more than is left.
struct Content {
    hasher: Hasher,
    left: u64,
}

impl Write for Content {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| io::Error::other("it is longer than its index says"))?;
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Material;
    use crate::id::Id;

    #[test]
    fn only_the_content_of_this_id_and_length_is_accepted() {
        let key = Key::new(Material::random());
        let plain = b"a tree ".repeat(50_000);
        let (id, length) = (BlobId(Id::of(&plain)), plain.len() as u64);
        let compressed = zstd::bulk::compress(&plain, 3).unwrap();
        for (sealed, is_compressed) in [(key.sealed(&plain), false), (key.sealed(&compressed), true)] {
            assert!(contains(&key, &sealed, is_compressed, id, length));
            assert!(!contains(&key, &sealed, is_compressed, id, length - 1));
            assert!(!contains(&key, &sealed, is_compressed, id, length + 1));
            assert!(!contains(&key, &sealed, is_compressed, BlobId(Id::of(b"other")), length));
            let mut changed = sealed.clone();
            changed[40] ^= 1;
            assert!(!contains(&key, &changed, is_compressed, id, length));
            assert!(!contains(&key, &sealed[..sealed.len() - 1], is_compressed, id, length));
        }
    }
}
