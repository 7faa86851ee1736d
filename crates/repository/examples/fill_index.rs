//! Adds index files with very many blobs, and packs of the right sizes that are one hole each: `fill_index DIRECTORY
//! PASSWORD-FILE BLOBS`. Makes an empty repository look as large as needed, to measure what its index costs. `cargo xtask
//! bench scale` runs it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use lifeboat_repository::files::FileKind;
use lifeboat_repository::id::{BlobId, BlobKind, Id, PackId};
use lifeboat_repository::index::{IndexFile, IndexedPack};
use lifeboat_repository::pack::{HEADER_OVERHEAD, PackedBlob, header_entry_length};
use lifeboat_repository::repository::{Options, Repository};
use lifeboat_store::Store;
use secrecy::SecretString;

/// As a pack of 16 MiB and blobs of about 700 kB would have it.
const BLOBS_IN_PACK: u32 = 40;
const LENGTH: u32 = 420_000;
/// As many as restic puts into one file.
const BLOBS_IN_FILE: u64 = 50_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, password_file, blobs] = arguments.as_slice() else {
        return Err("usage: fill_index DIRECTORY PASSWORD-FILE BLOBS".into());
    };
    let blobs: u64 = blobs.parse()?;
    let password = SecretString::from(std::fs::read_to_string(password_file)?.trim_end().to_owned());
    let repository = Repository::open(Store::local(directory)?, &password, Options::default()).await?;
    let mut first = 0;
    while first < blobs {
        let end = blobs.min(first + BLOBS_IN_FILE);
        let packs: Vec<IndexedPack> =
            (first..end).step_by(BLOBS_IN_PACK as usize).map(|number| pack(number, end)).collect();
        packs.iter().try_for_each(|pack| create(Path::new(directory), pack))?;
        repository.save_file(FileKind::Index, &IndexFile { packs }.json()?).await?;
        first = end;
    }
    Ok(())
}

/// Creates a pack of the size that its blobs need.
fn create(directory: &Path, pack: &IndexedPack) -> io::Result<()> {
    let blobs = pack.blobs().map(|blob| u64::from(blob.length) + u64::from(header_entry_length(true)));
    let path = directory.join(FileKind::Pack.key(pack.id.0));
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    File::create_new(path)?.set_len(u64::from(HEADER_OVERHEAD) + blobs.sum::<u64>())
}

/// The pack whose first blob has this number.
fn pack(first: u64, end: u64) -> IndexedPack {
    let blobs: Vec<PackedBlob> = (first..end.min(first + u64::from(BLOBS_IN_PACK)))
        .zip((0..).step_by(LENGTH as usize))
        .map(|(number, offset)| PackedBlob {
            kind: if number % 100 == 0 { BlobKind::Tree } else { BlobKind::Data },
            id: BlobId(Id::of(&number.to_le_bytes())),
            offset,
            length: LENGTH,
            uncompressed_length: 700_000,
        })
        .collect();
    IndexedPack::new(PackId(Id::of(format!("pack {first}").as_bytes())), &blobs)
}
