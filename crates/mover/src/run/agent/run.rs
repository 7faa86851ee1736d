//! Runs the commands of an agent and serves the requests of their `restic`. Every function blocks, but not
//! for longer than a cancelled task may take; the commands are killed when the run is dropped.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::door::{Door, Ready, Visit};
use super::messages::{BACKGROUND, EMPTY, KILLED, NOT_CALLED, TWICE};
use super::sides::Side;
use super::start::{Starting, secrets};
use super::{Surroundings, TICK};
use crate::agent::{Answer, Request};
use crate::report::Cause;
use crate::run::failure::Failed;
use crate::task::AgentRun;

/// How long the other sides may take to end by themselves after a failure, so that the one with the cause is known.
const GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

pub(super) struct Run {
    // Dropped in this order: the commands are killed before their `restic` loses its socket.
    sides: Vec<Side>,
    visit: Option<Visit>,
    /// The process group of `restic`.
    group: Option<u32>,
    door: Door,
    /// Whether the commands are a source or a target.
    cause: Cause,
    bytes: u64,
    cancel: CancellationToken,
}

impl Run {
    pub(super) fn start(
        run: &AgentRun,
        surroundings: &Surroundings,
        cause: Cause,
        cancel: &CancellationToken,
    ) -> Result<Self, Failed> {
        let Surroundings { temporary, program, .. } = surroundings;
        let door = Door::open(temporary, program).map_err(|error| {
            let place = temporary.display();
            Failed::new(cause, format!("cannot make a socket for the agent's commands in '{place}': {error}"))
        })?;
        let starting = Starting { surroundings, door: &door, cause, secrets: secrets(run, surroundings) };
        let sides = starting.start(&run.command)?;
        Ok(Self { sides, visit: None, group: None, door, cause, bytes: 0, cancel: cancel.clone() })
    }

    /// Waits for the request of the commands' `restic`. `refuse`: why the request does not fit the task.
    pub(super) fn meet(&mut self, refuse: impl Fn(&Request) -> Option<String>) -> Result<(), Failed> {
        loop {
            self.check()?;
            let had_ended = self.all_ended();
            match self.door.wait(TICK).map_err(|error| self.broken(&error))? {
                Some(visit) => {
                    let refusal = refuse(&visit.request);
                    self.group = visit.group;
                    self.visit = Some(visit);
                    return refusal.map_or(Ok(()), |message| Err(self.refuse(&message)));
                }
                None if had_ended => return Err(self.blame(Some(NOT_CALLED))),
                None => {}
            }
        }
    }

    /// The file that `restic` handed over, for a writer.
    pub(super) fn file(&self) -> Result<OwnedFd, Failed> {
        let visit = self.visit.as_ref().ok_or(Failed::Cancelled)?;
        visit.file.try_clone().map_err(|error| self.broken(&error))
    }

    /// The next bytes of the dump; 0 at its end.
    pub(super) fn read(&mut self, room: &mut [u8]) -> Result<usize, Failed> {
        loop {
            self.check()?;
            let visit = self.visit.as_ref().ok_or(Failed::Cancelled)?;
            match visit.ready(TICK).map_err(|error| self.broken(&error))? {
                Ready::NotYet => {}
                Ready::HungUp => return Err(self.blame(Some(KILLED))),
                Ready::Data => {
                    let read = rustix::io::read(&visit.file, room);
                    let read = read.map_err(|error| self.broken(&error.into()))?;
                    self.bytes += read as u64;
                    return if read == 0 && self.bytes == 0 { Err(self.refuse(EMPTY)) } else { Ok(read) };
                }
            }
        }
    }

