//! Commands of agents: their form, placeholders, arguments, and connection URLs.

mod connections;
mod lines;

use lifeboat_api::stash::{AgentCommands, BackupAgentSpec};
use rstest::rstest;

use super::*;

const SEED_BACKUP: &str =
    r#"mysqldump -u ${DB_USER} --password=${DB_PASSWORD} -h ${DB_HOST} "$@" | restic -r {{RepoName}} backup"#;
const SEED_RECOVERY: &str =
    r#"restic -r {{RepoName}} restore | mysql -u "$DB_USER" --password=${DB_PASSWORD} -h "$DB_HOST" "$@""#;

fn spec(backup: &[&str], recovery: &[&str]) -> BackupAgentSpec {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let commands = AgentCommands { backup: words(backup), recovery: words(recovery) };
    BackupAgentSpec { image: "tools:1".to_owned(), commands, arguments: None }
}

fn values() -> Values {
    Values {
        repo_name: "lifeboat:task".to_owned(),
        repo_dir: "/databases/statefulset/db-0".to_owned(),
        host: "db-0".to_owned(),
        snapshot: None,
        paths: vec!["/data".to_owned(), "/my files".to_owned()],
    }
}

struct Case {
    name: &'static str,
    spec: BackupAgentSpec,
    arguments: Vec<String>,
    args: Vec<String>,
    user: Option<&'static str>,
}

impl Case {
    fn new(spec: BackupAgentSpec) -> Self {
        Self { name: "tools", spec, arguments: Vec::new(), args: Vec::new(), user: None }
    }

    fn of_default(name: &'static str) -> Self {
        let images = DefaultImages { own: "lifeboat:1", mysql: "mysql:8", postgres: "postgres:17" };
        let agent = default_agents(images).into_iter().find(|agent| agent.name == name).unwrap();
        Self { name, ..Self::new(agent.spec) }
    }

    fn decide(&self, purpose: Use, database: &str) -> Result<AgentCommand, AgentError> {
        let database = Database::parse(Some(database))?;
        let snapshot = (purpose == Use::Recovery).then(|| "0123abcd".to_owned());
        let values = Values { snapshot, ..values() };
        let agent = AgentFacts { name: self.name, spec: &self.spec, arguments: &self.arguments };
        let wanted =
            Wanted { purpose, database: &database, args: &self.args, values: &values, user: self.user };
        command(agent, wanted)
    }

    fn sides(&self, purpose: Use, database: &str) -> Vec<CommandLine> {
        match self.decide(purpose, database).unwrap() {
            AgentCommand::Pipeline { sides } => sides,
            other => panic!("{other:?}"),
        }
    }

    fn error(&self, purpose: Use, database: &str) -> String {
        self.decide(purpose, database).unwrap_err().to_string()
    }
}

fn seed() -> Case {
    Case::new(spec(&[SEED_BACKUP], &[SEED_RECOVERY]))
}

fn named(name: &str, line: &str, arguments: &[&str]) -> CommandLine {
    let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
    CommandLine { name: name.to_owned(), line: line.to_owned(), arguments }
}

#[rstest]
#[case::one("shop", &["--databases", "shop"])]
#[case::all("all", &["--all-databases"])]
#[case::none("", &["--all-databases"])]
fn the_seeds_agent_is_cut_into_two_sides(#[case] database: &str, #[case] expected: &[&str]) {
    let dump = r#"mysqldump -u ${DB_USER} --password=${DB_PASSWORD} -h ${DB_HOST} "$@""#;
    let expected =
        [named("mysqldump", dump, expected), named("restic", "restic -r lifeboat:task backup", &[])];
    assert_eq!(seed().sides(Use::Backup, database), expected);
    let load = r#"mysql -u "$DB_USER" --password=${DB_PASSWORD} -h "$DB_HOST" "$@""#;
    let expected = [named("restic", "restic -r lifeboat:task restore", &[]), named("mysql", load, &[])];
    assert_eq!(seed().sides(Use::Recovery, database), expected, "the dump says which databases it is for");
}

