//! The command lines of built-in tools. Passwords are in the environment, which refers to the Secret, and never in arguments.

use lifeboat_api::stash::Param;
use serde_json::Value;

use super::access::{AppAccess, variable};
use super::built_in::{BuiltIn, Direction, Family};
use super::keys::KeySource;
use super::scripts::{self, PAUSE};
use super::words::split;

/// How long a database may take to answer, in seconds: the default of `waitTimeout`, and its maximum.
const WAIT: u64 = 300;
const LONGEST_WAIT: u64 = 24 * 60 * 60;
/// Longer rows than the tools expect by default.
const LARGEST_ROW: &str = "--max-allowed-packet=1073741824";
/// All tables as they were at one time. Tablespaces are those of NDB only, and reading them takes the right PROCESS.
const DUMP_OPTIONS: [&str; 2] = ["--single-transaction", "--no-tablespaces"];
/// For MySQL: the transaction IDs (GTIDs) of one server cannot be loaded into a server that has IDs of its own, and
/// prevent the loaded data from being replicated; older servers have no column statistics. Clients ignore options
/// with this prefix that they do not know.
const MYSQL_DUMP_OPTIONS: [&str; 2] = ["--loose-set-gtid-purged=OFF", "--loose-column-statistics=0"];

/// A program that a mover starts in a tool's image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCommand {
    pub argv: Vec<String>,
    /// Variables of the container.
    pub env: Vec<Value>,
}

/// Why a built-in tool cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("task.params: {name:?} is not a parameter of {task}; it has {supported}")]
    UnknownParam { name: String, task: String, supported: &'static str },
    #[error("task.params: {name} has a quote that is not closed; close it")]
    Quote { name: String },
    #[error("task.params: waitTimeout {value:?} is not a number of seconds from 0 to {LONGEST_WAIT}")]
    Wait { value: String },
    #[error("task.params: backupCMD {value:?} is unknown; expected pg_dumpall or pg_dump")]
    BackupCommand { value: String },
    #[error(
        "task.params: argument {arg:?} would show a password in the pod; put it into the AppBinding's Secret"
    )]
    Password { arg: String },
    #[error("task.params: args and multiDumpArgs exclude each other; remove one of the two")]
    TwoArgs,
    #[error("task.params: multiDumpArgs {value:?} has no \"$args=\"; write \"$args=… $args=…\"")]
    MultiDump { value: String },
}

/// The command of a tool.
pub fn tool_command(tool: &BuiltIn, app: &AppAccess, params: &[Param]) -> Result<ToolCommand, CommandError> {
    let params = Params::read(tool, params)?;
    match tool.family {
        Family::Mysql | Family::Mariadb => mysql(tool, app, &params),
        Family::Postgres => Ok(postgres(tool, app, &params)),
    }
}

/// The parameters of a task.
struct Params {
    args: Option<Vec<String>>,
    multi: Vec<Vec<String>>,
    tries: u64,
    program: String,
    user: Option<String>,
}

impl Params {
    fn read(tool: &BuiltIn, params: &[Param]) -> Result<Self, CommandError> {
        let is_backup = tool.direction == Direction::Backup;
        let is_postgres = tool.family == Family::Postgres;
        let mut read = Self {
            args: None,
            multi: Vec::new(),
            tries: WAIT / PAUSE,
            program: "pg_dumpall".to_owned(),
            user: None,
        };
        for Param { name, value } in params {
            match name.as_str() {
                "args" => read.args = Some(words(name, value)?),
                "waitTimeout" => read.tries = wait(value)?.div_ceil(PAUSE),
                "backupCMD" if is_postgres && is_backup => read.program = backup_command(value)?,
                "user" if is_postgres => read.user = Some(value.clone()).filter(|user| !user.is_empty()),
                "multiDumpArgs" if !is_postgres && is_backup => read.multi = multi_dump(value)?,
                _ => {
                    let task = format!("{}-{}-{}", tool.family, tool.direction.as_str(), tool.version);
                    let supported = supported(is_postgres, is_backup);
                    return Err(CommandError::UnknownParam { name: name.clone(), task, supported });
                }
            }
        }
        if read.args.is_some() && !read.multi.is_empty() {
            return Err(CommandError::TwoArgs);
        }
        Ok(read)
    }
}

