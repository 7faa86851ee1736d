//! MariaDB and PostgreSQL with writes during the backup, hooks that quiesce them, and an invariant of every transaction
//! that must hold after the restore.

use crate::{HostServer, Namespace, kubectl, variable, wait_for};

/// Every transaction moves money from one account to another and counts itself in the log. `STOP` and `GO` are hooks:
/// they stop all processes of the server after a checkpoint and continue them. The pod's containers share their process
/// namespace, because a namespace's first process cannot be stopped from inside.
const DATABASE: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: NAME}
spec:
  serviceName: NAME
  selector: {matchLabels: {app: NAME}}
  template:
    metadata:
      labels: {app: NAME}
      annotations:
        pre.hook.backup.velero.io/container: main
        pre.hook.backup.velero.io/command: '["sh", "-c", "STOP"]'
        post.hook.backup.velero.io/container: main
        post.hook.backup.velero.io/command: '["sh", "-c", "GO"]'
    spec:
      terminationGracePeriodSeconds: 0
      shareProcessNamespace: true
      containers:
      - name: main
        image: DATABASES
        imagePullPolicy: IfNotPresent
        command: [RUN]
        env: &env
        - {name: POSTGRES_PASSWORD, value: not-a-real-secret}
        - {name: PGPASSWORD, value: not-a-real-secret}
        - {name: MARIADB_ROOT_PASSWORD, value: not-a-real-secret}
        - {name: MARIADB_DATABASE, value: bank}
        - {name: MYSQL_PWD, value: not-a-real-secret}
        - {name: PGDATA, value: /data/files}
        - {name: MARIADB_DATA_DIR, value: /data/files}
        volumeMounts: [{name: data, mountPath: /data}]
      - name: writer
        image: DATABASES
        imagePullPolicy: IfNotPresent
        env: *env
        command:
        - bash
        - -c
        - |
          until SQL 'SELECT 1'; do sleep 0.2; done
          SQL 'CREATE TABLE IF NOT EXISTS account (id int PRIMARY KEY, balance int NOT NULL)'
          SQL 'CREATE TABLE IF NOT EXISTS log (number int PRIMARY KEY, note text)'
          SQL 'INSERT INTO account VALUES (0, 1000), (1, 1000), (2, 1000), (3, 1000)' || true
          while true; do
            a=$((RANDOM % 4)); b=$(((a + 1) % 4))
            SQL "BEGIN; UPDATE account SET balance = balance - 1 WHERE id = $a; UPDATE account SET balance = balance + 1 WHERE id = $b;
                 INSERT INTO log SELECT count(*) + 1, '$(head -c 300 /dev/urandom | base64 -w0)' FROM log; COMMIT"
          done
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#;

/// One kind of database server.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    run: &'static str,
    sql: &'static str,
    stop: &'static str,
    go: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "postgres",
        run: "run-postgres",
        sql: "psql -qAt -v ON_ERROR_STOP=1 -h 127.0.0.1 -U postgres -c",
        stop: "psql -h 127.0.0.1 -U postgres -c CHECKPOINT && pkill -STOP -x postgres",
        go: "pkill -CONT -x postgres",
    },
    Kind {
        name: "mariadb",
        run: "run-mariadb",
        sql: "mariadb -N -h 127.0.0.1 -u root bank -e",
        stop: "mariadb -h 127.0.0.1 -u root -e 'FLUSH LOGS' && pkill -STOP -x mariadbd",
        go: "pkill -CONT -x mariadbd",
    },
];

/// Both databases, with continuous writes.
pub struct Databases {
    pub namespace: Namespace,
}

impl Databases {
    pub fn start(prefix: &str) -> Self {
        let databases = Self { namespace: Namespace::new(prefix) };
        for kind in KINDS {
            let text = DATABASE
                .replace("NAME", kind.name)
                .replace("RUN", kind.run)
                .replace("SQL ", &format!("{} ", kind.sql))
                .replace("STOP\"", &format!("{}\"", kind.stop.replace('\'', "''")))
                .replace("GO\"", &format!("{}\"", kind.go))
                .replace("DATABASES", &variable("LIFEBOAT_DATABASES_IMAGE"));
            databases.namespace.apply(&text);
        }
        databases.wait_until_written(20);
        databases
    }

    /// Waits until both have this many more transactions.
    pub fn wait_until_written(&self, more: i64) {
        for kind in KINDS {
            let rollout = ["rollout", "status", &format!("statefulset/{}", kind.name), "--timeout=180s"];
            self.namespace.kubectl().args(rollout).ok();
            let begin = self.count(kind);
            wait_for("transactions", 120, || {
                let now = self.count(kind);
                if now >= begin.max(0) + more { Ok(()) } else { Err(format!("{}: {now}", kind.name)) }
            });
        }
    }

    /// Fails unless the invariant holds in both, with at least this many transactions.
    pub fn assert_consistent(&self, at_least: &[i64]) {
        for (kind, least) in KINDS.into_iter().zip(at_least) {
            let query =
                "SELECT (SELECT sum(balance) FROM account), count(*), coalesce(max(number), 0) FROM log";
            let answer = wait_for("the database's answer", 120, || {
                let output = self.ask(kind, query);
                output.ok_or_else(|| format!("{} does not answer", kind.name))
            });
            let numbers: Vec<i64> =
                answer.split(['|', '\t']).map(|number| number.trim().parse().unwrap()).collect();
            let [sum, count, last] = numbers[..] else { panic!("{}: {answer}", kind.name) };
            assert_eq!(sum, 4000, "{}: money was lost or made", kind.name);
            assert_eq!(count, last, "{}: a transaction is missing", kind.name);
            assert!(count >= *least, "{}: {count} transactions, expected {least} at least", kind.name);
        }
    }

    /// The number of transactions in each.
    pub fn counts(&self) -> Vec<i64> {
        KINDS.into_iter().map(|kind| self.count(kind)).collect()
    }

    fn count(&self, kind: Kind) -> i64 {
        let answer = self.ask(kind, "SELECT count(*) FROM log");
        answer.and_then(|text| text.trim().parse().ok()).unwrap_or(-1)
    }

    fn ask(&self, kind: Kind, query: &str) -> Option<String> {
        let command = format!("{} \"{query}\"", kind.sql);
        let pod = format!("{}-0", kind.name);
        let output =
            self.namespace.kubectl().args(["exec", &pod, "-c", "main", "--", "sh", "-c", &command]).run();
        (output.code == 0).then_some(output.stdout)
    }

    /// Backs up both during writes, deletes and restores them, and fails unless the invariant holds.
    pub fn round_trip(&self, server: &HostServer, name: &str, way: &[&str]) {
        let before = self.counts();
        let only = ["--include-namespaces", self.namespace.name.as_str()];
        let backup = server.backup(name, &[&only, way].concat());
        server.assert_phase(&backup, &["Completed"]);
        assert_eq!(backup["status"]["hookStatus"]["hooksAttempted"], 4, "{backup}");
        // Writes continue, so the post hooks ran.
        self.wait_until_written(5);
        kubectl().args(["delete", "namespace", &self.namespace.name, "--timeout=180s"]).ok();
        let restore = server.restore(name, name, &[]);
        server.assert_phase(&restore, &["Completed"]);
        self.assert_consistent(&before);
        self.wait_until_written(5);
    }
}