    /// Answers `restic` that its request is complete, and waits until all commands have ended. Succeeds only
    /// if all exited with 0.
    pub(super) fn finish(&mut self) -> Result<(), Failed> {
        self.check()?;
        // `restic` waits for its answer, and a command that waits for `restic` cannot have ended.
        if self.all_ended() {
            return Err(self.blame(Some(BACKGROUND)));
        }
        // This closes the mover's copy of the pipe: the command that reads from it waits for the end of its
        // input.
        if let Some(visit) = self.visit.take() {
            visit.answer(&Answer::Done { bytes: self.bytes });
        }
        loop {
            self.check()?;
            if self.all_ended() {
                return Ok(());
            }
            if let Some(visit) = self.door.wait(POLL).map_err(|error| self.broken(&error))? {
                self.group = visit.group;
                self.visit = Some(visit);
                return Err(self.refuse(TWICE));
            }
        }
    }

    /// Fails if the work was cancelled or a side has failed: such a run cannot succeed any more.
    pub(super) fn check(&mut self) -> Result<(), Failed> {
        if self.cancel.is_cancelled() {
            return Err(Failed::Cancelled);
        }
        for side in &mut self.sides {
            let status = side.status();
            status.map_err(|error| Failed::new(self.cause, format!("cannot wait for a command: {error}")))?;
        }
        if self.has_failed() { Err(self.blame(None)) } else { Ok(()) }
    }

    /// Whether a side has failed.
    pub(super) fn has_failed(&mut self) -> bool {
        self.sides.iter_mut().any(|side| {
            let _ = side.status();
            side.has_failed()
        })
    }

    fn all_ended(&mut self) -> bool {
        self.sides.iter_mut().all(|side| matches!(side.status(), Ok(Some(_))))
    }

    /// Answers `restic` that its request is refused, and ends the run.
    fn refuse(&mut self, message: &str) -> Failed {
        if let Some(visit) = &self.visit {
            visit.answer(&Answer::Refused { message: message.to_owned() });
        }
        self.blame(Some(message))
    }

    /// Kills all commands and returns why the run failed: the output of the sides that failed by themselves,
    /// else `own`, the mover's reason.
    pub(super) fn blame(&mut self, own: Option<&str>) -> Failed {
        // When the socket is closed, `restic` fails as a consequence, unless it was killed before.
        let consequent = self.group;
        let consequent = self.sides.iter_mut().position(|side| {
            Some(side.group()) == consequent && (own.is_some() || !matches!(side.status(), Ok(Some(_))))
        });
        self.visit = None;
        self.settle(consequent);
        self.sides.iter_mut().for_each(Side::kill);
        let mut texts = Vec::new();
        for (number, side) in self.sides.iter_mut().enumerate() {
            let counts = Some(number) != consequent || side.was_killed();
            if counts && side.is_cause() && !side.killed_by_us() {
                texts.push(side.failure());
            }
        }
        if texts.is_empty() {
            texts = own.map(|own| self.with_words(own)).into_iter().collect();
        }
        if texts.is_empty() {
            let failed = self.sides.iter_mut().filter(|side| side.has_failed());
            texts = failed.map(Side::failure).take(1).collect();
        }
        if self.cancel.is_cancelled() {
            return Failed::Cancelled;
        }
        Failed::new(self.cause, texts.join("; "))
    }

    /// Waits up to [`GRACE`] for a side that failed by itself, so that the first cause is reported.
    fn settle(&mut self, consequent: Option<usize>) {
        let until = Instant::now() + GRACE;
        while Instant::now() < until && !self.cancel.is_cancelled() {
            let mut running = false;
            for (number, side) in self.sides.iter_mut().enumerate() {
                let has_ended = !matches!(side.status(), Ok(None));
                running |= !has_ended;
                if side.is_cause() && (Some(number) != consequent || side.was_killed()) {
                    return;
                }
            }
            if !running {
                return;
            }
            std::thread::sleep(POLL);
        }
    }

    /// The mover's reason, with the last lines that the only side printed: one shell runs several tools.
    fn with_words(&mut self, own: &str) -> String {
        match self.sides.as_mut_slice() {
            [side] => match side.said() {
                said if said.is_empty() => own.to_owned(),
                said => format!("{own}; it printed: {said}"),
            },
            _ => own.to_owned(),
        }
    }

    fn broken(&self, error: &io::Error) -> Failed {
        Failed::new(self.cause, format!("cannot talk to `restic` of the agent's commands: {error}"))
    }
}
