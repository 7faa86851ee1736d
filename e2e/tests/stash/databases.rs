//! MariaDB and PostgreSQL behind AppBindings, dumped by built-in tasks; and a Task of the user.

use lifeboat_e2e::{Engine, Program, RESTORE_SESSIONS, ServerCertificate, StashTest, variable, wait_for};
use serde_json::{Value, json};

/// A database with its Service, Secret and AppBinding. Deployment, Service and AppBinding have the same name.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    name: &'static str,
    port: u16,
    user: &'static str,
    /// The command that runs a statement and prints its result.
    sql: &'static [&'static str],
}

pub(crate) const MARIADB: Family = Family {
    name: "mariadb",
    port: 3306,
    user: "root",
    sql: &["mariadb", "--host=127.0.0.1", "--user=root", "--skip-column-names", "--execute"],
};

pub(crate) const POSTGRES: Family = Family {
    name: "postgres",
    port: 5432,
    user: "postgres",
    sql: &["psql", "--host=127.0.0.1", "--username=postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "-c"],
};

const MANIFESTS: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: DATABASES
        imagePullPolicy: IfNotPresent
        command: [run-FAMILY]
        env:
        - {name: POSTGRES_PASSWORD, value: not-a-real-secret}
        - {name: PGPASSWORD, value: not-a-real-secret}
        - {name: MARIADB_ROOT_PASSWORD, value: not-a-real-secret}
        - {name: MYSQL_PWD, value: not-a-real-secret}
        - {name: PGDATA, value: /data/files}
        - {name: MARIADB_DATA_DIR, value: /data/files}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: PORT}]}
---
apiVersion: v1
kind: Secret
metadata: {name: NAME-auth}
stringData: {user: USER, password: not-a-real-secret}
---
apiVersion: appcatalog.appscode.com/v1alpha1
kind: AppBinding
metadata: {name: NAME}
spec:
  type: FAMILY
  clientConfig: {service: {name: NAME, port: PORT}}
  secret: {name: NAME-auth}
  secretTransforms: [{renameKey: {from: user, to: username}}]
";

/// The target of the batch document's sample: the API version of an AppBinding is not looked at.
const TARGET: &str = "{alias: db, ref: {apiVersion: apps/v1, kind: AppBinding, name: db}}";

fn start() -> StashTest {
    let test = StashTest::start();
    test.put_repository("repo");
    test
}

impl Family {
    fn put(self, test: &StashTest) {
        self.put_as(test, "db");
    }

    fn wait(self, test: &StashTest) {
        self.wait_of(test, "db");
    }

    fn fill(self, test: &StashTest) {
        self.fill_of(test, "db");
    }

    fn digest(self, test: &StashTest) -> String {
        self.digest_of(test, "db")
    }

    /// Starts a database of this name and waits until it answers.
    pub(crate) fn put_as(self, test: &StashTest, name: &str) {
        test.tenant.apply(&self.manifests(name));
        self.wait_of(test, name);
    }

    /// Starts a database of this name that also answers over TLS, with this certificate and its key in Secret `<name>-tls`. Its AppBinding
    /// says nothing about that yet.
    pub(crate) fn put_with_tls(self, test: &StashTest, name: &str, server: &ServerCertificate) {
        let ServerCertificate { authority, certificate, key } = server;
        let data = json!({"ca.crt": authority, "tls.crt": certificate, "tls.key": key});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-tls")}, "stringData": data});
        test.tenant.apply(&secret.to_string());
        let (user, flags) = match self.name {
            "mariadb" => ("mysql", "--ssl-ca=/tls/ca.crt --ssl-cert=/tls/tls.crt --ssl-key=/tmp/tls.key"),
            _ => ("postgres", "-c ssl=on -c ssl_cert_file=/tls/tls.crt -c ssl_key_file=/tmp/tls.key"),
        };
        // PostgreSQL refuses a key that others can read.
        let script =
            format!("install -m 400 -o {user} /tls/tls.key /tmp/tls.key && exec run-{} {flags}", self.name);
        let manifests = self
            .manifests(name)
            .replace(&format!("[run-{}]", self.name), &format!("[sh, -c, '{script}']"))
            .replace("mountPath: /data}", "mountPath: /data}, {name: tls, mountPath: /tls}")
            .replace(
                "emptyDir: {}}",
                &format!("emptyDir: {{}}}}, {{name: tls, secret: {{secretName: {name}-tls}}}}"),
            );
        test.tenant.apply(&manifests);
        self.wait_of(test, name);
    }

