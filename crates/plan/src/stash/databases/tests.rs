mod shell;

use std::collections::BTreeMap;

use lifeboat_api::common::ByteString;
use lifeboat_api::stash::Param;
use rstest::rstest;
use serde_json::{Value, json};

use super::words::split;
use super::*;

fn facts(spec: Value) -> AppFacts {
    let secret = |pairs: &[(&str, &str)]| -> BTreeMap<String, ByteString> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()))).collect()
    };
    AppFacts {
        namespace: "shop".into(),
        name: "db".into(),
        spec: serde_json::from_value(spec).unwrap(),
        secrets: BTreeMap::from([
            ("auth".to_owned(), secret(&[("username", "root\n"), ("password", "s3cret")])),
            ("legacy".to_owned(), secret(&[("POSTGRES_USER", "app"), ("POSTGRES_PASSWORD", "s3cret")])),
            ("other".to_owned(), secret(&[("user", "u"), ("pass", "p")])),
            ("tls".to_owned(), secret(&[("ca.crt", "CA"), ("tls.crt", "C"), ("tls.key", "K")])),
        ]),
    }
}

fn service(secret: &str) -> Value {
    json!({
        "clientConfig": {"service": {"name": "db", "port": 3306, "scheme": "mysql"}},
        "secret": {"name": secret},
    })
}

fn access(spec: Value) -> AppAccess {
    AppAccess::of(&facts(spec)).unwrap()
}

fn refused(spec: Value) -> String {
    AppAccess::of(&facts(spec)).unwrap_err().to_string()
}

fn command(task: &str, app: &AppAccess, params: &[(&str, &str)]) -> Result<ToolCommand, CommandError> {
    let params: Vec<Param> =
        params.iter().map(|(name, value)| Param { name: (*name).into(), value: (*value).into() }).collect();
    tool_command(&BuiltIn::parse(task).unwrap(), app, &params)
}

#[rstest]
#[case::mysql("mysql-backup-8.0.14", Some((Family::Mysql, Direction::Backup, "8.0.14")))]
#[case::mariadb("mariadb-restore-10.6.23", Some((Family::Mariadb, Direction::Restore, "10.6.23")))]
#[case::postgres("postgres-backup-14.0-alpine", Some((Family::Postgres, Direction::Backup, "14.0-alpine")))]
#[case::other_family("mongodb-backup-6.0.5", None)]
#[case::no_version("mysql-backup", None)]
#[case::empty_version("mysql-backup-", None)]
#[case::not_a_tag("mysql-backup-8.0@sha256", None)]
#[case::a_word("mysql-backup-mine", None)]
fn built_in_tasks_are_known_by_their_names(
    #[case] name: &str,
    #[case] expected: Option<(Family, Direction, &str)>,
) {
    let expected = expected.map(|(family, direction, version)| BuiltIn {
        family,
        direction,
        version: version.to_owned(),
    });
    assert_eq!(BuiltIn::parse(name), expected);
}

#[test]
fn the_tools_are_those_of_the_official_image_or_of_the_administrators() {
    let tool = BuiltIn::parse("mysql-backup-8.0.14").unwrap();
    assert_eq!(tool.image(&BTreeMap::new()), "docker.io/library/mysql:8.0.14");
    let own = BTreeMap::from([("mysql".to_owned(), "registry.local/tools:1".to_owned())]);
    assert_eq!(tool.image(&own), "registry.local/tools:1");
    assert_eq!(BuiltIn::parse("postgres-backup-16").unwrap().image(&own), "docker.io/library/postgres:16");
}

#[rstest]
#[case::service(json!({"service": {"name": "db", "port": 3306}}), "db.shop.svc", Some(3306))]
#[case::elsewhere(json!({"service": {"name": "db", "namespace": "data", "port": 1}}), "db.data.svc", Some(1))]
#[case::host_and_port(json!({"url": "mysql.example.com:3307"}), "mysql.example.com", Some(3307))]
#[case::host(json!({"url": "mysql.example.com"}), "mysql.example.com", None)]
#[case::whole_url(json!({"url": "postgresql://pg.example.com:5433/shop?sslmode=require"}), "pg.example.com", Some(5433))]
#[case::of_a_go_driver(json!({"url": "tcp(10.0.0.1:3306)/"}), "10.0.0.1", Some(3306))]
#[case::ipv6(json!({"url": "[fd00::1]:3306"}), "fd00::1", Some(3306))]
fn an_address_is_a_service_or_a_url(#[case] config: Value, #[case] host: &str, #[case] port: Option<u16>) {
    let app = access(json!({"clientConfig": config}));
    assert_eq!((app.host.as_str(), app.port), (host, port));
    assert_eq!((app.user, app.password), (None, None), "an AppBinding without a Secret has no user");
}