#[rstest]
#[case::mariadb("mariadb-dump", "shop", &["--databases", "shop", "-v"])]
#[case::with_a_path("/usr/bin/mariadb-dump", "all", &["--all-databases", "-v"])]
#[case::after_variables("X=1 exec mysqldump", "shop", &["--databases", "shop", "-v"])]
#[case::postgres("pg_dump -Fc", "shop", &["shop", "-v"])]
#[case::another("mongodump --archive", "shop", &["shop", "-v"])]
#[case::another_for_all("mongodump --archive", "all", &["-v"])]
#[case::unknown("$TOOL", "shop", &["shop", "-v"])]
fn arguments_are_those_of_the_program(
    #[case] program: &str,
    #[case] database: &str,
    #[case] expected: &[&str],
) {
    let line = format!("{program} \"$@\" | gzip | restic -r {{{{RepoName}}}} backup");
    let case = Case { args: vec!["-v".to_owned()], ..Case::new(spec(&[&line], &[])) };
    let sides = case.sides(Use::Backup, database);
    assert_eq!(sides[0].arguments, expected);
    assert!(sides[1].arguments.is_empty() && sides[2].arguments.is_empty());
}

#[test]
fn an_agents_own_arguments_come_instead_and_args_follow() {
    let arguments = ["--single-transaction", "--result={{Host}}", "{{Paths}}"].map(str::to_owned).to_vec();
    let case = Case { arguments, args: vec!["-v".to_owned()], ..seed() };
    let expected = ["--single-transaction", "--result=db-0", "/data", "/my files", "-v"];
    assert_eq!(case.sides(Use::Backup, "shop")[0].arguments, expected);
}