fn supported(is_postgres: bool, is_backup: bool) -> &'static str {
    match (is_postgres, is_backup) {
        (true, true) => "args, backupCMD, user, waitTimeout",
        (true, false) => "args, user, waitTimeout",
        (false, true) => "args, multiDumpArgs, waitTimeout",
        (false, false) => "args, waitTimeout",
    }
}

fn words(name: &str, value: &str) -> Result<Vec<String>, CommandError> {
    split(value).ok_or_else(|| CommandError::Quote { name: name.to_owned() })
}

fn wait(value: &str) -> Result<u64, CommandError> {
    let seconds = value.trim().parse().ok().filter(|seconds| *seconds <= LONGEST_WAIT);
    seconds.ok_or_else(|| CommandError::Wait { value: value.to_owned() })
}

fn backup_command(value: &str) -> Result<String, CommandError> {
    match value {
        "pg_dump" | "pg_dumpall" => Ok(value.to_owned()),
        _ => Err(CommandError::BackupCommand { value: value.to_owned() }),
    }
}

/// Upstream's form: `$args=--databases a $args=--databases b`.
fn multi_dump(value: &str) -> Result<Vec<Vec<String>>, CommandError> {
    let mut runs = value.split("$args=");
    if runs.next().is_none_or(|before| !before.trim().is_empty()) {
        return Err(CommandError::MultiDump { value: value.to_owned() });
    }
    let runs: Vec<Vec<String>> = runs.map(|run| words("multiDumpArgs", run)).collect::<Result<_, _>>()?;
    if runs.is_empty() { Err(CommandError::MultiDump { value: value.to_owned() }) } else { Ok(runs) }
}

fn mysql(tool: &BuiltIn, app: &AppAccess, params: &Params) -> Result<ToolCommand, CommandError> {
    let arguments = params.args.iter().flatten().chain(params.multi.iter().flatten());
    for arg in arguments {
        if has_password(arg) {
            // Only the name of the option: the rest is the password.
            let arg = arg.split('=').next().unwrap_or_default();
            let arg = if arg.starts_with("--") { arg } else { "-p" };
            return Err(CommandError::Password { arg: arg.to_owned() });
        }
    }
    let connection = mysql_connection(tool, app);
    let (first, second) = ("mysqldump", "mariadb-dump");
    let dumps = if tool.family == Family::Mariadb { [second, first] } else { [first, second] };
    let mut options = connection.clone();
    options.push(LARGEST_ROW.to_owned());
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let (script, more) = if tool.direction == Direction::Restore {
        let clients =
            if tool.family == Family::Mariadb { ["mariadb", "mysql"] } else { ["mysql", "mariadb"] };
        let script = scripts::mysql(&connection, params.tries, clients, "exec \"$tool\" \"$@\"");
        (script, params.args.clone().unwrap_or_default())
    } else {
        options.extend(owned(&DUMP_OPTIONS));
        if tool.family == Family::Mysql {
            options.extend(owned(&MYSQL_DUMP_OPTIONS));
        }
        let last = if params.multi.is_empty() {
            "exec \"$tool\" \"$@\"".to_owned()
        } else {
            scripts::each(&options, &params.multi)
        };
        let own = || params.args.clone().unwrap_or_else(|| owned(&["--all-databases"]));
        let more = if params.multi.is_empty() { whole_server(own()) } else { Vec::new() };
        (scripts::mysql(&connection, params.tries, dumps, &last), more)
    };
    let options = if params.multi.is_empty() { options } else { Vec::new() };
    let env = app.password.iter().map(|password| variable("MYSQL_PWD", password)).collect();
    Ok(ToolCommand { argv: shell(script, options.into_iter().chain(more)), env })
}