#[rstest]
#[case::user_in_url(json!({"clientConfig": {"url": "mysql://root:s3cret@db:3306"}}), "put them into the AppBinding's Secret")]
#[case::no_host(json!({"clientConfig": {"url": "mysql://"}}), "is no address")]
#[case::none(json!({"clientConfig": {}}), "neither service nor url")]
#[case::port(json!({"clientConfig": {"service": {"name": "db", "port": 0}}}), "port 0 is no port")]
#[case::secret(json!({"clientConfig": {"url": "db"}, "secret": {"name": "gone"}}), "spec.secret names Secret \"gone\"")]
#[case::kind(json!({"clientConfig": {"url": "db"}, "secret": {"name": "a", "kind": "VaultSecret"}}), "a VaultSecret")]
#[case::tls_secret(json!({"clientConfig": {"url": "db"}, "tlsSecret": {"name": "gone"}}), "spec.tlsSecret")]
#[case::other_keys(json!({"clientConfig": {"url": "db"}, "secret": {"name": "other"}}), "it has pass, user")]
#[case::rename(
    json!({"clientConfig": {"url": "db"}, "secret": {"name": "auth"}, "secretTransforms": [{"renameKey": {"from": "pwd", "to": "x"}}]}),
    "secretTransforms[0].renameKey.from \"pwd\" is not a key"
)]
#[case::key_outside(
    json!({"clientConfig": {"url": "db"}, "secret": {"name": "auth"}, "secretTransforms": [{"renameKey": {"from": "username", "to": "../x"}}]}),
    "makes key \"../x\""
)]
#[case::added_secret(
    json!({"clientConfig": {"url": "db"}, "secretTransforms": [{"addKeysFrom": {"secretRef": {"name": "gone"}}}]}),
    "secretTransforms[0].addKeysFrom.secretRef names Secret \"gone\""
)]
#[case::empty(json!({"clientConfig": {"url": "db"}, "secretTransforms": [{}]}), "secretTransforms[0] sets none")]
fn what_is_wrong_with_an_app_binding_is_named(#[case] spec: Value, #[case] says: &str) {
    let message = refused(spec);
    assert!(message.starts_with("AppBinding shop/db: ") && message.contains(says), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
}

#[test]
fn transforms_lead_to_the_key_of_a_secret_or_to_a_text() {
    let app = access(json!({
        "clientConfig": {"url": "db"},
        "secret": {"name": "auth"},
        "secretTransforms": [
            {"removeKey": {"key": "username"}},
            {"addKeysFrom": {"secretRef": {"name": "other"}}},
            {"renameKey": {"from": "user", "to": "username"}},
            {"renameKey": {"from": "pass", "to": "password"}},
            {"addKey": {"key": "mode", "stringValue": "fast $(HOME)"}},
        ],
    }));
    let of_other = |key: &str| KeySource::Secret { name: "other".into(), key: key.into() };
    assert_eq!((app.user.as_deref(), app.password.clone()), (Some("u"), Some(of_other("pass"))));
    assert_eq!(app.keys["mode"], KeySource::Literal("fast $(HOME)".into()));
    let files = AppFiles::of(&app);
    assert_eq!(
        files.volume.unwrap()["projected"]["sources"],
        json!([
            {"secret": {"name": "other", "items": [
                {"key": "pass", "path": "secret/password"}, {"key": "user", "path": "secret/username"},
            ]}},
            {"downwardAPI": {"items": [
                {"path": "secret/mode", "fieldRef": {"fieldPath": "metadata.annotations['lifeboat.io/app-text-0']"}},
            ]}},
        ])
    );
    assert_eq!(files.annotations["lifeboat.io/app-text-0"], "fast $(HOME)");
}

#[test]
fn functions_get_the_names_of_the_design() {
    assert_eq!(
        access(service("auth")).env(),
        [
            json!({"name": "DB_HOST", "value": "db.shop.svc"}),
            json!({"name": "DB_PORT", "value": "3306"}),
            json!({"name": "DB_USER", "value": "root"}),
            json!({"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "auth", "key": "password"}}}),
        ]
    );
}

#[test]
fn mysql_is_dumped_in_one_transaction_and_its_password_is_in_no_argument() {
    let dump = command("mysql-backup-8.0.14", &access(service("auth")), &[]).unwrap();
    assert_eq!(dump.argv[..2], ["sh", "-c"]);
    assert_eq!(
        dump.argv[3..],
        [
            "lifeboat",
            "--host=db.shop.svc",
            "--port=3306",
            "--user=root",
            "--max-allowed-packet=1073741824",
            "--single-transaction",
            "--no-tablespaces",
            "--loose-set-gtid-purged=OFF",
            "--loose-column-statistics=0",
            "--routines",
            "--events",
            "--all-databases",
        ]
    );
    assert!(dump.argv[2].contains("command -v mysqldump || command -v mariadb-dump"), "{}", dump.argv[2]);
    assert!(dump.argv[2].contains("left=60\n"), "{}", dump.argv[2]);
    let password =
        json!({"name": "MYSQL_PWD", "valueFrom": {"secretKeyRef": {"name": "auth", "key": "password"}}});
    assert_eq!(dump.env, [password]);
    assert!(!format!("{dump:?}").contains("s3cret"));
}

#[test]
fn own_arguments_replace_those_that_dump_everything() {
    let app = access(service("auth"));
    let params = [("args", "--databases shop 'two words'"), ("waitTimeout", "12")];
    let dump = command("mariadb-backup-10.6", &app, &params).unwrap();
    assert_eq!(
        dump.argv[8..],
        ["--single-transaction", "--no-tablespaces", "--databases", "shop", "two words"],
        "MariaDB has no GTIDs in a dump"
    );
    assert!(dump.argv[2].contains("command -v mariadb-dump || command -v mysqldump"));
    assert!(dump.argv[2].contains("left=3\n"), "{}", dump.argv[2]);
    let params = [("multiDumpArgs", "$args=--databases a $args=--databases b")];
    let dump = command("mysql-backup-8.0.14", &app, &params).unwrap();
    assert_eq!(dump.argv.len(), 4);
    for one in ["'--databases' 'a' || exit\n", "'--databases' 'b' || exit\n"] {
        assert!(dump.argv[2].contains(one), "{}", dump.argv[2]);
    }
}

#[rstest]
#[case::as_upstream_documents_it("--all-databases", &["--routines", "--events", "--all-databases"])]
#[case::short("-A --skip-events", &["--routines", "--events", "-A", "--skip-events"])]
#[case::own_choice("--all-databases --set-gtid-purged=ON", &["--routines", "--events", "--all-databases", "--set-gtid-purged=ON"])]
#[case::some_databases("--databases shop", &["--databases", "shop"])]
fn the_dump_of_a_whole_server_has_its_routines_and_events(#[case] args: &str, #[case] expected: &[&str]) {
    let dump = command("mysql-backup-8.0.35", &access(service("auth")), &[("args", args)]).unwrap();
    assert_eq!(&dump.argv[12..], expected);
}

#[test]
fn a_password_goes_to_a_server_without_tls_only_where_that_is_asked_for() {
    let key = "--loose-get-server-public-key".to_owned();
    let mut spec = service("auth");
    assert!(!command("mysql-restore-8.0.35", &access(spec.clone()), &[]).unwrap().argv.contains(&key));
    spec["clientConfig"]["insecureSkipTLSVerify"] = json!(true);
    let app = access(spec);
    assert!(command("mysql-restore-8.0.35", &app, &[]).unwrap().argv.contains(&key));
    assert!(!command("mariadb-restore-10.6", &app, &[]).unwrap().argv.contains(&key));
}

#[test]
fn certificates_are_files_of_the_app() {
    let mut spec = service("auth");
    spec["tlsSecret"] = json!({"name": "tls"});
    let load = command("mysql-restore-8.0.14", &access(spec.clone()), &[]).unwrap();
    assert_eq!(
        load.argv[7..],
        [
            "--ssl-ca=/mover/app/tls/ca.crt",
            "--ssl-cert=/mover/app/tls/tls.crt",
            "--ssl-key=/mover/app/tls/tls.key",
            "--max-allowed-packet=1073741824",
        ]
    );
    // The AppBinding's own authorities take precedence; "UEVN" is PEM.
    spec["clientConfig"]["caBundle"] = json!("UEVN");
    let app = access(spec.clone());
    let dump = command("postgres-backup-14.0", &app, &[]).unwrap();
    let value = |name: &str| dump.env.iter().find(|env| env["name"] == name).unwrap()["value"].clone();
    assert_eq!(
        (value("PGSSLMODE"), value("PGSSLROOTCERT")),
        (json!("verify-ca"), json!("/mover/app/ca.crt"))
    );
    assert_eq!(AppFiles::of(&app).annotations["lifeboat.io/app-ca"], "PEM");
    spec["clientConfig"]["insecureSkipTLSVerify"] = json!(true);
    let dump = command("mariadb-backup-11", &access(spec), &[]).unwrap();
    assert!(!dump.argv.iter().any(|arg| arg.starts_with("--ssl-ca")), "{:?}", dump.argv);
    assert!(dump.argv.contains(&"--loose-skip-ssl-verify-server-cert".to_owned()));
}

#[test]
fn postgres_is_reached_by_its_own_variables() {
    let mut spec = service("legacy");
    spec["clientConfig"]["service"]["query"] = json!("sslmode=require");
    let app = access(spec);
    let dump = command("postgres-backup-14.0", &app, &[("backupCMD", "pg_dump"), ("args", "shop")]).unwrap();
    assert_eq!(dump.argv[3..], ["lifeboat", "pg_dump", "--no-password", "shop"]);
    let names: Vec<&str> = dump.env.iter().filter_map(|env| env["name"].as_str()).collect();
    assert_eq!(names, ["PGHOST", "PGPORT", "PGUSER", "PGSSLMODE", "PGPASSWORD"]);
    let load = command("postgres-restore-14.0", &app, &[]).unwrap();
    assert_eq!(
        load.argv[3..],
        ["lifeboat", "--no-password", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    );
    assert!(load.env.contains(&json!({"name": "PGDATABASE", "value": "postgres"})));
}

#[rstest]
#[case::unknown("mysql-backup-8", &[("databases", "a")], "it has args, multiDumpArgs, waitTimeout")]
#[case::of_another_family("mysql-backup-8", &[("backupCMD", "pg_dump")], "\"backupCMD\" is not a parameter of mysql-backup-8")]
#[case::quote("mysql-backup-8", &[("args", "'a")], "args has a quote")]
#[case::wait("mysql-backup-8", &[("waitTimeout", "5m")], "waitTimeout \"5m\"")]
#[case::program("postgres-backup-14", &[("backupCMD", "rm")], "expected pg_dumpall or pg_dump")]
#[case::password("mysql-backup-8", &[("args", "--password=hunter2")], "argument \"--password\"")]
#[case::shortened("mysql-backup-8", &[("args", "--pas=hunter2")], "argument \"--pas\"")]
#[case::loose("mysql-backup-8", &[("args", "--loose-password=hunter2")], "argument \"--loose-password\"")]
#[case::short_password("mysql-backup-8", &[("args", "-phunter2")], "argument \"-p\"")]
#[case::both("mysql-backup-8", &[("args", "a"), ("multiDumpArgs", "$args=b")], "exclude each other")]
#[case::no_run("mysql-backup-8", &[("multiDumpArgs", "--databases a")], "has no \"$args=\"")]
fn parameters_that_a_tool_does_not_have_are_named(
    #[case] task: &str,
    #[case] params: &[(&str, &str)],
    #[case] says: &str,
) {
    let message = command(task, &access(service("auth")), params).unwrap_err().to_string();
    assert!(message.contains(says) && !message.contains("hunter2"), "{message}");
}

#[rstest]
#[case("", &[])]
#[case("  a  b ", &["a", "b"])]
#[case("--where='id > 3' \"\"", &["--where=id > 3", ""])]
fn arguments_are_split_as_by_a_shell(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(split(text).unwrap(), expected);
    assert_eq!(split(&format!("{text} '")), None);
}
