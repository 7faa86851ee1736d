//! Archives that no backup writer produces: refused before anything is created, with the reason.

use std::fs;

use lifeboat_e2e::{HostServer, Namespace, Program, kubectl};

use super::{backup, fill, filled};

/// How an archive is manipulated: a name, the shell commands for the file `archive` (`plain.tar` is its content), and a
/// part of the expected message.
const SPOILED: [(&str, &str, &str); 9] = [
    ("cut", "truncate -s -40 archive", "cut"),
    ("empty", "truncate -s 0 archive", "archive"),
    ("no-gzip", "cp plain.tar archive", "not gzip"),
    ("other-end", "head -c -2000 plain.tar | gzip > archive", "cut"),
    ("parent", "append 's,^extra$,resources/configmaps/../../escaped.json,'", "escaped"),
    ("absolute", "append 's,^extra$,/resources/escaped.json,'", "/resources/escaped.json"),
    ("doubled", "append 's,^extra$,metadata/version,'", "metadata/version"),
    ("link", "ln -sf /etc/passwd extra; append 's,^extra$,resources/link.json,'", "resources/link.json"),
    (
        "bomb",
        "truncate -s 60M extra; for n in 1 2 3 4; do add \"s,^extra$,resources/bombs/cluster/$n.json,\"; done; pack",
        "larger than a backup can be",
    ),
];

const SHELL: &str = "set -e
gunzip < archive > plain.tar
echo '{}' > extra
add() { tar -P -rf plain.tar --transform=\"flags=r;$1\" extra; }
pack() { gzip < plain.tar > archive; }
append() { add \"$1\"; pack; }
";

#[test]
fn a_spoiled_archive_is_refused_before_anything_is_created() {
    let server = HostServer::start("spoiled", &[]);
    let app = Namespace::new("spoiled-app");
    fill(&app, 5);
    server.assert_phase(&backup(&server, "whole", &app.name), &["Completed"]);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    let key = "backups/whole/whole.tar.gz";
    let original = tempfile::NamedTempFile::new().unwrap();
    server.bucket.get(key, original.path());
    for (name, spoil, message) in SPOILED {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("archive");
        fs::copy(original.path(), &archive).unwrap();
        let script = format!("cd '{}'\n{SHELL}{spoil}\n", directory.path().display());
        Program::new("bash").args(["-c", &script]).ok();
        server.bucket.put(key, &archive);
        let made = server.restore(name, "whole", &[]);
        server.assert_phase(&made, &["Failed"]);
        let reason = made["status"]["failureReason"].as_str().unwrap_or_default();
        assert!(reason.contains(message), "{name}: {message:?} is not in {reason:?}");
        assert_eq!(filled(&app.name), 0, "{name}: something was created");
    }
    server.bucket.put(key, original.path());
    server.assert_phase(&server.restore("unspoiled", "whole", &[]), &["Completed"]);
    assert_eq!(filled(&app.name), 5);
}

#[test]
fn a_backup_of_a_newer_format_is_named_and_refused() {
    let server = HostServer::start("newer", &[]);
    let app = Namespace::new("newer-app");
    fill(&app, 1);
    server.assert_phase(&backup(&server, "whole", &app.name), &["Completed"]);
    let directory = tempfile::tempdir().unwrap();
    server.bucket.get("backups/whole/whole.tar.gz", &directory.path().join("archive"));
    let script = format!(
        "cd '{}'; mkdir metadata; printf 2.0.0 > metadata/version; gunzip < archive > plain.tar
         tar --delete -f plain.tar metadata/version; tar -rf plain.tar metadata/version; gzip < plain.tar > archive",
        directory.path().display()
    );
    Program::new("bash").args(["-ec", &script]).ok();
    server.bucket.put("backups/whole/whole.tar.gz", &directory.path().join("archive"));
    let made = server.restore("newer", "whole", &[]);
    server.assert_phase(&made, &["Failed"]);
    assert!(
        made["status"]["failureReason"].as_str().unwrap_or_default().contains("2.0.0"),
        "{}",
        made["status"]
    );
    assert!(server.described("restore", "newer").contains("newer version"));
}

#[test]
fn an_archive_that_does_not_fit_the_spool_is_refused_before_anything_is_created() {
    let server = HostServer::start("nospace", &["--spool-size=1"]);
    let app = Namespace::new("nospace-app");
    for number in 0..3 {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = Program::new("sh").args(["-c", "head -c 600000 /dev/urandom | base64 -w0"]).ok();
        fs::write(file.path(), text).unwrap();
        let from = format!("--from-file=data={}", file.path().display());
        app.kubectl().args(["create", "configmap", &format!("map-{number}"), &from]).ok();
    }
    server.assert_phase(&backup(&server, "large", &app.name), &["Completed"]);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    let made = server.restore("large", "large", &[]);
    server.assert_phase(&made, &["Failed"]);
    let reason = made["status"]["failureReason"].as_str().unwrap_or_default();
    assert!(reason.contains("spool"), "{reason}");
    assert_eq!(filled(&app.name), 0);
}
