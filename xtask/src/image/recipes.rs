//! The content of the test images: packages, what is removed again, and the scripts that start the databases. Data
//! only; `debian.rs` uses it. A change of any text here changes the image's key in the cache.
use super::debian::Recipe;

/// Packages of both images beside Debian's minimum: tools for inspection, and those that tests on files use.
const TOOLS: &str = "ca-certificates,curl,procps,iproute2,bind9-dnsutils,e2fsprogs,attr,acl";

/// The sample app needs a shell, coreutils and the web server in busybox.
pub(super) const DEBIAN: Recipe = Recipe {
    name: "debian",
    reference: super::DEBIAN,
    packages: &[TOOLS, "busybox-static"],
    clean: "",
    scripts: &[],
};

/// `postgresql` and not a numbered package: the release decides (15 in bookworm).
pub(super) const DATABASES: Recipe = Recipe {
    name: "databases",
    reference: super::DATABASES,
    packages: &[TOOLS, "mariadb-server,mariadb-client,postgresql,postgresql-client"],
    clean: CLEAN_DATABASES,
    scripts: &[("usr/local/bin/run-mariadb", RUN_MARIADB), ("usr/local/bin/run-postgres", RUN_POSTGRES)],
};

/// The packages create a database and a key during installation; LLVM is needed only for `jit`, which is off.
const CLEAN_DATABASES: &str = r"
rm -rf var/lib/mysql/* var/lib/postgresql/* etc/postgresql/* etc/ssl/private/* etc/ssl/certs/ssl-cert-snakeoil.pem
rm -rf usr/lib/*/libLLVM* usr/lib/llvm* usr/lib/*/libz3* usr/lib/*/libmariadbd* usr/share/mysql/mysql-test
rm -rf usr/lib/postgresql/*/lib/bitcode usr/lib/postgresql/*/lib/llvmjit*
rm -f usr/bin/*embedded* usr/bin/mariadb-client-test* usr/bin/mysql_client_test*
# The programs themselves on the PATH: Debian's wrappers look for a cluster in /etc/postgresql.
for program in usr/lib/postgresql/*/bin/*; do ln -s /$program usr/local/bin/; done
";

/// See box.md, section 3. The data directory is created under another name and renamed, so that a killed start is
/// repeated; the init file runs at every start and changes nothing the second time.
const RUN_MARIADB: &str = r#"#!/bin/sh
# MariaDB in the foreground. MARIADB_ROOT_PASSWORD must be set; MARIADB_DATABASE is created if given.
# MARIADB_DATA_DIR must lie inside the volume, not be its root.
set -eu
: "${MARIADB_ROOT_PASSWORD:?must be set}"
data=${MARIADB_DATA_DIR:-/var/lib/mysql/data}
if [ "$(id -u)" = 0 ]; then
    user=--user=mysql
    own() { chown -R mysql:mysql "$@"; }
else
    user=
    own() { :; }
fi

mkdir -p "$(dirname "$data")" /run/mysqld
if [ ! -d "$data/mysql" ]; then
    rm -rf "$data.new"
    mkdir "$data.new"
    own "$data.new"
    mariadb-install-db $user --datadir="$data.new" --auth-root-authentication-method=normal --skip-test-db >&2
    mv -T "$data.new" "$data"
fi

quoted() { printf %s "$1" | sed "s/['\\\\]/\\\\&/g"; }
password=$(quoted "$MARIADB_ROOT_PASSWORD")
database=${MARIADB_DATABASE:+"CREATE DATABASE IF NOT EXISTS \`$MARIADB_DATABASE\`;"}
# Installation leaves accounts without a password (root@127.0.0.1, root@::1, root@HOSTNAME): they go first.
# printf, because the echo of sh takes backslashes apart. The file must be its owner's from the beginning.
(
    umask 077
    printf '%s\n' "DELETE FROM mysql.global_priv WHERE User = '';" \
        "DELETE FROM mysql.global_priv WHERE User = 'root' AND Host NOT IN ('localhost', '%');" \
        "FLUSH PRIVILEGES;" \
        "ALTER USER root@localhost IDENTIFIED BY '$password';" \
        "CREATE USER IF NOT EXISTS root@'%' IDENTIFIED BY '$password';" \
        "ALTER USER root@'%' IDENTIFIED BY '$password';" \
        "GRANT ALL PRIVILEGES ON *.* TO root@'%' WITH GRANT OPTION;" \
        "$database" > /run/mysqld/init.sql
)
own "$data" /run/mysqld

exec mariadbd $user --datadir="$data" --bind-address=0.0.0.0 --skip-name-resolve \
    --innodb-buffer-pool-size=64M --init-file=/run/mysqld/init.sql "$@"
"#;

const RUN_POSTGRES: &str = r#"#!/bin/sh
# PostgreSQL in the foreground. POSTGRES_PASSWORD must be set.
# PGDATA must lie inside the volume, not be its root.
set -eu
: "${POSTGRES_PASSWORD:?must be set}"
data=${PGDATA:-/var/lib/postgresql/data}
if [ "$(id -u)" = 0 ]; then
    as="setpriv --reuid=postgres --regid=postgres --init-groups"
    own() { chown -R postgres:postgres "$@"; }
else
    as=
    own() { :; }
fi

mkdir -p "$(dirname "$data")" /run/postgresql
own /run/postgresql
if [ ! -e "$data/PG_VERSION" ]; then
    rm -rf "$data.new"
    mkdir "$data.new"
    (umask 077; printf '%s\n' "$POSTGRES_PASSWORD" > /run/postgresql/password)
    own "$data.new" /run/postgresql
    $as initdb -D "$data.new" --username=postgres --auth-local=trust --auth-host=scram-sha-256 \
        --pwfile=/run/postgresql/password --locale=C.UTF-8 >&2
    rm /run/postgresql/password
    echo 'host all all all scram-sha-256' >> "$data.new/pg_hba.conf"
    mv -T "$data.new" "$data"
fi
own "$data"
chmod 700 "$data"

exec $as postgres -D "$data" -c listen_addresses='*' -c jit=off "$@"
"#;
