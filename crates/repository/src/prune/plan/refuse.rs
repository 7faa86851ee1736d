//! Cases in which a prune must not continue: what was read is incomplete or inconsistent. Deletion is what destroys
//! repositories, so every doubt is an error and nothing is changed.

use super::packs::{Pack, PackTable};
use super::{Input, ListedPack, Options};
use crate::error::{Error, Result};

/// How many names a message contains.
const NAMED: usize = 3;

/// No snapshot although there is data, or a blob that snapshots use and that is not in the index.
pub(super) fn incomplete(input: &Input<'_>, options: &Options) -> Result<()> {
    let has_data = !input.index_packs.is_empty() || !input.listed.is_empty();
    if input.snapshots == 0 && has_data && !options.allow_no_snapshots {
        return Err(Error::Refused {
            reason: format!(
                "there is no snapshot, but the index names {} packs and the store has {}",
                input.index_packs.len(),
                input.listed.len()
            ),
            hint: "check the output of `snapshots`; if all were forgotten on purpose, `prune --allow-no-snapshots` \
                   removes everything",
        });
    }
    if !input.missing.is_empty() {
        let names = input.missing.iter().take(NAMED).map(|(kind, id)| format!("{kind} {id}"));
        return Err(Error::Refused {
            reason: format!(
                "{} blobs that snapshots use are not in the index: {}",
                input.missing.len(),
                names.collect::<Vec<_>>().join(", ")
            ),
            hint: "nothing was changed; run `repair index`, then `check`, and prune again",
        });
    }
    Ok(())
}

/// A pack that is listed twice: pages of the listing overlap, so others may be missing. `listed` is sorted.
pub(super) fn repeated(listed: &[ListedPack]) -> Result<()> {
    match listed.windows(2).find(|pair| pair[0].id == pair[1].id) {
        None => Ok(()),
        Some(pair) => Err(Error::Refused {
            reason: format!("the store lists pack {} twice", pair[0].id),
            hint: "its listings are unreliable; nothing was changed, try again later",
        }),
    }
}

/// Packs with used blobs that are not in the store, or have the wrong size.
pub(super) fn needed_packs(packs: &PackTable) -> Result<()> {
    let wrong = |pack: &&Pack| pack.used_blobs > 0 && pack.listed_size != Some(pack.size());
    let count = packs.iter().filter(wrong).count();
    if count == 0 {
        return Ok(());
    }
    let named: Vec<String> = packs
        .iter()
        .filter(wrong)
        .take(NAMED)
        .map(|pack| match pack.listed_size {
            None => format!("{} is missing", pack.id),
            Some(size) => format!("{} has {size} bytes instead of {}", pack.id, pack.size()),
        })
        .collect();
    Err(Error::Refused {
        reason: format!("{count} packs that snapshots need differ from the index: {}", named.join(", ")),
        hint: "nothing was changed; run `check`, and `repair index` if packs have really changed",
    })
}
