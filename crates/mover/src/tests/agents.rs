//! Commands of agents in real shells, with real pipes. `restic` in them is this test program (see `client`).

mod client;
mod faults;
mod recovery;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use lifeboat_repository::files::FileKind;
use lifeboat_repository::snapshot::Snapshot;
use rstest::rstest;

use super::world::{MoverEnd, World, backup_of, restore_to};
use crate::report::{Cause, Failure};
use crate::task::{
    AGENT_REPOSITORY, AgentCommand, AgentLine, AgentRun, BackupWork, RestoreWork, Source, Target, Task,
    TaskWork,
};

/// Shells that an image may have as `sh`.
const SHELLS: [&str; 4] = ["dash", "bash", "busybox", "ksh"];

/// Those that this machine has.
fn shells() -> Vec<PathBuf> {
    let found = |name: &str| ["/bin", "/usr/bin"].map(|directory| Path::new(directory).join(name));
    let shells = SHELLS.iter().filter_map(|name| found(name).into_iter().find(|path| path.exists()));
    let shells: Vec<PathBuf> = shells.collect();
    assert!(!shells.is_empty());
    shells
}

fn has_pipefail(shell: &Path) -> bool {
    let arguments: &[&str] = if shell.ends_with("busybox") { &["sh", "-c"] } else { &["-c"] };
    let mut command = std::process::Command::new(shell);
    command.args(arguments).arg("set -o pipefail").stderr(std::process::Stdio::null());
    command.status().unwrap().success()
}

/// A machine whose `sh` is that shell.
async fn world_with(shell: &Path) -> World {
    let mut world = World::new().await;
    std::fs::create_dir(world.path("bin")).unwrap();
    symlink(shell, world.path("bin/sh")).unwrap();
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    world.environment = vec![("PATH".to_owned(), path)];
    let this = std::env::current_exe().unwrap();
    let script = client::script(&this);
    std::fs::write(world.path("program"), script).unwrap();
    std::fs::set_permissions(world.path("program"), PermissionsExt::from_mode(0o755)).unwrap();
    world
}

async fn world() -> World {
    world_with(&shells()[0]).await
}

fn line(line: &str, arguments: &[&str]) -> AgentLine {
    let name = line.split(' ').next().unwrap().to_owned();
    let line = line.replace("R ", &format!("restic -r {AGENT_REPOSITORY} "));
    AgentLine { name, line, arguments: arguments.iter().map(|&word| word.to_owned()).collect() }
}

fn run(command: AgentCommand) -> AgentRun {
    AgentRun { command, secrets: vec!["DB_PASSWORD".to_owned()] }
}

/// The sides of a pipeline; `R ` stands for `restic` with its repository.
fn pipeline(sides: &[&str]) -> AgentRun {
    run(AgentCommand::Pipeline { sides: sides.iter().map(|side| line(side, &[])).collect() })
}

fn whole(text: &str) -> AgentRun {
    run(AgentCommand::Line(line(text, &[])))
}

fn backup(world: &World, run: AgentRun) -> Task {
    let source = Source::Agent { run, name: "dump.sql".to_owned() };
    let work = BackupWork { tags: vec!["database=shop".to_owned()], ..backup_of(source) };
    world.task("agent", TaskWork::Backup(work))
}

fn restore(world: &World, snapshot: &str, run: AgentRun) -> Task {
    let work: RestoreWork = restore_to(snapshot, Target::Agent { run });
    world.task("recovery", TaskWork::Restore(work))
}

/// Backs up a text and returns the snapshot's ID.
async fn dumped(world: &World, content: &[u8]) -> String {
    std::fs::write(world.path("dumped"), content).unwrap();
    let cat = format!("cat {}", world.path("dumped").display());
    world.run(&backup(world, pipeline(&[&cat, "R backup"]))).await.backed_up().snapshot
}

async fn snapshots(world: &World) -> Vec<Snapshot> {
    let repository = world.repository().await;
    repository.load_snapshots().await.unwrap().into_iter().map(|(_, snapshot)| snapshot).collect()
}

/// Nothing came of it: no snapshot, no lock, and nothing is left of the socket.
async fn failed(world: &World, end: MoverEnd) -> Failure {
    let failure = end.failed();
    let repository = world.repository().await;
    assert_eq!(repository.list(FileKind::Snapshot).await.unwrap(), [], "{failure:?}");
    clean(world).await;
    failure
}

async fn clean(world: &World) {
    world.assert_nothing_is_locked().await;
    let left = std::fs::read_dir(world.path("scratch")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with("agent-")), "{left:?}");
}