    fn manifests(self, name: &str) -> String {
        MANIFESTS
            .replace("NAME", name)
            .replace("FAMILY", self.name)
            .replace("PORT", &self.port.to_string())
            .replace("USER", self.user)
            .replace("DATABASES", &variable("LIFEBOAT_DATABASES_IMAGE"))
    }

    pub(crate) fn is_mariadb(self) -> bool {
        self.name == "mariadb"
    }

    /// Waits until the database answers.
    pub(crate) fn wait_of(self, test: &StashTest, name: &str) {
        test.wait_until_running(&format!("deployment/{name}"));
        wait_for("the database", 120, || {
            let output = self.client(test, name, &[]).arg("SELECT 1").run();
            if output.code == 0 { Ok(()) } else { Err(output.stderr) }
        });
    }

    /// The client in the database's pod, with variables; the statement follows.
    fn client(self, test: &StashTest, name: &str, environment: &[&str]) -> Program {
        let exec = ["exec", &format!("deployment/{name}"), "--", "env"];
        test.kubectl().args(exec).args(environment).args(self.sql)
    }

    pub(crate) fn sql_of(self, test: &StashTest, name: &str, statement: &str) -> String {
        self.client(test, name, &[]).arg(statement).ok().trim().to_owned()
    }

    /// A database `shop` with rows, among them characters that have a meaning in dumps.
    pub(crate) fn fill_of(self, test: &StashTest, name: &str) {
        self.sql_of(test, name, "CREATE DATABASE shop");
        let (table, series) = match self.name {
            "mariadb" => ("shop.item", "SELECT seq, CONCAT('it''s row ', seq, '\\n\\\\.') FROM shop.numbers"),
            _ => ("item", "SELECT n, 'it''s row ' || n || E'\\n\\\\.' FROM generate_series(1, 1000) n"),
        };
        if self.name == "mariadb" {
            self.sql_of(test, name, "USE shop; CREATE TABLE numbers AS SELECT seq FROM seq_1_to_1000");
        }
        self.in_shop(test, name, &format!("CREATE TABLE {table} (id int PRIMARY KEY, note text)"));
        self.in_shop(test, name, &format!("INSERT INTO {table} {series}"));
    }

    fn in_shop(self, test: &StashTest, name: &str, statement: &str) -> String {
        let database: &[&str] = if self.name == "mariadb" { &[] } else { &["PGDATABASE=shop"] };
        self.client(test, name, database).arg(statement).ok().trim().to_owned()
    }

    /// What all rows have in common with their copies.
    pub(crate) fn digest_of(self, test: &StashTest, name: &str) -> String {
        let statement = match self.name {
            "mariadb" => "SELECT COUNT(*), SUM(CRC32(CONCAT(id, note))) FROM shop.item",
            _ => "SELECT count(*), md5(string_agg(id || note, ',' ORDER BY id)) FROM item",
        };
        self.in_shop(test, name, statement)
    }
}

/// Restores the database; the backup's task stands for its counterpart.
fn restore(test: &StashTest, name: &str, task: &str) {
    test.restore(name, &format!("  task: {{name: {task}}}\n  target: {TARGET}"), "");
}

/// The only host of a session.
fn host(session: &Value) -> &Value {
    &session["status"]["targets"][0]["stats"][0]
}

