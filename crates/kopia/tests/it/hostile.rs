//! Each object of a small repository is changed by one bit, truncated, emptied, deleted or replaced by
//! another one: a restore gives the right bytes or reports the damage.

use lifeboat_kopia::Result;

use crate::fixtures::{Objects, all, restore_latest, store, try_open};
use crate::tree::{below, expected};

/// Whether everything was restored; otherwise the restore must have failed or reported a problem.
async fn right_or_error(objects: &Objects, what: &str) -> bool {
    let target = tempfile::tempdir().unwrap();
    let restored = async {
        let repository = try_open(store(objects).await).await?;
        restore_latest(&repository, target.path()).await
    };
    let restored: Result<_> = restored.await;
    match restored {
        Ok(outcome) if !outcome.is_incomplete() => {
            assert_eq!(below(target.path()), expected(), "{what}: wrong, and no problem was named");
            true
        }
        Ok(outcome) => {
            assert!(outcome.problem_count > 0, "{what}");
            false
        }
        Err(error) => {
            assert!(!error.to_string().is_empty(), "{what}");
            false
        }
    }
}

fn changed(objects: &Objects, key: &str, change: impl FnOnce(&mut Vec<u8>)) -> Objects {
    let mut objects = objects.clone();
    change(objects.get_mut(key).unwrap());
    objects
}

#[tokio::test]
async fn a_damaged_missing_or_swapped_object_never_gives_wrong_bytes() {
    for name in ["v3", "v1-compressed"] {
        let objects = &all()[name];
        let (mut right, mut wrong) = (0, 0);
        let mut tally = |is_right: bool| if is_right { right += 1 } else { wrong += 1 };
        for (key, content) in objects {
            for part in 0..3 {
                let flipped = changed(objects, key, |content| {
                    let at = (content.len().saturating_sub(1)) * part / 2;
                    content[at] ^= 0x10;
                });
                tally(right_or_error(&flipped, &format!("{name}: {key} flipped")).await);
            }
            let cut = changed(objects, key, |content| content.truncate(content.len() / 2));
            tally(right_or_error(&cut, &format!("{name}: {key} cut")).await);
            let empty = changed(objects, key, Vec::clear);
            let came_back = right_or_error(&empty, &format!("{name}: {key} empty")).await;
            assert!(!(came_back && name == "v3" && key.starts_with("kopia.repository")), "{key}");
            tally(came_back);
            let mut without = objects.clone();
            without.remove(key);
            tally(right_or_error(&without, &format!("{name}: {key} deleted")).await);
            let other = objects.iter().find(|(other, _)| *other != key && other[..1] == key[..1]);
            if let Some((_, other)) = other.filter(|(_, other)| *other != content) {
                let swapped = changed(objects, key, |content| content.clone_from(other));
                tally(right_or_error(&swapped, &format!("{name}: {key} swapped")).await);
            }
        }
        assert!(right > 0 && wrong > 0, "{name}: {right} right, {wrong} wrong");
    }
}

/// The only pack with data, and the format blob.
#[tokio::test]
async fn a_lost_object_that_is_needed_is_named() {
    let objects = &all()["v3"];
    for key in objects.keys().filter(|key| key.starts_with("kopia.repository") || key.starts_with("p/")) {
        let mut without = objects.clone();
        without.remove(key);
        assert!(!right_or_error(&without, key).await, "{key}");
    }
}

/// Error correction repairs a flipped bit in every pack and index blob.
#[tokio::test]
async fn error_correction_repairs_what_is_flipped() {
    let objects = &all()["ecc-10"];
    let mut flipped = objects.clone();
    for (key, content) in &mut flipped {
        if key.starts_with("p/") || key.starts_with("q/") || key.starts_with("x/") {
            let length = content.len();
            content[length / 3] ^= 0x10;
        }
    }
    assert!(right_or_error(&flipped, "ecc-10").await);
}
