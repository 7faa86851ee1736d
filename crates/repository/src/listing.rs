//! Listings of packs, before anything is decided by what they lack: for prune and `repair index`.

use futures::{StreamExt, TryStreamExt};

use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::PackId;
use crate::repository::Repository;

/// Packs that are asked for by name at once.
const LOOKED_FOR_AT_ONCE: usize = 16;

/// Packs that an index names and a listing lacks are asked for by name: if one is there, the listing lied, and
/// nothing may be decided by it.
pub(crate) async fn require_absent(
    repository: &Repository,
    packs: impl IntoIterator<Item = PackId>,
) -> Result<()> {
    let looking = futures::stream::iter(packs).map(|pack| async move {
        let found = repository.store().exists(&FileKind::Pack.key(pack.0)).await;
        found.map(|found| found.then_some(pack)).map_err(Error::store("look for a pack"))
    });
    let mut looking = looking.buffer_unordered(LOOKED_FOR_AT_ONCE);
    while let Some(found) = looking.try_next().await? {
        if let Some(pack) = found {
            return Err(Error::Refused {
                reason: format!("the listing of the packs lacks pack {}, which is there", pack.short()),
                hint: "the store lists late or not everything; nothing was changed, try again later",
            });
        }
    }
    Ok(())
}
