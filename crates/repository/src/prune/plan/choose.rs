//! Decides which packs are kept, repacked, or removed from the index: restic's rules in restic's order, so that both
//! programs leave the same packs.

use super::packs::{Pack, PackTable};
use super::{Options, Sum, Totals};

/// The smallest pack size that is aimed at.
const MIN_PACK: u64 = 4 << 20;
/// Fewer small packs than this are not worth repacking, and a single one would be repacked for ever.
const FEW_SMALL_PACKS: usize = 10;

/// What happens to a pack in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Keep,
    Repack,
    /// It contains no used blobs.
    TakeOut,
    /// It contains no used blobs, and the store does not have it.
    ForgetMissing,
}

/// A pack that may be repacked.
struct Candidate {
    position: usize,
    must_compress: bool,
    /// For sorting: trees and mixed packs first, then small ones, then those with the largest unused share.
    data: bool,
    large: bool,
    used: u64,
    unused: u64,
}

/// Decides about every pack and counts.
pub(super) fn choose(packs: &mut PackTable, options: &Options, compresses: bool, totals: &mut Totals) {
    let target = options.small_pack.unwrap_or_else(|| target_size(packs));
    let mut candidates = Vec::new();
    let mut small = Vec::new();
    for (position, pack) in packs.iter_mut().enumerate() {
        let must_compress =
            compresses && pack.uncompressed && (pack.is_trees() || options.repack_uncompressed);
        let candidate = Candidate {
            position,
            must_compress,
            data: pack.is_data(),
            large: pack.size() >= target,
            used: pack.used_size,
            unused: pack.unused_size,
        };
        count(pack, compresses, totals);
        if pack.used_blobs == 0 {
            let missing = pack.listed_size.is_none();
            pack.action = if missing { Action::ForgetMissing } else { Action::TakeOut };
            totals.remove += Sum { blobs: pack.unused_blobs.into(), bytes: pack.unused_size };
            totals.packs_remove += u64::from(!missing);
        } else if options.repack_cacheable_only && pack.is_data() {
            totals.packs_keep += 1;
        } else if pack.unused_blobs > 0 || pack.is_mixed() || must_compress {
            candidates.push(candidate);
        } else if candidate.large {
            totals.packs_keep += 1;
        } else {
            small.push(candidate);
        }
    }
    if small.len() < FEW_SMALL_PACKS {
        totals.packs_keep += small.len() as u64;
    } else {
        candidates.append(&mut small);
    }
    candidates.sort_by(|a, b| {
        let share = |this: &Candidate, other: &Candidate| u128::from(this.unused) * u128::from(other.used);
        (a.data, a.large).cmp(&(b.data, b.large)).then_with(|| share(b, a).cmp(&share(a, b)))
    });
    repack(packs, &candidates, options, compresses, totals);
}

/// Takes candidates until the remaining unused data is within the limit. Trees, packs that must be compressed and
/// small packs are only limited by the amount to repack.
fn repack(
    packs: &mut PackTable,
    candidates: &[Candidate],
    options: &Options,
    compresses: bool,
    totals: &mut Totals,
) {
    let tolerated = options.max_unused.limit(totals.used.bytes);
    for candidate in candidates {
        let size = candidate.used + candidate.unused;
        let too_much =
            options.max_repack.is_some_and(|limit| totals.repack.bytes.saturating_add(size) >= limit);
        let enough = totals.unused_after() < tolerated;
        let needed = !candidate.data || candidate.must_compress || !candidate.large;
        if too_much || (enough && !needed) {
            totals.packs_keep += 1;
            continue;
        }
        let Some(pack) = packs.iter_mut().nth(candidate.position) else { continue };
        pack.action = Action::Repack;
        totals.packs_repack += 1;
        totals.repack +=
            Sum { blobs: u64::from(pack.used_blobs) + u64::from(pack.unused_blobs), bytes: size };
        totals.repack_removes += Sum { blobs: pack.unused_blobs.into(), bytes: pack.unused_size };
        if pack.uncompressed && compresses {
            totals.uncompressed_bytes -= size;
        }
    }
}

/// Four fifths of the size that all but the smallest three percent of packs have, but at least four fifths of the
/// minimum size: a repository without small packs has nothing to repack.
fn target_size(packs: &PackTable) -> u64 {
    let mut sizes: Vec<u64> = packs.iter().map(Pack::size).collect();
    if sizes.is_empty() {
        return 0;
    }
    let at = packs.len() * 3 / 100;
    let (_, size, _) = sizes.select_nth_unstable(at);
    MIN_PACK.max(*size) / 5 * 4 + MIN_PACK.max(*size) % 5 * 4 / 5
}

/// The figures about current packs. A pack that the store does not have is not counted, as in restic.
fn count(pack: &Pack, compresses: bool, totals: &mut Totals) {
    if pack.listed_size.is_none() {
        return;
    }
    if pack.used_blobs == 0 {
        totals.packs_unused += 1;
    } else if pack.unused_blobs == 0 {
        totals.packs_used += 1;
    } else {
        totals.packs_partly_used += 1;
    }
    if pack.uncompressed && compresses {
        totals.uncompressed_bytes += pack.size();
    }
}
