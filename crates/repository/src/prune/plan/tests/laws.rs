//! Properties of every plan for every repository.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::world::{NOW, World, hour, pack_id};
use super::*;

#[derive(Debug, Clone)]
struct Blob {
    tree: bool,
    length: u32,
    used: bool,
    compressed: bool,
    packs: Vec<u8>,
}

prop_compose! {
    fn blob()(
        tree in prop::bool::weighted(0.2),
        length in prop_oneof![4 => 1..300_000_u32, 1 => (3_u32 << 20)..(9 << 20)],
        used in prop::bool::weighted(0.7),
        compressed in prop::bool::weighted(0.9),
        packs in prop_oneof![
            4 => prop::collection::vec(0..25_u8, 1..2),
            1 => prop::collection::vec(0..25_u8, 1..4),
        ],
    ) -> Blob {
        Blob { tree, length, used, compressed, packs }
    }
}

prop_compose! {
    fn world()(
        blobs in prop::collection::vec(blob(), 0..120),
        unindexed in prop::collection::vec((100..140_u8, -60..2_i64), 0..12),
        marks in prop::collection::vec((0..140_u8, -60..2_i64), 0..40),
        compresses in any::<bool>(),
        name_twice in prop::bool::weighted(0.2),
    ) -> World {
        let mut world = World { compresses, name_twice, ..World::default() };
        for blob in blobs {
            let kind = if blob.tree { TREE } else { DATA };
            if blob.compressed && compresses {
                world.blob(kind, blob.length, blob.used, &blob.packs);
            } else {
                world.uncompressed_blob(kind, blob.length, blob.used, &blob.packs);
            }
        }
        for (pack, hours) in unindexed.into_iter().collect::<BTreeMap<_, _>>() {
            world.unindexed(pack, u64::from(pack) * 1000, hour(hours));
        }
        world.marks = marks.into_iter().map(|(pack, hours)| (pack_id(pack), hour(hours))).collect();
        world
    }
}

prop_compose! {
    fn options()(
        max_unused in prop_oneof![
            (0..60_u32).prop_map(|percent| MaxUnused::Percent(percent.into())),
            (0..20_000_000_u64).prop_map(MaxUnused::Bytes),
            Just(MaxUnused::Unlimited),
        ],
        max_repack in prop::option::of(0..40_000_000_u64),
        repack_cacheable_only in any::<bool>(),
        repack_uncompressed in any::<bool>(),
        small_pack in prop::option::of(0..(16_u64 << 20)),
        grace_hours in prop_oneof![1 => Just(0_u64), 3 => 1..48_u64],
    ) -> Options {
        Options {
            max_unused, max_repack, repack_cacheable_only, repack_uncompressed, small_pack,
            grace: Duration::from_hours(grace_hours), exclusive: true, ..Options::default()
        }
    }
}

fn set(packs: &[PackId]) -> BTreeSet<PackId> {
    packs.iter().copied().collect()
}

/// The repository after the plan was carried out: repacked blobs are in a new pack.
fn after(world: &World, plan: &PrunePlan) -> World {
    let leaves = set(&plan.leaves_index());
    let mut next = World { compresses: world.compresses, ..World::default() };
    let factor = 1 + u64::from(world.name_twice);
    let mut new_offset = 0;
    let used_ids: BTreeSet<_> =
        world.copies.iter().zip(&world.used).filter(|(_, used)| **used).map(|(copy, _)| copy.id).collect();
    for (number, copy) in (0..).zip(&world.copies) {
        let again = (0..factor).any(|twin| plan.copies_to_repack.contains(number * factor + twin));
        let mut stays = *copy;
        if again {
            let compressed = copy.compressed || world.compresses;
            stays = BlobCopy { pack: pack_id(250), offset: new_offset, compressed, ..*copy };
            new_offset += copy.length;
        } else if leaves.contains(&copy.pack) {
            continue;
        }
        next.copies.push(stays);
        next.used.push(used_ids.contains(&copy.id));
    }
    next
}