/// Whether an argument of a MySQL client is a password. Its options may be shortened, as long as they stay unique.
fn has_password(arg: &str) -> bool {
    const SHORTEST: usize = "--pa".len();
    let (name, value) = arg.split_once('=').map_or((arg, None), |(name, value)| (name, Some(value)));
    let name = name.replacen("--loose-", "--", 1);
    let is_short = value.is_some() && name.len() >= SHORTEST && "--password".starts_with(&name);
    name.starts_with("--password") || is_short || (arg.starts_with("-p") && arg.len() > 2)
}

/// The arguments of a dump. The dump of a whole server includes routines and events, which newer versions of MySQL
/// leave out by default. Later arguments, such as `--skip-events`, take precedence.
fn whole_server(own: Vec<String>) -> Vec<String> {
    let is_whole = own.iter().any(|arg| arg == "--all-databases" || arg == "-A");
    let more: &[&str] = if is_whole { &["--routines", "--events"] } else { &[] };
    more.iter().map(|&word| word.to_owned()).chain(own).collect()
}

fn mysql_connection(tool: &BuiltIn, app: &AppAccess) -> Vec<String> {
    let mut options = vec![
        format!("--host={}", app.host),
        format!("--port={}", app.port.unwrap_or(tool.family.port())),
        format!("--user={}", app.user.as_deref().unwrap_or(tool.family.user())),
    ];
    options.extend(app.authority_file().map(|file| format!("--ssl-ca={file}")));
    if let Some((certificate, key)) = app.certificate_files() {
        options.push(format!("--ssl-cert={certificate}"));
        options.push(format!("--ssl-key={key}"));
    }
    // Clients ignore an option with this prefix that they do not know.
    match tool.family {
        // Newer clients verify by default.
        Family::Mariadb if app.skip_verify => options.push("--loose-skip-ssl-verify-server-cert".to_owned()),
        // A server without TLS gets a password only encrypted with its own key, which nothing proves to be its own.
        Family::Mysql if app.skip_verify => options.push("--loose-get-server-public-key".to_owned()),
        _ => {}
    }
    options
}

fn postgres(tool: &BuiltIn, app: &AppAccess, params: &Params) -> ToolCommand {
    let user = params.user.as_deref().or(app.user.as_deref()).unwrap_or(tool.family.user());
    let mut env: Vec<Value> = Vec::new();
    let mut set = |name: &str, value: &str| env.push(variable(name, &KeySource::Literal(value.to_owned())));
    set("PGHOST", &app.host);
    set("PGPORT", &app.port.unwrap_or(tool.family.port()).to_string());
    set("PGUSER", user);
    let authority = app.authority_file();
    let mode = app.query.get("sslmode").map(String::as_str);
    let default = if authority.is_some() { Some("verify-ca") } else { None };
    if let Some(mode) = mode.or(default) {
        set("PGSSLMODE", mode);
    }
    if let Some(file) = &authority {
        set("PGSSLROOTCERT", file);
    }
    if let Some((certificate, key)) = app.certificate_files() {
        set("PGSSLCERT", &certificate);
        set("PGSSLKEY", &key);
    }
    let arguments = params.args.clone().unwrap_or_default();
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let argv = if tool.direction == Direction::Backup {
        let program = owned(&[&params.program, "--no-password"]);
        shell(scripts::postgres(params.tries, "exec \"$@\""), program.into_iter().chain(arguments))
    } else {
        set("PGDATABASE", "postgres");
        // Without it psql ignores failed statements, and a restore that did nothing would count as a success.
        let options = owned(&["--no-password", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]);
        let script = scripts::postgres(params.tries, &scripts::load_postgres(user));
        shell(script, options.into_iter().chain(arguments))
    };
    env.extend(app.password.iter().map(|password| variable("PGPASSWORD", password)));
    ToolCommand { argv, env }
}

/// A script with arguments; the first word after it is its name in messages of the shell.
fn shell(script: String, arguments: impl Iterator<Item = String>) -> Vec<String> {
    let begin = ["sh".to_owned(), "-c".to_owned(), script, "lifeboat".to_owned()];
    begin.into_iter().chain(arguments).collect()
}
