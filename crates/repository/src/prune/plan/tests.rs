//! Tables of single decisions, and properties of every plan, whatever the repository looks like.

mod laws;
mod world;

use rstest::rstest;

use super::*;
use world::{NOW, World, hour, pack_id};

const DATA: BlobKind = BlobKind::Data;
const TREE: BlobKind = BlobKind::Tree;

fn exclusive() -> Options {
    Options { exclusive: true, ..Options::default() }
}

fn refused(world: &World, options: &Options) -> String {
    match world.plan(options) {
        Err(Error::Refused { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_pack_with_nothing_used_leaves_the_index_and_is_marked_but_not_deleted() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.blob(DATA, 5 << 20, false, &[2]);
    let plan = world.plan(&exclusive()).unwrap();
    assert_eq!((plan.take_out, plan.mark), (vec![pack_id(2)], vec![pack_id(2)]));
    assert!(plan.repack.is_empty() && plan.delete.is_empty());
    assert_eq!(plan.next_due, Some(hour(24)));
    assert_eq!(plan.totals.remove, Sum { blobs: 1, bytes: 5 << 20 });
}

#[test]
fn with_grace_zero_one_run_takes_out_and_deletes() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.blob(DATA, 5 << 20, false, &[2]);
    world.unindexed(3, 1000, NOW);
    let plan = world.plan(&Options { grace: Duration::ZERO, ..exclusive() }).unwrap();
    assert_eq!(plan.take_out, [pack_id(2)]);
    assert_eq!(plan.delete, sorted(&[2, 3]));
    assert!(plan.mark.is_empty() && plan.waiting.is_empty() && plan.next_due.is_none());
}

#[rstest]
#[case::no_mark(None, -100, "mark")]
#[case::fresh_mark(Some(-1), -100, "wait")]
#[case::just_not(Some(-23), -100, "wait")]
#[case::just_due(Some(-24), -100, "delete")]
#[case::uploaded_after_the_mark(Some(-30), -5, "wait")]
#[case::uploaded_after_the_mark_long_ago(Some(-50), -30, "delete")]
#[case::mark_from_the_future(Some(1), -100, "mark")]
#[case::upload_from_the_future(Some(-30), 1, "wait")]
fn a_pack_that_no_index_names_waits_from_its_mark_or_upload_whichever_is_later(
    #[case] marked_hours: Option<i64>,
    #[case] uploaded_hours: i64,
    #[case] expected: &str,
) {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.unindexed(2, 1000, hour(uploaded_hours));
    world.marks.extend(marked_hours.map(|hours| (pack_id(2), hour(hours))));
    let plan = world.plan(&exclusive()).unwrap();
    let lists = [
        ("mark", plan.mark.as_slice()),
        ("wait", &plan.waiting.iter().map(|(id, _)| *id).collect::<Vec<_>>()),
        ("delete", &plan.delete),
    ];
    for (name, list) in lists {
        assert_eq!(list.contains(&pack_id(2)), name == expected, "{name}");
    }
}

#[test]
fn the_mark_of_a_pack_that_an_index_names_again_is_void() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.blob(DATA, 5 << 20, false, &[2]);
    world.marks.extend([1, 2].map(|number| (pack_id(number), hour(-100))));
    let plan = world.plan(&exclusive()).unwrap();
    assert_eq!(plan.void_marks, sorted(&[1, 2]));
    assert_eq!(plan.mark, [pack_id(2)]);
    assert!(plan.delete.is_empty());
}

#[test]
fn grace_zero_without_the_exclusive_lock_is_refused() {
    let options = Options { grace: Duration::ZERO, exclusive: false, ..Options::default() };
    assert!(World::default().plan(&options).is_err());
}

#[test]
fn no_snapshot_where_there_is_data_is_refused_unless_it_was_meant() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, false, &[1]);
    world.snapshots = 0;
    assert!(refused(&world, &exclusive()).contains("no snapshot"));
    let plan = world.plan(&Options { allow_no_snapshots: true, ..exclusive() }).unwrap();
    assert_eq!(plan.take_out, [pack_id(1)]);
    let mut only_packs = World { snapshots: 0, ..World::default() };
    only_packs.unindexed(1, 100, hour(-1000));
    assert!(refused(&only_packs, &exclusive()).contains("no snapshot"));
    assert!(World { snapshots: 0, ..World::default() }.plan(&exclusive()).is_ok());
}