proptest! {
    #[test]
    fn every_used_blob_keeps_a_copy_or_is_written_again_once(world in world(), options in options()) {
        let options = Options { repack_uncompressed: options.repack_uncompressed && world.compresses, ..options };
        let plan = world.plan(&options).unwrap();
        let leaves = set(&plan.leaves_index());
        let repack = set(&plan.repack);
        let factor = 1 + u64::from(world.name_twice);
        let mut blobs: BTreeMap<BlobId, (bool, bool, u32)> = BTreeMap::new();
        for ((number, copy), used) in (0..).zip(&world.copies).zip(&world.used) {
            let again = (0..factor).filter(|twin| plan.copies_to_repack.contains(number * factor + twin)).count();
            prop_assert!(again == 0 || repack.contains(&copy.pack));
            let (is_used, stays, written) = blobs.entry(copy.id).or_default();
            *is_used |= *used;
            *stays |= !leaves.contains(&copy.pack);
            *written += u32::try_from(again).unwrap();
        }
        for (is_used, stays, written) in blobs.into_values() {
            prop_assert_eq!(written, u32::from(is_used && !stays));
        }
    }

    #[test]
    fn nothing_is_deleted_that_the_index_will_name_or_whose_grace_is_not_over(
        world in world(),
        options in options(),
    ) {
        let options = Options { repack_uncompressed: false, ..options };
        let plan = world.plan(&options).unwrap();
        let leaves = set(&plan.leaves_index());
        let before = set(&world.index_packs());
        let listed: BTreeMap<_, _> = world.listed().into_iter().map(|pack| (pack.id, pack)).collect();
        for id in &plan.delete {
            prop_assert!(!before.contains(id) || leaves.contains(id));
            if !options.grace.is_zero() {
                prop_assert!(!before.contains(id));
                let since = world.marks[id].max(listed[id].modified);
                prop_assert!(NOW.duration_since(since) >= SignedDuration::try_from(options.grace).unwrap());
            }
        }
    }

    #[test]
    fn every_pack_of_the_store_stays_waits_is_marked_or_is_deleted(world in world(), options in options()) {
        let options = Options { repack_uncompressed: false, ..options };
        let plan = world.plan(&options).unwrap();
        let leaves = set(&plan.leaves_index());
        let stays: Vec<_> = world.index_packs().into_iter().filter(|id| !leaves.contains(id)).collect();
        let waiting: Vec<_> = plan.waiting.iter().map(|(id, _)| *id).collect();
        let mut all = [stays, waiting, plan.mark.clone(), plan.delete.clone()].concat();
        all.sort();
        let mut listed: Vec<_> = world.listed().iter().map(|pack| pack.id).collect();
        listed.sort();
        prop_assert_eq!(all, listed);
        prop_assert!(options.grace.is_zero() || leaves.iter().all(|id| plan.mark.contains(id)));
        let void: BTreeSet<_> =
            world.index_packs().into_iter().filter(|id| world.marks.contains_key(id)).collect();
        prop_assert_eq!(set(&plan.void_marks), void);
    }

    #[test]
    fn the_limit_of_repacking_is_kept_and_the_sums_add_up(world in world(), options in options()) {
        let options = Options { repack_uncompressed: false, ..options };
        let totals = world.plan(&options).unwrap().totals;
        if let Some(limit) = options.max_repack {
            prop_assert!(totals.repack.bytes < limit || totals.repack.bytes == 0);
        }
        let indexed = totals.packs_keep + totals.packs_repack + totals.packs_remove;
        prop_assert_eq!(indexed, world.index_packs().len() as u64);
        prop_assert_eq!(indexed, totals.packs_used + totals.packs_partly_used + totals.packs_unused);
        prop_assert_eq!(totals.total().blobs, world.copies.len() as u64);
        prop_assert!(totals.remaining().bytes >= totals.used.bytes);
    }

    #[test]
    fn a_second_prune_finds_all_that_is_used_and_nothing_to_take_out(world in world(), options in options()) {
        let options = Options { repack_uncompressed: false, small_pack: Some(0), ..options };
        let plan = world.plan(&options).unwrap();
        let next = after(&world, &plan);
        let again = next.plan(&options).unwrap();
        // For blobs with several copies it may choose another one, so that another pack becomes unused.
        let ids: BTreeSet<_> = world.copies.iter().map(|copy| copy.id).collect();
        prop_assert!(again.take_out.is_empty() || ids.len() < world.copies.len());
        prop_assert_eq!(again.totals.used, plan.totals.used);
        if options.max_repack.is_none() && options.max_unused == MaxUnused::Bytes(0) {
            let cacheable = options.repack_cacheable_only;
            prop_assert!(again.totals.unused_after() == 0 || cacheable || ids.len() < world.copies.len());
        }
    }
}
