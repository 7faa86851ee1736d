use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case::as_it_is("/source/data", Ok("/source/data"))]
#[case::trailing_slash("/source/data/", Ok("/source/data"))]
#[case::doubled_slashes("//source///data", Ok("/source/data"))]
#[case::current_directory("/source/./data/.", Ok("/source/data"))]
#[case::root("/", Ok("/"))]
#[case::dots_in_names("/source/..data", Ok("/source/..data"))]
#[case::relative("source/data", Err("is not an absolute path"))]
#[case::empty("", Err("is not an absolute path"))]
#[case::parent("/source/../etc", Err("component '..'"))]
#[case::nul("/source\0", Err("NUL"))]
fn one_directory_has_one_path(#[case] written: &str, #[case] expected: Result<&str, &str>) {
    match (CleanPath::new("target.paths", written), expected) {
        (Ok(path), Ok(expected)) => assert_eq!(path.as_str(), expected),
        (Err(error), Err(part)) => {
            let message = error.to_string();
            assert!(message.contains(part) && message.starts_with("target.paths"), "{message}");
        }
        (found, _) => panic!("{found:?}"),
    }
}

fn mounted(volume: &str, sub_path: Option<&str>) -> MountedPath {
    let path = CleanPath::stored("/").unwrap();
    MountedPath { path, volume: volume.into(), sub_path: sub_path.map(str::to_owned) }
}

#[rstest]
#[case::the_mount_itself("/data", "a", None)]
#[case::below_it("/data/db/main", "a", Some("db/main"))]
#[case::the_longest_mount_wins("/data/logs/old", "b", Some("old"))]
#[case::a_longer_name_is_not_below("/data/logs2", "a", Some("logs2"))]
#[case::sub_path_comes_first("/conf/app", "c", Some("etc/app/app"))]
#[case::sub_path_of_the_mount("/conf", "c", Some("etc/app"))]
fn a_path_belongs_to_the_longest_mount_above_it(
    #[case] path: &str,
    #[case] volume: &str,
    #[case] sub_path: Option<&str>,
) {
    let mut target = backup_target(
        TargetKind::Deployment,
        &[("a", "/data/"), ("b", "/data/logs"), ("c", "/conf")],
        &[path],
    );
    target.volume_mounts[2].sub_path = Some("etc//app/".into());
    let plan = MountPlan::of_backup(TargetKind::Deployment, &target).unwrap();
    let expected = MountedPath { path: CleanPath::stored(path).unwrap(), ..mounted(volume, sub_path) };
    assert_eq!(plan.paths, [expected]);
}

#[rstest]
#[case::one_for_each_mount(&[], &["/data", "/data/logs"])]
#[case::as_listed(&["/data/logs", "/data/db"], &["/data/logs", "/data/db"])]
#[case::each_once(&["/data", "/data/", "//data"], &["/data"])]
#[case::nested_paths_are_two_snapshots(&["/data", "/data/db"], &["/data", "/data/db"])]
fn there_is_one_snapshot_for_each_path(#[case] paths: &[&str], #[case] expected: &[&str]) {
    let target = backup_target(TargetKind::Deployment, &[("a", "/data"), ("b", "/data/logs")], paths);
    let plan = MountPlan::of_backup(TargetKind::Deployment, &target).unwrap();
    let found: Vec<&str> = plan.paths.iter().map(|path| path.path.as_str()).collect();
    assert_eq!(found, expected);
}

#[rstest]
#[case::listed_as_well(&["/data", "/data/logs"], 0)]
#[case::every_mount(&[], 0)]
#[case::left_out(&["/data"], 1)]
#[case::only_a_part_of_it(&["/data", "/data/logs/old"], 1)]
#[case::beside_it(&["/data/db"], 0)]
fn a_mount_that_a_path_hides_is_noted(#[case] paths: &[&str], #[case] expected: usize) {
    let target = backup_target(TargetKind::Deployment, &[("a", "/data"), ("b", "/data/logs")], paths);
    let plan = MountPlan::of_backup(TargetKind::Deployment, &target).unwrap();
    let notes = plan.hidden();
    assert_eq!(notes.len(), expected, "{notes:?}");
    for note in notes {
        assert_eq!(note.condition(), "MountBelowPath");
        assert!(note.to_string().contains("volume b is mounted at /data/logs, below path /data"), "{note}");
    }
}

