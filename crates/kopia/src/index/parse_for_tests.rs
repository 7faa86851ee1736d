//! Encodes an index of version 2, for tests of what reads it.

use crate::id::ContentId;

/// Entries with offset, sealed length, plain length and compression, all in one pack and of one time.
pub(crate) fn encode(pack: &str, time: u32, entries: &[(ContentId, u32, u32, u32, u32)]) -> Vec<u8> {
    let mut compressions: Vec<u32> = entries.iter().map(|entry| entry.4).collect();
    compressions.sort_unstable();
    compressions.dedup();
    let count = u32::try_from(entries.len()).unwrap();
    let mut bytes = vec![2, 17, 0, 17];
    bytes.extend(count.to_be_bytes());
    bytes.extend(1_u32.to_be_bytes());
    bytes.push(u8::try_from(compressions.len()).unwrap());
    bytes.extend(0_u32.to_be_bytes());
    for (id, offset, length, original, compression) in entries {
        bytes.extend(id.key());
        bytes.extend(time.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(&original.to_be_bytes()[1..]);
        bytes.extend(&length.to_be_bytes()[1..]);
        bytes.extend([0, 0]);
        let format = compressions.iter().position(|known| known == compression).unwrap();
        bytes.push(u8::try_from(format).unwrap());
    }
    let names = u32::try_from(bytes.len() + 5 + 6 * compressions.len()).unwrap();
    bytes.push(u8::try_from(pack.len()).unwrap());
    bytes.extend(names.to_be_bytes());
    for compression in compressions {
        bytes.extend(compression.to_be_bytes());
        bytes.extend([3, 0]);
    }
    bytes.extend(pack.bytes());
    bytes
}
