//! Checks listings of packs before anything is decided from what they lack: for prune and `repair index`.

use futures::{StreamExt, TryStreamExt};

use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::PackId;
use crate::repository::Repository;

/// How many packs are looked up concurrently.
const LOOKED_FOR_AT_ONCE: usize = 16;

/// Looks up the packs that an index names and a listing lacks. If one of them exists, the listing is incomplete and
/// nothing may be decided from it.
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
                reason: format!("the listing of the packs lacks pack {}, which exists", pack.short()),
                hint: "the store's listing is delayed or incomplete; nothing was changed, try again later",
            });
        }
    }
    Ok(())
}
