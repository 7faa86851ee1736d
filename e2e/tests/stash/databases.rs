//! MariaDB and PostgreSQL behind AppBindings, dumped by built-in tasks; and a Task of the user.

use lifeboat_e2e::{Engine, StashTest, get, variable, wait_for};
use serde_json::Value;

/// A database with its Service, Secret and AppBinding, all named `db`.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    port: u16,
    user: &'static str,
    /// The command that runs a statement and prints its result.
    sql: &'static [&'static str],
}

const MARIADB: Family = Family {
    name: "mariadb",
    port: 3306,
    user: "root",
    sql: &["mariadb", "--host=127.0.0.1", "--user=root", "--skip-column-names", "--execute"],
};

const POSTGRES: Family = Family {
    name: "postgres",
    port: 5432,
    user: "postgres",
    sql: &["psql", "--host=127.0.0.1", "--username=postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "-c"],
};

const MANIFESTS: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
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
metadata: {name: db}
spec: {selector: {app: db}, ports: [{port: PORT}]}
---
apiVersion: v1
kind: Secret
metadata: {name: auth}
stringData: {user: USER, password: not-a-real-secret}
---
apiVersion: appcatalog.appscode.com/v1alpha1
kind: AppBinding
metadata: {name: db}
spec:
  type: FAMILY
  clientConfig: {service: {name: db, port: PORT}}
  secret: {name: auth}
  secretTransforms: [{renameKey: {from: user, to: username}}]
";

/// The target of the batch document's sample: the API version of an AppBinding is not looked at.
const TARGET: &str = "{alias: db, ref: {apiVersion: apps/v1, kind: AppBinding, name: db}}";

fn start() -> StashTest {
    let image = variable("LIFEBOAT_DATABASES_IMAGE");
    let images = ["mariadb", "postgres"].map(|family| format!("{family}={image}"));
    let test = StashTest::start(&["--tool-image", &images[0], "--tool-image", &images[1]]);
    test.put_repository("repo");
    test
}

impl Family {
    fn put(self, test: &StashTest) {
        let manifests = MANIFESTS
            .replace("FAMILY", self.name)
            .replace("PORT", &self.port.to_string())
            .replace("USER", self.user)
            .replace("DATABASES", &variable("LIFEBOAT_DATABASES_IMAGE"));
        test.tenant.apply(&manifests);
        self.wait(test);
    }

    /// Waits until the database answers.
    fn wait(self, test: &StashTest) {
        test.wait_until_running("deployment/db");
        wait_for("the database", 120, || {
            let output =
                test.kubectl().args(["exec", "deployment/db", "--"]).args(self.sql).arg("SELECT 1").run();
            if output.code == 0 { Ok(()) } else { Err(output.stderr) }
        });
    }

    fn sql(self, test: &StashTest, statement: &str) -> String {
        let exec = test.kubectl().args(["exec", "deployment/db", "--"]).args(self.sql);
        exec.arg(statement).ok().trim().to_owned()
    }

    /// A database `shop` with rows, among them characters that have a meaning in dumps.
    fn fill(self, test: &StashTest) {
        self.sql(test, "CREATE DATABASE shop");
        let (table, series) = match self.name {
            "mariadb" => ("shop.item", "SELECT seq, CONCAT('it''s row ', seq, '\\n\\\\.') FROM shop.numbers"),
            _ => ("item", "SELECT n, 'it''s row ' || n || E'\\n\\\\.' FROM generate_series(1, 1000) n"),
        };
        if self.name == "mariadb" {
            self.sql(test, "USE shop; CREATE TABLE numbers AS SELECT seq FROM seq_1_to_1000");
        }
        self.in_shop(test, &format!("CREATE TABLE {table} (id int PRIMARY KEY, note text)"));
        self.in_shop(test, &format!("INSERT INTO {table} {series}"));
    }

    fn in_shop(self, test: &StashTest, statement: &str) -> String {
        if self.name == "mariadb" {
            return self.sql(test, statement);
        }
        let exec =
            test.kubectl().args(["exec", "deployment/db", "--", "env", "PGDATABASE=shop"]).args(self.sql);
        exec.arg(statement).ok().trim().to_owned()
    }

    /// What all rows have in common with their copies.
    fn digest(self, test: &StashTest) -> String {
        let statement = match self.name {
            "mariadb" => "SELECT COUNT(*), SUM(CRC32(CONCAT(id, note))) FROM shop.item",
            _ => "SELECT count(*), md5(string_agg(id || note, ',' ORDER BY id)) FROM item",
        };
        self.in_shop(test, statement)
    }
}

/// Restores the database; the backup's task stands for its counterpart.
fn restore(test: &StashTest, name: &str, task: &str) {
    test.tenant.apply(&format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {{name: {name}}}
spec: {{repository: {{name: repo}}, task: {{name: {task}}}, target: {TARGET}}}
"
    ));
}

/// Waits for the end of a restore; gives it.
fn ended(test: &StashTest, name: &str) -> Value {
    wait_for(&format!("the end of restore {name}"), 180, || {
        let found = get(&["-n", &test.tenant.name, "restoresessions.stash.appscode.com", name]);
        match found["status"]["phase"].as_str() {
            Some("Succeeded" | "Failed" | "Invalid") => Ok(found),
            _ => Err(found["status"].to_string()),
        }
    })
}

/// The only host of a session.
fn host(session: &Value) -> &Value {
    &session["status"]["targets"][0]["stats"][0]
}

fn database_comes_back(family: Family, task: &str) {
    let test = start();
    family.put(&test);
    family.fill(&test);
    let (digest, restarts) = (family.digest(&test), test.restarts());
    assert!(digest.starts_with("1000"), "{digest}");
    test.put_configuration("nightly", TARGET, &format!("  task: {{name: {task}}}\n"));
    let session = test.run("BackupConfiguration", "nightly", "Succeeded");
    assert_eq!(host(&session)["hostname"], "db");
    assert_eq!(test.snapshots("repo"), ["db /dumpfile.sql"]);
    assert_eq!(test.restarts(), restarts, "no pod of the database was restarted");
    let dump = ["dump", "latest", "/dumpfile.sql", "--host", "db", "--no-lock"];
    let dump = test.repository("repo").ok(Engine::Restic, &dump);
    assert!(
        dump.contains("it's row 1000") || dump.contains("it\\'s row 1000"),
        "genuine restic reads the dump"
    );
    // A new server has neither the rows nor the database.
    test.kubectl().args(["delete", "pods", "-l", "app=db"]).ok();
    family.wait(&test);
    restore(&test, "back", task);
    let back = ended(&test, "back");
    assert_eq!(back["status"]["phase"], "Succeeded", "{:#}", back["status"]);
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
        test.kubectl().args(["delete", "backupconfiguration.stash.appscode.com", name]).ok();
    };
    // The first database is dumped before the second is missed: half a dump.
    failing("half", "{name: args, value: --databases shop gone}", "Unknown database 'gone'");
    test.tenant.apply(
        "{apiVersion: v1, kind: Secret, metadata: {name: auth}, stringData: {user: root, password: wrong}}",
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
    test.kubectl().args(["delete", &task, &functions[0], &functions[1]]).ok();
    test.assert_nothing_is_left("repo");
}