#[test]
fn a_claim_has_upstreams_mount_by_default() {
    let target = backup_target(TargetKind::Claim, &[], &["/stash-data/db"]);
    let plan = MountPlan::of_backup(TargetKind::Claim, &target).unwrap();
    assert_eq!(plan.paths[0].volume, "web");
    assert_eq!(plan.paths[0].sub_path.as_deref(), Some("db"));
    let target = backup_target(TargetKind::Claim, &[("anything", "/source/data")], &[]);
    let plan = MountPlan::of_backup(TargetKind::Claim, &target).unwrap();
    assert_eq!(
        plan.paths[0],
        MountedPath { path: CleanPath::stored("/source/data").unwrap(), ..mounted("web", None) }
    );
}

#[rstest]
#[case::no_mounts(backup_target(TargetKind::Deployment, &[], &["/data"]), "volumeMounts has no entry")]
#[case::below_no_mount(backup_target(TargetKind::Deployment, &[("a", "/data")], &["/source"]), "path /source is below no mount of the target; target.volumeMounts has /data")]
#[case::above_a_mount(backup_target(TargetKind::Deployment, &[("a", "/data/db")], &["/data"]), "path /data is below no mount")]
#[case::relative_mount(backup_target(TargetKind::Deployment, &[("a", "data")], &[]), "target.volumeMounts[].mountPath \"data\"")]
#[case::one_path_for_two(backup_target(TargetKind::Deployment, &[("a", "/data"), ("b", "/data/")], &[]), "volumes \"a\" and \"b\" are both mounted at /data")]
#[case::expression(with(|mount| mount.sub_path_expr = Some("$(POD_NAME)".into())), "subPathExpr \"$(POD_NAME)\"")]
#[case::absolute_sub_path(with(|mount| mount.sub_path = Some("/etc".into())), "subPath \"/etc\"")]
#[case::sub_path_out_of_the_volume(with(|mount| mount.sub_path = Some("a/../..".into())), "subPath \"a/../..\"")]
fn bad_mounts_and_paths_are_named(#[case] target: BackupTarget, #[case] expected: &str) {
    let error = MountPlan::of_backup(TargetKind::Deployment, &target).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

fn with(change: impl Fn(&mut VolumeMount)) -> BackupTarget {
    let mut target = backup_target(TargetKind::Deployment, &[("a", "/data")], &[]);
    change(&mut target.volume_mounts[0]);
    target
}

fn components() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[ab]{1,2}", 0..4)
}

fn path_of(parts: &[String]) -> CleanPath {
    CleanPath::stored(&format!("/{}", parts.join("/"))).unwrap()
}

proptest! {
    /// Slashes and dots never change which directory is meant, and cleaning twice changes nothing.
    #[test]
    fn slashes_do_not_matter(parts in components(), slashes in 1..4_usize, dot: bool) {
        let between = if dot { format!("{}./", "/".repeat(slashes)) } else { "/".repeat(slashes) };
        let written = format!("/{}{}", parts.join(&between), "/".repeat(slashes));
        let clean = CleanPath::new("path", &written).unwrap();
        prop_assert_eq!(&clean, &path_of(&parts));
        prop_assert_eq!(CleanPath::new("path", clean.as_str()).unwrap(), clean);
    }

    /// The mount of a path is one whose components the path begins with, and no other such mount has more of them.
    #[test]
    fn the_mount_of_a_path_is_the_longest_one_above_it(
        mounts in proptest::collection::btree_set(components(), 1..5),
        path in components(),
    ) {
        let list: Vec<Mount> = mounts.iter().enumerate().map(|(place, parts)| Mount {
            volume: place.to_string(),
            mount_path: path_of(parts),
            sub_path: None,
        }).collect();
        let above = mounts.iter().enumerate().filter(|(_, parts)| path.starts_with(parts));
        let longest = above.max_by_key(|(_, parts)| parts.len());
        let found = find_mount(&list, &path_of(&path));
        match (longest, found) {
            (None, found) => prop_assert_eq!(found, None),
            (Some((place, parts)), found) => {
                let found = found.unwrap();
                prop_assert_eq!(found.volume, place.to_string());
                let rest = path[parts.len()..].join("/");
                prop_assert_eq!(found.sub_path.unwrap_or_default(), rest);
            }
        }
    }
}
