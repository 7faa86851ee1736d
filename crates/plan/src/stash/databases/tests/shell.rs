//! The scripts of tools, run by a shell.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

/// What the script of a dump prints, with a client that answers so, and its exit code. It may wait once.
fn answered(client: &str) -> (String, Option<i32>) {
    let tool = command("mysql-backup-8.0.35", &access(service("auth")), &[("waitTimeout", "5")]).unwrap();
    let programs =
        format!("mysql() {{ {client}; }}; mysqldump() {{ echo dumped; }}; sleep() {{ echo slept >&2; }}");
    // A function of the shell cannot take the place of the shell.
    ended(&format!("{programs}\n{}", tool.argv[2].replace("exec \"$tool\"", "\"$tool\"")))
}

/// The same of PostgreSQL: what pg_isready and psql do.
fn answered_by_postgres(ready: &str, client: &str) -> (String, Option<i32>) {
    let tool = command("postgres-backup-15", &access(service("auth")), &[("waitTimeout", "5")]).unwrap();
    let programs = format!(
        "pg_isready() {{ {ready}; }}; psql() {{ {client}; }}; pg_dumpall() {{ echo dumped; }}; sleep() {{ echo slept >&2; }}"
    );
    ended(&format!("{programs}\nset -- pg_dumpall\n{}", tool.argv[2].replace("exec \"$@\"", "\"$@\"")))
}

/// What a shell prints that runs the script, and its exit code.
fn ended(script: &str) -> (String, Option<i32>) {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (said, output.status.code())
}

#[rstest]
#[case::answers("true", 0, &["dumped"], "slept")]
#[case::wrong_password("echo 'ERROR 1045 (28000): Access denied for user root'; false", 1, &["Access denied"], "slept")]
#[case::no_tls(
    "echo 'ERROR 2061 (HY000): Authentication plugin reported error: Authentication requires secure connection.'; false",
    1,
    &["requires secure connection", "set clientConfig.insecureSkipTLSVerify"],
    "slept"
)]
#[case::not_trusted(
    "echo 'ERROR 2026 (HY000): TLS/SSL error: self-signed certificate in certificate chain'; false",
    1,
    &["self-signed certificate", "clientConfig.caBundle"],
    "slept"
)]
#[case::not_up_yet("echo 'ERROR 2003 (HY000): cannot connect'; false", 1, &["slept", "cannot connect"], "dumped")]
fn a_server_is_waited_for_only_where_waiting_may_help(
    #[case] client: &str,
    #[case] code: i32,
    #[case] says: &[&str],
    #[case] never: &str,
) {
    let (said, ended) = answered(client);
    assert_eq!(ended, Some(code), "{said}");
    assert!(says.iter().all(|text| said.contains(text)) && !said.contains(never), "{said}");
}

/// pg_isready says "no response" of a server whose certificate is not trusted.
#[rstest]
#[case::answers("true", "echo asked", 0, &["dumped"], "slept")]
#[case::answers_the_client("false", "true", 0, &["dumped"], "slept")]
#[case::not_trusted("echo 'no response'; false", "echo 'SSL error: certificate verify failed'; false", 1, &["no response: ", "certificate verify failed", "clientConfig.caBundle"], "slept")]
#[case::no_authority("false", "echo 'could not read root certificate file'; false", 1, &["root certificate file", "clientConfig.caBundle"], "slept")]
#[case::no_tls("false", "echo 'server does not support SSL, but SSL was required'; false", 1, &["the server has no TLS"], "slept")]
#[case::not_up_yet("echo 'no response'; false", "echo 'Connection refused'; false", 1, &["slept", "no response: Connection refused"], "dumped")]
fn a_postgres_that_does_not_respond_is_asked_why(
    #[case] ready: &str,
    #[case] client: &str,
    #[case] code: i32,
    #[case] says: &[&str],
    #[case] never: &str,
) {
    let (said, ended) = answered_by_postgres(ready, client);
    assert_eq!(ended, Some(code), "{said}");
    assert!(says.iter().all(|text| said.contains(text)) && !said.contains(never), "{said}");
}

/// What psql would get of a dump. The rest of the script only runs with a database.
fn loaded(user: &str, dump: &str) -> String {
    loaded_after("", user, dump)
}

/// Runs the text in a shell that has run it before.
fn loaded_after(before: &str, user: &str, dump: &str) -> String {
    let script = format!("{before}\n{}", scripts::load_postgres(user).replace("psql \"$@\"", "cat"));
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(dump.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[rstest]
#[case::plain("postgres", "postgres")]
#[case::quoted("Odd-'na.me", "\"Odd-'na.me\"")]
fn the_role_that_loads_a_dump_keeps_its_password(#[case] user: &str, #[case] role: &str) {
    let dump = format!(
        "--\n-- PostgreSQL database cluster dump\n--\nDROP ROLE IF EXISTS {role};\nCREATE ROLE {role};\n\
         ALTER ROLE {role} WITH SUPERUSER PASSWORD 'SCRAM';\nCREATE ROLE app;\nALTER ROLE app WITH PASSWORD 'x';\n\
         \\connect template1\nCREATE ROLE {role};\nCREATE ROLE app;\n"
    );
    let expected = format!(
        "--\n-- PostgreSQL database cluster dump\n--\n\
         DO $lifeboat$ BEGIN CREATE ROLE app; EXCEPTION WHEN duplicate_object THEN NULL; END $lifeboat$;\n\
         ALTER ROLE app WITH PASSWORD 'x';\n\\connect template1\nCREATE ROLE {role};\nCREATE ROLE app;\n"
    );
    assert_eq!(loaded(user, &dump), expected);
}

#[test]
fn the_dump_of_one_database_is_loaded_as_it_is() {
    let dump = "--\n-- PostgreSQL database dump\n--\nCREATE ROLE postgres;\nlast line without an end";
    assert_eq!(loaded("postgres", dump), dump);
}

/// The exit code of the shell is that of psql, which must not take the end of its input for the end of the dump.
#[test]
fn a_dump_that_is_cut_off_on_its_way_fails_in_the_database() {
    let loaded = loaded_after("sed() { head -n 1; return 2; }", "postgres", "COPY t FROM stdin;\na\nb\n");
    assert_eq!(loaded, "COPY t FROM stdin;\n\n\\.\nSELECT lifeboat_dump_was_cut_off;\n");
}

/// The shell reads every script, whatever the arguments are.
#[test]
fn scripts_are_valid_shell() {
    let mut spec = service("auth");
    spec["clientConfig"]["service"]["name"] = json!("it's");
    let app = access(spec);
    for task in ["mysql-backup-8", "mysql-restore-8", "postgres-backup-14", "postgres-restore-14"] {
        let command = command(task, &app, &[]).unwrap();
        let checked = Command::new("sh").args(["-n", "-c", &command.argv[2]]).status().unwrap();
        assert!(checked.success(), "{}", command.argv[2]);
    }
}
