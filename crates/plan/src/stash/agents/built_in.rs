//! The agents that an installation makes: `stash` and `osm`, which our own program is, and the dump tools `mysqldump` and
//! `pg_dump`. Passwords are handed on by environment, and are in no argument. Pure.

use lifeboat_api::stash::{AgentCommands, BackupAgentSpec};

use super::command::{AgentFacts, CommandLine, Wanted};
use super::{Database, Use};
use crate::stash::databases::load_postgres;

const MYSQL_DUMP: &str = r#"MYSQL_PWD="$DB_PASSWORD" mysqldump --host="$DB_HOST" ${DB_PORT:+--port="$DB_PORT"} --user="$DB_USER" --single-transaction --no-tablespaces --routines --events --max-allowed-packet=1073741824 --loose-set-gtid-purged=OFF --loose-column-statistics=0 "$@" | restic -r {{RepoName}} backup"#;
const MYSQL_LOAD: &str = r#"restic -r {{RepoName}} restore | MYSQL_PWD="$DB_PASSWORD" mysql --host="$DB_HOST" ${DB_PORT:+--port="$DB_PORT"} --user="$DB_USER" "$@""#;
const POSTGRES_DUMP: &str = r#"PGPASSWORD="$DB_PASSWORD" pg_dump --no-password --host="$DB_HOST" ${DB_PORT:+--port="$DB_PORT"} --username="$DB_USER" --clean --if-exists "$@" | restic -r {{RepoName}} backup"#;
/// Makes the database if it was dropped. Without ON_ERROR_STOP psql ignores failed statements.
const POSTGRES_LOAD: &str = r#"restic -r {{RepoName}} restore | PGPASSWORD="$DB_PASSWORD" PGHOST="$DB_HOST" PGPORT="${DB_PORT:-5432}" PGUSER="$DB_USER" sh -c 'db=$1; shift; createdb --no-password "$db" </dev/null 2>/dev/null; exec psql --no-password --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname="$db" "$@"' sh "$@""#;
const POSTGRES_DUMP_ALL: &str = r#"PGPASSWORD="$DB_PASSWORD" pg_dumpall --no-password --host="$DB_HOST" ${DB_PORT:+--port="$DB_PORT"} --username="$DB_USER" "$@""#;
const POSTGRES_ENV: &str = r#"export PGPASSWORD="$DB_PASSWORD" PGHOST="$DB_HOST" PGPORT="${DB_PORT:-5432}" PGUSER="$DB_USER" PGDATABASE=postgres"#;
const POSTGRES_LOAD_OPTIONS: [&str; 4] = ["--no-password", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"];
const RESTIC_BACKUP: &str = "restic -r {{RepoName}} backup";
const RESTIC_RESTORE: &str = "restic -r {{RepoName}} restore";
/// The user of PostgreSQL if the server does not know another one.
const POSTGRES_USER: &str = "postgres";
const POSTGRES: &str = "pg_dump";

/// An agent that an installation makes.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultAgent {
    pub name: &'static str,
    pub spec: BackupAgentSpec,
}

/// The images of default agents.
#[derive(Clone, Copy, Debug)]
pub struct DefaultImages<'a> {
    /// The server's own.
    pub own: &'a str,
    pub mysql: &'a str,
    pub postgres: &'a str,
}

/// The agents `stash`, `mysqldump`, `pg_dump` and `osm`.
pub fn default_agents(images: DefaultImages<'_>) -> Vec<DefaultAgent> {
    let agent = |name, image: &str, commands| DefaultAgent {
        name,
        spec: BackupAgentSpec { image: image.to_owned(), commands, arguments: None },
    };
    vec![
        agent("stash", images.own, commands("backup", "recover")),
        agent("mysqldump", images.mysql, commands(MYSQL_DUMP, MYSQL_LOAD)),
        agent(POSTGRES, images.postgres, commands(POSTGRES_DUMP, POSTGRES_LOAD)),
        agent("osm", images.own, commands("backup", "recover")),
    ]
}

fn commands(backup: &str, recovery: &str) -> AgentCommands {
    AgentCommands { backup: vec![backup.to_owned()], recovery: vec![recovery.to_owned()] }
}

/// The built-in `pg_dump` for all databases, whose tools are others: pg_dumpall, and psql with roles that may exist. None for any
/// other agent, also for one of that name that a user has changed.
pub(super) fn for_all_databases(agent: AgentFacts<'_>, wanted: Wanted<'_>) -> Option<Vec<CommandLine>> {
    let is_built_in = agent.name == POSTGRES
        && agent.spec.commands == commands(POSTGRES_DUMP, POSTGRES_LOAD)
        && agent.arguments.is_empty();
    if !is_built_in || matches!(wanted.database, Database::Named(_)) {
        return None;
    }
    let line = |name: &str, line: String, arguments| CommandLine { name: name.to_owned(), line, arguments };
    Some(match wanted.purpose {
        Use::Backup => vec![
            line("pg_dumpall", POSTGRES_DUMP_ALL.to_owned(), wanted.args.to_vec()),
            line("restic", RESTIC_BACKUP.to_owned(), Vec::new()),
        ],
        Use::Recovery => {
            let script = load_postgres(wanted.user.unwrap_or(POSTGRES_USER));
            let options = POSTGRES_LOAD_OPTIONS.iter().map(|&option| option.to_owned());
            vec![
                line("restic", RESTIC_RESTORE.to_owned(), Vec::new()),
                line(
                    "psql",
                    format!("{POSTGRES_ENV}\n{script}"),
                    options.chain(wanted.args.iter().cloned()).collect(),
                ),
            ]
        }
    })
}
