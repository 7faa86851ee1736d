//! Scripts for the shell of a tool's image: they wait until the database answers and then run the tool, whose exit code is theirs.

use super::words::{all_quoted, quoted};

/// How long to wait between two tries, in seconds.
pub(super) const PAUSE: u64 = 5;

/// What to do about a server's certificate that is not trusted.
const UNTRUSTED: &str = "the server's certificate has to be signed by an authority of clientConfig.caBundle of the AppBinding, or of \
     ca.crt of its tlsSecret";
/// What to do about a server that refuses the client's certificate.
const REFUSED: &str = "the server does not trust tls.crt of the AppBinding's tlsSecret: give it the authority of that certificate, or leave \
     tls.crt and tls.key out of the Secret";
/// What to do about a server without TLS.
const NO_TLS: &str =
    "the server has no TLS: turn it on, or set clientConfig.insecureSkipTLSVerify of the AppBinding";

/// Waits until the server answers a query. It does not wait after a wrong password, or if no TLS connection comes about
/// (error 2026): no TLS, or a certificate that one side does not trust. Then runs `last`, in which `$client` is the client and `$tool` the first
/// of `tools` that the image has.
pub(super) fn mysql(connection: &[String], tries: u64, tools: [&str; 2], last: &str) -> String {
    let connection = all_quoted(connection);
    let [first, second] = tools;
    format!(
        r#"client=$(command -v mysql || command -v mariadb) || {{
  echo "the image has neither mysql nor mariadb; see the server's flag --tool-image" >&2
  exit 127
}}
tool=$(command -v {first} || command -v {second}) || {{
  echo "the image has neither {first} nor {second}; see the server's flag --tool-image" >&2
  exit 127
}}
left={tries}
until said=$("$client" {connection} --execute='SELECT 1' 2>&1 </dev/null); do
  case $said in
    *'Access denied'*) left=0 ;;
    *'requires secure connection'*)
      left=0
      said="$said; {NO_TLS}" ;;
    *'alert unknown ca'*)
      left=0
      said="$said; {REFUSED}" ;;
    *ertificate*)
      left=0
      said="$said; {UNTRUSTED}" ;;
    *'ERROR 2026'*) left=0 ;;
  esac
  [ "$left" -gt 0 ] || {{ echo "$said" >&2; exit 1; }}
  left=$((left - 1))
  sleep {PAUSE}
done
{last}
"#
    )
}

/// Runs the tool once for each list of arguments; the first failure ends it.
pub(super) fn each(connection: &[String], runs: &[Vec<String>]) -> String {
    let run = |arguments: &Vec<String>| {
        format!("\"$tool\" {} {} || exit", all_quoted(connection), all_quoted(arguments))
    };
    runs.iter().map(run).collect::<Vec<_>>().join("\n")
}

/// Waits until the server accepts connections, then runs `last`. pg_isready does not say why a server does not respond,
/// so psql is asked. It does not wait if the server does not support TLS, or if its certificate is not trusted. libpq
/// refuses a private key that other users can read, as those of a Secret's volume are.
pub(super) fn postgres(tries: u64, last: &str) -> String {
    format!(
        r#"umask 077
if [ -n "${{PGSSLKEY:-}}" ]; then
  cat "$PGSSLKEY" > "$TMPDIR/client.key" || exit 1
  export PGSSLKEY="$TMPDIR/client.key"
fi
left={tries}
until said=$(pg_isready --timeout={PAUSE} 2>&1 </dev/null); do
  why=$(PGCONNECT_TIMEOUT={PAUSE} psql --no-password --no-psqlrc --dbname=postgres --command='SELECT 1' 2>&1 </dev/null) &&
    break
  case $why in
    *'certificate verify failed'* | *'root certificate file'*)
      left=0
      why="$why; {UNTRUSTED}" ;;
    *'does not support SSL'*)
      left=0
      why="$why; {NO_TLS}" ;;
  esac
  [ "$left" -gt 0 ] || {{ echo "$said: $why" >&2; exit 1; }}
  left=$((left - 1))
  sleep {PAUSE}
done
{last}
"#
    )
}

/// Loads a dump with psql, whose exit code is that of the script. In the dump of a whole server (pg_dumpall),
/// statements before the first database are changed: the role that loads the dump keeps the password of the
/// AppBinding's Secret, and other roles may already exist. Everything else is loaded unchanged, because users' data
/// may contain the same text. If sed fails, statements that fail follow what psql already got: a shell knows the exit
/// code of the last program only, and part of a dump is no restore.
pub(in crate::stash) fn load_postgres(user: &str) -> String {
    let role = pattern(&identifier(user));
    let script = format!(
        r"2{{
/^-- PostgreSQL database cluster dump$/!{{
:plain
n
b plain
}}
}}
/^\\connect /{{
:rest
n
b rest
}}
/^CREATE ROLE {role};$/d
/^DROP ROLE {role};$/d
/^DROP ROLE IF EXISTS {role};$/d
/^ALTER ROLE {role} WITH /d
s/^CREATE ROLE \(.*\);$/DO $lifeboat$ BEGIN CREATE ROLE \1; EXCEPTION WHEN duplicate_object THEN NULL; END $lifeboat$;/
"
    );
    let cut_off = r"printf '\n\\.\nSELECT lifeboat_dump_was_cut_off;\n'";
    format!("{{ LC_ALL=C sed {} || {cut_off}; }} | psql \"$@\"", quoted(&script))
}

/// A role as pg_dumpall writes it.
fn identifier(user: &str) -> String {
    let is_plain = |(place, byte): (usize, u8)| {
        byte.is_ascii_lowercase() || byte == b'_' || (place > 0 && byte.is_ascii_digit())
    };
    if !user.is_empty() && user.bytes().enumerate().all(is_plain) {
        user.to_owned()
    } else {
        format!("\"{}\"", user.replace('"', "\"\""))
    }
}

/// A pattern of sed that only the text itself matches.
fn pattern(text: &str) -> String {
    let escaped = |character: char| match character {
        '\\' | '/' | '.' | '*' | '[' | ']' | '^' | '$' => format!("\\{character}"),
        other => other.to_string(),
    };
    text.chars().map(escaped).collect()
}
