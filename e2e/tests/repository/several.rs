//! One repository with several writers: in turns, and at the same time. All of them can restore every acknowledged
//! snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use lifeboat_e2e::tree::{Listing, Random, change};
use lifeboat_e2e::{Engine, Repository};
use rstest::rstest;

use super::directory;

/// An acknowledged snapshot and its content.
struct Acknowledged {
    id: String,
    source: PathBuf,
    expected: Listing,
}

#[rstest]
#[case(Engine::Lifeboat, Engine::Restic)]
#[case(Engine::Restic, Engine::Lifeboat)]
fn writers_in_turns_lose_nothing_of_each_other(#[case] one: Engine, #[case] other: Engine) {
    let work = directory();
    let source = work.path().join("source");
    fs::create_dir(&source).unwrap();
    let mut random = Random::new(2);
    let repository = Repository::local(&work.path().join("repository"));
    repository.ok(one, &["init"]);
    let mut kept = Vec::new();
    for round in 0..6 {
        change(&source, &mut random, 30, 300_000);
        let (writer, helper) = if round % 2 == 0 { (one, other) } else { (other, one) };
        kept.push(acknowledged(&repository, writer, &source, &[]));
        if round == 3 {
            let gone = kept.remove(0);
            repository.ok(helper, &["forget", &gone.id]);
            repository.ok(writer, &["prune"]);
        }
    }
    assert_all_there(&repository, &kept, &[one, other], work.path());
}

#[rstest]
#[case::marking([Engine::Lifeboat, Engine::Restic, Engine::Lifeboat], &[])]
#[case::deleting_at_once([Engine::Lifeboat, Engine::Restic, Engine::Lifeboat], &["--grace", "0"])]
#[case::by_restic([Engine::Lifeboat, Engine::Restic, Engine::Restic], &[])]
fn backups_and_prunes_at_the_same_time_lose_nothing(
    #[case] engines: [Engine; 3],
    #[case] prune_flags: &[&str],
) {
    let work = directory();
    let repository = Repository::local(&work.path().join("repository"));
    repository.ok(engines[0], &["init"]);
    let [one, other, pruner] = engines;
    let kept = thread::scope(|scope| {
        let backups = [(one, "one", 3), (other, "other", 4)].map(|(engine, name, seed)| {
            let (repository, source) = (&repository, work.path().join(name));
            scope.spawn(move || backup_again_and_again(repository, engine, &source, seed))
        });
        let prunes = scope.spawn(|| {
            for _ in 0..3 {
                repository
                    .ok(pruner, &["forget", "--retry-lock", "5m", "--tag", "passing", "--keep-last", "1"]);
                repository.ok(pruner, &[&["prune", "--retry-lock", "5m"], prune_flags].concat());
            }
        });
        let kept: Vec<Acknowledged> = backups.into_iter().flat_map(|each| each.join().unwrap()).collect();
        prunes.join().unwrap();
        kept
    });
    assert_all_there(&repository, &kept, &[one, other], work.path());
}

/// Snapshots that are kept, and between them some that the pruner may remove.
fn backup_again_and_again(
    repository: &Repository,
    engine: Engine,
    source: &Path,
    seed: u64,
) -> Vec<Acknowledged> {
    fs::create_dir(source).unwrap();
    let mut random = Random::new(seed);
    let mut kept = Vec::new();
    for _ in 0..4 {
        change(source, &mut random, 20, 300_000);
        repository.backup(engine, source, &["--retry-lock", "5m", "--tag", "passing"]);
        change(source, &mut random, 20, 300_000);
        kept.push(acknowledged(repository, engine, source, &["--retry-lock", "5m"]));
    }
    kept
}

fn acknowledged(repository: &Repository, engine: Engine, source: &Path, flags: &[&str]) -> Acknowledged {
    let id = repository.backup(engine, source, flags);
    Acknowledged { id, source: source.to_owned(), expected: Listing::of(source) }
}

fn assert_all_there(repository: &Repository, kept: &[Acknowledged], engines: &[Engine], work: &Path) {
    repository.assert_sound();
    for (index, engine) in engines.iter().enumerate() {
        for each in kept {
            let target = work.join(format!("restored-{index}-{}", each.id));
            let restored = repository.restore(*engine, &each.id, &each.source, &target);
            each.expected.assert_same(&Listing::of(&restored), &format!("{engine:?} restored {}", each.id));
            fs::remove_dir_all(target).unwrap();
        }
    }
}