#[test]
fn a_used_blob_that_the_index_does_not_name_is_refused() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.missing.push((TREE, BlobId(crate::id::Id::of(b"gone"))));
    assert!(refused(&world, &exclusive()).contains("not in the index"));
}

#[rstest]
#[case::missing(None, "is missing")]
#[case::too_short(Some(-1), "bytes instead of")]
#[case::too_long(Some(1), "bytes instead of")]
fn a_needed_pack_that_differs_from_the_index_is_refused(#[case] longer: Option<i64>, #[case] expected: &str) {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.blob(DATA, 5 << 20, true, &[2]);
    world.resize(2, longer);
    assert!(refused(&world, &exclusive()).contains(expected));
}

#[test]
fn an_unneeded_pack_that_is_missing_only_leaves_the_index() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.blob(DATA, 5 << 20, false, &[2]);
    world.resize(2, None);
    let plan = world.plan(&exclusive()).unwrap();
    assert_eq!(plan.forget_missing, [pack_id(2)]);
    assert!(plan.take_out.is_empty() && plan.mark.is_empty() && plan.delete.is_empty());
    assert!(plan.changes_index());
}

#[test]
fn a_listing_that_repeats_itself_is_refused() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.repeat_listing = true;
    assert!(refused(&world, &exclusive()).contains("twice"));
}

#[rstest]
#[case::tolerated("50%", &[])]
#[case::all_of_it("0%", &[1, 2])]
#[case::the_worst_first("20%", &[2])]
#[case::unlimited("unlimited", &[])]
fn packs_are_repacked_until_what_is_unused_is_tolerable(
    #[case] max_unused: MaxUnused,
    #[case] expected: &[u8],
) {
    let mut world = World::default();
    world.blob(DATA, 9 << 20, true, &[1]);
    world.blob(DATA, 1 << 20, false, &[1]);
    world.blob(DATA, 5 << 20, true, &[2]);
    world.blob(DATA, 5 << 20, false, &[2]);
    let plan = world.plan(&Options { max_unused, ..exclusive() }).unwrap();
    assert_eq!(plan.repack, sorted(expected));
    assert_eq!(plan.copies_to_repack.count(), expected.len() as u64);
}

#[rstest]
#[case::no_limit(None, 2)]
#[case::one_pack(Some(15 << 20), 1)]
// Two blobs, their entries and the header.
#[case::exactly_one_pack_is_the_limit_itself(Some((10 << 20) + 2 * 41 + 36), 0)]
#[case::one_pack_and_a_byte(Some((10 << 20) + 2 * 41 + 37), 1)]
#[case::nothing(Some(0), 0)]
fn repacking_stays_below_its_limit(#[case] max_repack: Option<u64>, #[case] packs: usize) {
    let mut world = World::default();
    for pack in [1, 2] {
        world.blob(DATA, 5 << 20, true, &[pack]);
        world.blob(DATA, 5 << 20, false, &[pack]);
    }
    let options = Options { max_unused: MaxUnused::Bytes(0), max_repack, ..exclusive() };
    assert_eq!(world.plan(&options).unwrap().repack.len(), packs);
}

#[rstest]
#[case::nine_are_few(9, 0)]
#[case::ten_are_put_together(10, 10)]
fn small_packs_are_put_together_when_there_are_enough(#[case] packs: u8, #[case] repacked: usize) {
    let mut world = World::default();
    for pack in 0..packs {
        world.blob(DATA, 100_000, true, &[pack]);
    }
    assert_eq!(world.plan(&exclusive()).unwrap().repack.len(), repacked);
    let smaller = Options { small_pack: Some(50_000), ..exclusive() };
    assert!(world.plan(&smaller).unwrap().repack.is_empty());
}