fn database_comes_back(family: Family, task: &str) {
    let test = start();
    family.put(&test);
    family.fill(&test);
    let digest = family.digest(&test);
    assert!(digest.starts_with("1000"), "{digest}");
    test.put_configuration("nightly", TARGET, &format!("  task: {{name: {task}}}\n"));
    let session = test.run("BackupConfiguration", "nightly", "Succeeded");
    assert_eq!(host(&session)["hostname"], "db");
    assert_eq!(test.snapshots("repo"), ["db /dumpfile.sql"]);
    let dump = ["dump", "latest", "/dumpfile.sql", "--host", "db", "--no-lock"];
    let dump = test.repository("repo").ok(Engine::Restic, &dump);
    assert!(
        dump.contains("it's row 1000") || dump.contains("it\\'s row 1000"),
        "genuine restic reads the dump"
    );
    // A new server has neither the rows nor the database.
    test.delete(&["pods", "-l", "app=db"]);
    family.wait(&test);
    restore(&test, "back", task);
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(family.digest(&test), digest);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_mariadb_comes_back_into_a_new_server() {
    database_comes_back(MARIADB, "mariadb-backup-10.11");
}

#[test]
fn a_postgres_comes_back_into_a_new_server() {
    database_comes_back(POSTGRES, "postgres-backup-15");
}

#[test]
fn a_dump_that_fails_stores_nothing_and_says_why() {
    let test = start();
    MARIADB.put(&test);
    MARIADB.fill(&test);
    let failing = |name: &str, params: &str, says: &str| {
        let task = format!("  task: {{name: mariadb-backup-10.11, params: [{params}]}}\n");
        test.put_configuration(name, TARGET, &task);
        let session = test.run("BackupConfiguration", name, "Failed");
        let error = host(&session)["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(says), "{:#}", session["status"]);
        test.delete(&["backupconfiguration.stash.appscode.com", name]);
    };
    // The first database is dumped before the second is missed: half a dump.
    failing("half", "{name: args, value: --databases shop gone}", "Unknown database 'gone'");
    test.tenant.apply(
        "{apiVersion: v1, kind: Secret, metadata: {name: db-auth}, stringData: {user: root, password: wrong}}",
    );
    failing("denied", "{name: waitTimeout, value: '60'}", "Access denied");
    assert_eq!(test.snapshots("repo"), [] as [String; 0]);
    test.assert_nothing_is_left("repo");
}

#[test]
fn functions_of_a_users_task_run_in_turn() {
    let test = start();
    POSTGRES.put(&test);
    let name = test.tenant.name.clone();
    let image = variable("LIFEBOAT_DATABASES_IMAGE");
    test.tenant.apply(&format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: Task
metadata: {{name: {name}}}
spec: {{steps: [{{name: {name}-dump}}, {{name: {name}-count, params: [{{name: word, value: rows}}]}}, {{name: update-status}}]}}
---
apiVersion: stash.appscode.com/v1beta1
kind: Function
metadata: {{name: {name}-dump}}
spec:
  image: {image}
  command: [sh, -c]
  args: ['PGPASSWORD=$DB_PASSWORD pg_dumpall -h $DB_HOST -p $DB_PORT -U $DB_USER > ${{INTERIM_DATA_DIR}}/all.sql']
---
apiVersion: stash.appscode.com/v1beta1
kind: Function
metadata: {{name: {name}-count}}
spec:
  image: {image}
  command: [sh, -c]
  args: ['cat /mover/app/secret/username > ${{INTERIM_DATA_DIR}}/${{word}}; wc -l < ${{INTERIM_DATA_DIR}}/all.sql >> ${{INTERIM_DATA_DIR}}/${{word}}']
"
    ));
    test.put_configuration("own", TARGET, &format!("  task: {{name: {name}}}\n"));
    let session = test.run("BackupConfiguration", "own", "Succeeded");
    assert_eq!(host(&session)["snapshots"][0]["path"], "/stash-tmp/data");
    let file = |name: &str| {
        let path = format!("/stash-tmp/data/{name}");
        test.repository("repo").ok(Engine::Restic, &["dump", "latest", &path, "--host", "db", "--no-lock"])
    };
    assert!(file("all.sql").contains("PostgreSQL database cluster dump complete"));
    assert!(file("rows").starts_with("postgres"), "{}", file("rows"));
    let functions = ["dump", "count"].map(|step| format!("function.stash.appscode.com/{name}-{step}"));
    let task = format!("task.stash.appscode.com/{name}");
    test.delete(&[&task, &functions[0], &functions[1]]);
    test.assert_nothing_is_left("repo");
}
