//! Genuine restic as a client of the gateway.

use std::fs;

use lifeboat_e2e::tree::{Listing, Random, change};
use lifeboat_e2e::{Engine, GatewayServer, Repository};
use serde_json::Value;

use super::directory;

fn snapshots(repository: &Repository) -> usize {
    let listed = repository.ok(Engine::Restic, &["snapshots", "--json"]);
    serde_json::from_str::<Vec<Value>>(&listed).unwrap().len()
}

#[test]
fn restic_backs_up_and_restores_through_the_gateway_and_cannot_forget() {
    let work = directory();
    let (bucket, source) = (work.path().join("bucket"), work.path().join("source"));
    let direct = Repository::local(&bucket);
    direct.ok(Engine::Restic, &["init"]);
    fs::create_dir(&source).unwrap();
    let mut random = Random::new(1);
    change(&source, &mut random, 50, 300_000);
    let expected = Listing::of(&source);

    let gateway = GatewayServer::start(&bucket, "correct horse", work.path());
    let trusted = ["--cacert", gateway.authority()];
    let backup = Repository::at(gateway.url("backup"));
    let first = backup.backup(Engine::Restic, &source, &trusted);
    backup.backup(Engine::Restic, &source, &trusted);
    assert_eq!(snapshots(&direct), 2);

    let restore = Repository::at(gateway.url("restore"));
    let target = work.path().join("target");
    let flags = ["restore", &first, "--target", target.to_str().unwrap()];
    restore.ok(Engine::Restic, &[&flags[..], &trusted].concat());
    let restored = target.join(source.strip_prefix("/").unwrap());
    expected.assert_same(&Listing::of(&restored), "restored through the gateway");

    let new_password = work.path().join("new-password");
    fs::write(&new_password, "another").unwrap();
    for (repository, command) in [
        (&backup, &["forget", &first][..]),
        (&backup, &["forget", "--keep-last", "1", "--prune"]),
        (&backup, &["key", "add", "--new-password-file", new_password.to_str().unwrap()]),
        (&restore, &["backup", source.to_str().unwrap()]),
    ] {
        let output = repository.run(Engine::Restic, &[command, &trusted].concat());
        assert!(output.code != 0 && output.stderr.contains("403"), "{command:?}: {}", output.stderr);
    }
    assert_eq!(snapshots(&direct), 2);
    assert!(direct.ok(Engine::Restic, &["list", "locks"]).trim().is_empty(), "no lock is left");
    direct.assert_sound();
}