#[test]
fn a_mixed_pack_is_repacked_and_trees_go_first() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.blob(TREE, 5 << 20, true, &[1]);
    world.blob(TREE, 5 << 20, true, &[2]);
    world.blob(TREE, 5 << 20, false, &[2]);
    world.blob(DATA, 5 << 20, true, &[3]);
    world.blob(DATA, 50 << 20, false, &[3]);
    let options = Options { max_unused: MaxUnused::Unlimited, ..exclusive() };
    assert_eq!(world.plan(&options).unwrap().repack, sorted(&[1, 2]));
    let cacheable = Options { max_unused: MaxUnused::Bytes(0), repack_cacheable_only: true, ..exclusive() };
    assert_eq!(world.plan(&cacheable).unwrap().repack, sorted(&[1, 2]));
}

#[rstest]
#[case::trees_always(TREE, true, false, true)]
#[case::data_when_asked(DATA, true, true, true)]
#[case::data_not_by_itself(DATA, true, false, false)]
#[case::not_in_version_1(TREE, false, false, false)]
fn what_is_not_compressed_is_repacked(
    #[case] kind: BlobKind,
    #[case] compresses: bool,
    #[case] asked: bool,
    #[case] repacked: bool,
) {
    let mut world = World { compresses, ..World::default() };
    world.uncompressed_blob(kind, 5 << 20, true, &[1]);
    let options = Options { repack_uncompressed: asked, ..exclusive() };
    let plan = world.plan(&options).unwrap();
    assert_eq!(!plan.repack.is_empty(), repacked);
    let left = compresses && !repacked;
    assert_eq!(plan.totals.uncompressed_bytes > 0, left);
}

#[test]
fn of_two_copies_the_one_beside_used_blobs_counts_and_is_not_written_again() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1, 2]);
    world.blob(DATA, 5 << 20, true, &[2]);
    world.blob(DATA, 5 << 20, false, &[1]);
    let plan = world.plan(&exclusive()).unwrap();
    assert_eq!(plan.take_out, [pack_id(1)]);
    assert_eq!(plan.copies_to_repack.count(), 0);
    assert_eq!((plan.totals.used.blobs, plan.totals.duplicate.blobs), (2, 1));
}

#[test]
fn the_packs_that_an_interrupted_prune_wrote_are_kept_and_the_old_ones_go() {
    // Pack 3 contains the used blobs of 1 and 2, which are still in the index.
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1, 3]);
    world.blob(DATA, 5 << 20, false, &[1]);
    world.blob(DATA, 5 << 20, true, &[2, 3]);
    world.blob(DATA, 5 << 20, false, &[2]);
    let plan = world.plan(&exclusive()).unwrap();
    assert_eq!((plan.take_out, plan.repack), (sorted(&[1, 2]), vec![]));
}

#[test]
fn two_index_files_that_name_the_same_pack_make_no_duplicates() {
    let mut world = World::default();
    world.blob(DATA, 5 << 20, true, &[1]);
    world.name_twice = true;
    let plan = world.plan(&exclusive()).unwrap();
    assert!(!plan.changes_index());
    assert_eq!((plan.totals.used.blobs, plan.totals.duplicate.blobs), (1, 0));
}

#[test]
fn an_empty_repository_has_nothing_to_do() {
    let plan = World::default().plan(&exclusive()).unwrap();
    assert!(!plan.changes_index() && plan.mark.is_empty() && plan.delete.is_empty());
    assert_eq!(plan.totals, Totals::default());
}

fn sorted(numbers: &[u8]) -> Vec<PackId> {
    let mut ids: Vec<_> = numbers.iter().map(|number| pack_id(*number)).collect();
    ids.sort();
    ids
}