#[tokio::test]
async fn a_pipeline_is_stored_in_every_shell() {
    for shell in shells() {
        let world = world_with(&shell).await;
        let dump = line("printf '%s|' \"$@\"", &["--databases", "a b"]);
        let sides = vec![dump, line("tr a-z A-Z", &[]), line("R backup", &[])];
        let end = world.run(&backup(&world, run(AgentCommand::Pipeline { sides }))).await.backed_up();
        assert_eq!(end.bytes, 16, "{}", shell.display());
        let [snapshot] = snapshots(&world).await.try_into().unwrap();
        assert_eq!(snapshot.paths, ["/dump.sql"]);
        assert!(snapshot.tags.contains(&"database=shop".to_owned()), "{:?}", snapshot.tags);
        clean(&world).await;
        let file = world.path("loaded").display().to_string();
        let load = pipeline(&["R restore", &format!("cat > {file}")]);
        world.run(&restore(&world, &end.snapshot, load)).await.restored();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "--DATABASES|A B|");
        clean(&world).await;
    }
}

#[tokio::test]
async fn a_task_that_is_repeated_has_its_snapshot_already() {
    let world = world().await;
    let first = dumped(&world, b"rows").await;
    let again = world.run(&backup(&world, pipeline(&["false", "R backup"]))).await.backed_up();
    assert_eq!(again.snapshot, first);
    assert_eq!(snapshots(&world).await.len(), 1);
}

#[tokio::test]
async fn a_program_needs_no_shell() {
    let mut world = world().await;
    // `restic` of these tests is a script with an interpreter of its own.
    world.environment = vec![("PATH".to_owned(), world.path("scratch").display().to_string())];
    let argv = ["restic", "-r", AGENT_REPOSITORY, "backup"].map(str::to_owned).to_vec();
    let end = world.run(&backup(&world, run(AgentCommand::Program { argv }))).await;
    let failure = failed(&world, end).await;
    assert!(failure.message.contains("an empty dump is no backup"), "{failure:?}");
    let end = world.run(&backup(&world, pipeline(&["printf x", "R backup"]))).await;
    let failure = failed(&world, end).await;
    assert!(failure.message.contains("the image has no shell"), "{failure:?}");
}

#[tokio::test]
async fn a_line_with_other_operators_needs_pipefail() {
    for shell in shells() {
        let world = world_with(&shell).await;
        let end = world.run(&backup(&world, whole("cd / && printf rows | R backup; true"))).await;
        if has_pipefail(&shell) {
            assert_eq!(end.backed_up().bytes, 4);
            clean(&world).await;
        } else {
            let failure = failed(&world, end).await;
            assert!(failure.message.contains("no `pipefail`"), "{failure:?}");
        }
    }
}

#[rstest]
#[case::dump_fails("{ printf half; exit 3; } | R backup", "exit status: 3")]
#[case::dump_fails_and_the_line_goes_on("false | R backup; true", "an empty dump")]
#[case::half_a_dump("{ printf half; exit 3; } | R backup; true", "exit status: 3")]
#[case::two_snapshots("printf a | R backup && printf b | R backup", "a second time")]
#[case::in_the_background("printf a | R backup &", "restic")]
#[case::nothing("true; true", "none of them called")]
#[tokio::test]
async fn a_line_that_fails_anywhere_makes_no_snapshot(#[case] text: &str, #[case] expected: &str) {
    for shell in shells().iter().filter(|shell| has_pipefail(shell)) {
        let world = world_with(shell).await;
        let end = world.run(&backup(&world, whole(text))).await;
        let failure = failed(&world, end).await;
        assert_eq!(failure.cause, Cause::Source);
        assert!(failure.message.contains(expected), "{text}: {failure:?}");
    }
}

#[tokio::test]
async fn commands_see_nothing_of_the_repository() {
    let mut world = world().await;
    world.environment.extend([
        ("RESTIC_PASSWORD".to_owned(), "hidden".to_owned()),
        ("LIFEBOAT_POD_UID".to_owned(), "hidden".to_owned()),
        ("DB_NAME".to_owned(), "shop".to_owned()),
    ]);
    let bucket = world.path("bucket").display().to_string();
    let look = format!(
        "env | grep -e hidden -e 'correct horse' -e '{bucket}' >&2 && exit 7; printf %s \"$DB_NAME\""
    );
    let end = world.run(&backup(&world, pipeline(&[&look, "R backup"]))).await;
    assert_eq!(end.backed_up().bytes, 4);
}

#[tokio::test]
async fn a_dump_of_many_packs_arrives_as_it_was() {
    let world = world().await;
    let numbers = 0..5_000_000_u32;
    let content: Vec<u8> =
        numbers.flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let snapshot = dumped(&world, &content).await;
    let file = world.path("loaded");
    let load = format!("cat > {}", file.display());
    let restored =
        world.run(&restore(&world, &snapshot, pipeline(&["R restore", "cat", &load]))).await.restored();
    assert_eq!(restored.bytes, content.len() as u64);
    assert!(std::fs::read(file).unwrap() == content);
}