#[test]
fn a_loaded_database_is_named_if_the_dump_does_not_say_which() {
    let case =
        Case::new(spec(&[r#"mongodump "$@" | restic backup"#], &[r#"restic restore | mongorestore "$@""#]));
    assert_eq!(case.sides(Use::Recovery, "shop")[1].arguments, ["shop"]);
    let of = |name, tag| Database::of_recovery(name, tag).unwrap();
    assert_eq!(of(Some("new"), Some("old")), Database::Named("new".to_owned()));
    assert_eq!(of(None, Some("all")), Database::All);
}

#[test]
fn a_dump_of_one_database_is_never_taken_for_all() {
    let case = Case::new(spec(&["pg_dump \"$@\" | restic -r {{RepoName}} backup"], &[]));
    assert!(case.error(Use::Backup, "all").contains("write pg_dumpall"));
    let case = Case::new(spec(&["cd /; pg_dump \"$@\" | restic -r {{RepoName}} backup"], &[]));
    assert!(case.error(Use::Backup, "all").contains("write pg_dumpall"), "in a line, too");
    let case = Case::new(spec(&["pg_dumpall | restic -r {{RepoName}} backup"], &[]));
    assert!(case.error(Use::Backup, "shop").contains("write pg_dump"));
    assert!(Database::parse(Some("--help")).is_err());
}

#[test]
fn the_built_in_agent_for_postgresql_dumps_and_loads_all() {
    let case = Case { user: Some("admin"), args: vec!["-v".to_owned()], ..Case::of_default("pg_dump") };
    let dump = case.sides(Use::Backup, "all");
    assert!(dump[0].line.contains("pg_dumpall ") && dump[0].arguments == ["-v"], "{dump:?}");
    assert_eq!(dump[1], named("restic", "restic -r lifeboat:task backup", &[]));
    let load = case.sides(Use::Recovery, "all");
    assert!(load[1].line.contains("CREATE ROLE admin;"), "{load:?}");
    assert!(load[1].arguments.contains(&"--set=ON_ERROR_STOP=1".to_owned()));
    let one = case.sides(Use::Backup, "shop");
    assert!(one[0].line.contains(" pg_dump ") && one[0].arguments == ["shop", "-v"], "{one:?}");
    assert_eq!(case.sides(Use::Recovery, "shop")[1].arguments, ["shop", "-v"]);
    let changed = Case { spec: spec(&["pg_dump \"$@\" | restic backup"], &[]), ..case };
    assert!(
        changed.error(Use::Backup, "all").contains("write pg_dumpall"),
        "a user's change of it is a user's line"
    );
}

#[rstest]
#[case("stash")]
#[case("mysqldump")]
#[case("pg_dump")]
#[case("osm")]
fn default_agents_can_do_both_and_show_no_password(#[case] name: &'static str) {
    let case = Case::of_default(name);
    for purpose in [Use::Backup, Use::Recovery] {
        for database in ["", "all", "shop"] {
            let text = format!("{:?}", case.decide(purpose, database).unwrap());
            assert!(!text.contains("--password="), "{text}");
        }
    }
}

#[rstest]
#[case::program(&["pg_dump", "--file={{RepoDir}}", "{{Paths}}"], &["pg_dump", "--file=/databases/statefulset/db-0", "/data", "/my files"])]
#[case::one_plain_word(&["dump-tool"], &["dump-tool"])]
fn several_words_are_a_program_and_its_arguments(#[case] words: &[&str], #[case] expected: &[&str]) {
    let argv = expected.iter().map(|&word| word.to_owned()).collect();
    let decided = Case::new(spec(words, &[])).decide(Use::Backup, "shop").unwrap();
    assert_eq!(decided, AgentCommand::Program { argv });
}

#[test]
fn placeholders_have_values_that_stay_one_word() {
    let line = "tar -c {{Paths}} | restic -r {{ RepoName }} backup";
    let sides = Case::new(spec(&[line], &[])).sides(Use::Backup, "");
    assert_eq!(sides[0].line, "tar -c '/data' '/my files'");
    assert_eq!(sides[1].line, "restic -r lifeboat:task backup");
    let recovery = Case::new(spec(&[], &["restic restore \"{{Snapshot}}\" | cat"]));
    assert_eq!(recovery.sides(Use::Recovery, "")[0].line, "restic restore \"0123abcd\"");
}

#[rstest]
#[case::unknown("echo {{RepoNam}} | restic backup", "{{RepoNam}} is unknown")]
#[case::not_closed("echo {{RepoName | restic backup", "is not closed")]
#[case::no_snapshot_yet("echo {{Snapshot}} | restic backup", "{{Snapshot}} has no value in a backup")]
#[case::between_quotes("tar -c \"{{Paths}}\" | restic backup", "outside of quotes")]
#[case::in_a_document("cat <<X | restic backup\n{{Paths}}\nX", "outside of quotes")]
#[case::quote("echo 'a | restic backup", "' is not closed")]
#[case::no_command("dump | | restic backup", "no command stands")]
fn what_is_wrong_is_named(#[case] line: &str, #[case] expected: &str) {
    let error = Case::new(spec(&[line], &[])).error(Use::Backup, "");
    assert!(
        error.starts_with("BackupAgent tools: spec.commands.backup[0]") && error.contains(expected),
        "{error}"
    );
    let error = Case::new(spec(&[line], &[])).error(Use::Recovery, "");
    assert!(error.contains("spec.commands.recovery is empty"), "{error}");
}

#[test]
fn the_agent_stash_is_done_by_our_own_program() {
    let backup = [
        "backup",
        "--restic-name=restic-volume-demo",
        "--workload-kind=Deployment",
        "--workload-name=stash-demo",
        "--run-via-cron=true",
        "--pushgateway-url=http://stash-operator.kube-system.svc:56789",
        "--enable-analytics=true",
        "--logtostderr=true",
        "--alsologtostderr=false",
        "--v=3",
        "--stderrthreshold=0",
    ];
    let AgentCommand::Own(own) = Case::new(spec(&backup, &[])).decide(Use::Backup, "").unwrap() else {
        panic!()
    };
    assert_eq!(own.log_level(), Some("debug"));
    let names = OwnNames {
        restic: Some("nightly"),
        workload_kind: Some("deployment"),
        workload_name: Some("stash-demo"),
        ..OwnNames::default()
    };
    let warnings = own.warnings(names);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("--restic-name=restic-volume-demo") && warnings[0].contains("\"nightly\""));
    assert!(warnings[1].ends_with("--run-via-cron, --pushgateway-url, --enable-analytics"), "{warnings:?}");
}
