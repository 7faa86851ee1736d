//! `restic` of these tests: a script that runs this test program with one test, which talks to the mover. The real program is
//! tested in crate `lifeboat`.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use crate::agent::{Answer, Request, ask};
use crate::task::AGENT_SOCKET;

/// The words after `restic -r NAME`.
const WORDS: &str = "AS_RESTIC";

/// Standard output is kept as file 3, because the test program prints on its own.
pub(super) fn script(this: &Path) -> String {
    format!(
        "#!/bin/sh\n[ \"$1 $2\" = '-r lifeboat:task' ] || exit 9\nshift 2\nexec 3>&1 >/dev/null\n\
         {WORDS}=\"$*\" exec '{}' --exact tests::agents::client::as_restic --nocapture\n",
        this.display()
    )
}

#[test]
fn as_restic() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let socket = std::env::var_os(AGENT_SOCKET).unwrap();
    let answer = match words.as_slice() {
        ["backup"] => ask(socket.as_ref(), &Request::Backup, std::io::stdin().as_fd()),
        ["restore", named @ ..] => {
            let output = File::options().write(true).open("/proc/self/fd/3").unwrap();
            let snapshot = named.first().map(|&name| name.to_owned());
            ask(socket.as_ref(), &Request::Restore { snapshot }, output.as_fd())
        }
        other => panic!("{other:?}"),
    };
    match answer {
        Ok(Answer::Done { .. }) => std::process::exit(0),
        Ok(Answer::Refused { message }) => eprintln!("restic: {message}"),
        Err(error) => eprintln!("restic: {error}"),
    }
    std::process::exit(1);
}
