//! The same repository on all kinds of storage: a directory, a real S3 server, restic's own REST server.

use std::fs;

use lifeboat_e2e::tree::{Listing, Random, change};
use lifeboat_e2e::{Engine, Repository, RestServer, variable};
use rstest::rstest;

use super::directory;

#[rstest]
#[case(Engine::Lifeboat, Engine::Restic)]
#[case(Engine::Restic, Engine::Lifeboat)]
fn a_repository_on_s3_is_written_and_read(#[case] writer: Engine, #[case] reader: Engine) {
    let url = format!("s3:{}/lifeboat/{writer:?}-{reader:?}", variable("LIFEBOAT_S3_ENDPOINT"));
    write_and_read(&Repository::at(url), writer, reader);
}

#[rstest]
#[case(Engine::Lifeboat, Engine::Restic)]
#[case(Engine::Restic, Engine::Lifeboat)]
fn a_repository_on_a_rest_server_is_written_and_read(#[case] writer: Engine, #[case] reader: Engine) {
    let work = directory();
    let server = RestServer::start(work.path());
    write_and_read(&Repository::at(server.url("repository")), writer, reader);
}

fn write_and_read(repository: &Repository, writer: Engine, reader: Engine) {
    let work = directory();
    let source = work.path().join("source");
    fs::create_dir(&source).unwrap();
    let mut random = Random::new(1);
    change(&source, &mut random, 50, 300_000);
    repository.ok(writer, &["init"]);
    let first = (repository.backup(writer, &source, &[]), Listing::of(&source));
    change(&source, &mut random, 50, 300_000);
    let second = (repository.backup(reader, &source, &[]), Listing::of(&source));
    for (index, (id, expected)) in [first, second].iter().enumerate() {
        for engine in [writer, reader] {
            let target = work.path().join(format!("{index}-{engine:?}"));
            let restored = repository.restore(engine, id, &source, &target);
            expected.assert_same(&Listing::of(&restored), &format!("{engine:?} restored {id}"));
        }
    }
    repository.ok(reader, &["forget", "--keep-last", "1"]);
    repository.ok(writer, &["prune"]);
    repository.assert_sound();
}
