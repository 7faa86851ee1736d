//! Each program reads what the other wrote: content and all metadata, in both directions, in both formats.

use std::fs;

use lifeboat_e2e::tree::{Listing, everything};
use lifeboat_e2e::{Engine, Repository};
use rstest::rstest;

use super::directory;

/// Each row: the writer, the format, the reader.
#[rstest]
#[case(Engine::Restic, "2", Engine::Restic)]
#[case(Engine::Lifeboat, "2", Engine::Lifeboat)]
#[case(Engine::Lifeboat, "2", Engine::Restic)]
#[case(Engine::Lifeboat, "1", Engine::Restic)]
#[case(Engine::Restic, "2", Engine::Lifeboat)]
#[case(Engine::Restic, "1", Engine::Lifeboat)]
#[case(Engine::Restic014, "2", Engine::Lifeboat)]
#[case(Engine::Restic014, "1", Engine::Lifeboat)]
fn everything_that_one_wrote_the_other_restores(
    #[case] writer: Engine,
    #[case] format: &str,
    #[case] reader: Engine,
) {
    let work = directory();
    let source = work.path().join("source");
    fs::create_dir(&source).unwrap();
    everything(&source);
    let expected = Listing::of(&source).without_sockets();
    let repository = Repository::local(&work.path().join("repository"));
    repository.ok(writer, &["init", "--repository-version", format]);
    repository.ok(writer, &["backup", source.to_str().unwrap()]);
    let restored = repository.restore(reader, "latest", &source, &work.path().join("target"));
    let found = Listing::of(&restored);
    assert_kept(writer, &expected, &found);
    let restored = work.path().join("sparse");
    repository.ok(reader, &["restore", "latest", "--sparse", "--target", restored.to_str().unwrap()]);
    let found = Listing::of(&restored.join(source.strip_prefix("/").unwrap()));
    assert_kept(writer, &expected, &found);
    assert_eq!(expected.holes_lost(&found, smallest_hole(reader)), Vec::<String>::new());
    // The reader adds a snapshot to the writer's repository; without a parent, so that it reads every file itself.
    let again = repository.backup(reader, &source, &["--force"]);
    repository.assert_sound();
    let restored = repository.restore(Engine::Restic, &again, &source, &work.path().join("again"));
    assert_kept(reader, &expected, &Listing::of(&restored));
}

/// Fails for differences other than what the writer does not store.
fn assert_kept(writer: Engine, expected: &Listing, found: &Listing) {
    let not_stored: &[&str] = match writer {
        Engine::Restic014 => {
            &[r#""attributes/link": attribute "trusted.lifeboat""#, r#""links/not UTF-8": content is a link"#]
        }
        Engine::Lifeboat | Engine::Restic => &[],
    };
    let mut lines = expected.differences(found);
    lines.retain(|line| !not_stored.iter().any(|known| line.starts_with(known)));
    assert!(lines.is_empty(), "{} differences:\n{}", lines.len(), lines.join("\n"));
}

/// restic skips only zeros at the beginning of a blob, and a small file is one blob.
fn smallest_hole(reader: Engine) -> u64 {
    if reader == Engine::Lifeboat { 64 << 10 } else { 1 << 20 }
}
