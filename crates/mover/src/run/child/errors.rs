//! What a command prints on its standard error: passed on to the mover's own, which is the pod's log, and its end kept for messages.
//! The values of secrets are masked in both.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::run::secrets::{Masking, Secrets};

/// How many bytes are kept, how many lines of them are shown, and how many characters.
const KEPT: usize = 4096;
const LINES: usize = 3;
const CHARACTERS: usize = 500;
/// How long to wait for the last lines of a command that has ended: a process that it left behind may have the pipe open.
const LAST: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

pub(in crate::run) struct Errors {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Errors {
    pub(in crate::run) fn follow(pipe: Option<impl Read + Send + 'static>, secrets: Secrets) -> Self {
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let reader = pipe.map(|pipe| {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || pass_on(pipe, io::stderr(), &kept, secrets.masking()))
        });
        Self { kept, reader }
    }

    /// The last lines of a command that has ended, as one line.
    pub(in crate::run) fn last_lines(&mut self) -> String {
        let until = Instant::now() + LAST;
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        shown(&self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn pass_on(mut pipe: impl Read, mut log: impl Write, kept: &Mutex<Vec<u8>>, mut masking: Masking) {
    let mut buffer = [0; 1024];
    loop {
        let masked = match pipe.read(&mut buffer) {
            Ok(0) => masking.finish(),
            Ok(read) => Some(masking.mask(&buffer[..read])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => masking.finish(),
        };
        let Some(masked) = masked else { return };
        // The work must not stop because its log cannot be written.
        let _ = log.write_all(&masked);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&masked);
        let beyond = kept.len().saturating_sub(KEPT);
        kept.drain(..beyond);
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("; ");
    let plain: Vec<char> = last.chars().filter(|character| !character.is_control()).collect();
    plain[plain.len().saturating_sub(CHARACTERS)..].iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_and_only_so_much_is_kept() {
        assert_eq!(shown(b""), "");
        assert_eq!(shown(b"one\ntwo\n\n three \nfour\n"), "two; three; four");
        assert_eq!(shown("\u{1b}[31mred\u{7}\n".as_bytes()), "[31mred");
        assert_eq!(shown(&[b'x'; 2000]).len(), CHARACTERS);
        let kept = Mutex::default();
        let secrets = Secrets::default();
        pass_on(io::repeat(b'a').take(10 * KEPT as u64), io::sink(), &kept, secrets.masking());
        assert_eq!(kept.into_inner().unwrap().len(), KEPT);
    }

    #[test]
    fn a_secret_is_neither_logged_nor_kept() {
        let (mut log, kept) = (Vec::new(), Mutex::default());
        let secrets = Secrets::of(["hunter2".to_owned()]);
        let input = io::Cursor::new(b"connecting as root:hunter2@db\nhunter2".to_vec());
        pass_on(input, &mut log, &kept, secrets.masking());
        assert_eq!(log, b"connecting as root:***@db\n***");
        assert_eq!(kept.into_inner().unwrap(), log);
    }
}
