//! The conversation between the commands of an agent and the mover that runs them. The program `restic` in such a command
//! has no address, no password and no repository: it hands its standard input (backup) or output (restore) to the mover
//! through a socket, and waits for the answer. Takes the socket's path and an open file; gives the mover's answer. Called
//! by the command line under the name `restic`; the mover's end is `run::agent`.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

/// The longest message in either direction.
const LONGEST: usize = 16 * 1024;

/// A request of the program `restic` to the mover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "verb", deny_unknown_fields)]
pub enum Request {
    /// Read the passed file to its end and prepare a snapshot of it.
    Backup,
    /// Write the content of the task's snapshot into the passed file.
    Restore {
        /// The snapshot that the command names, if it names one.
        snapshot: Option<String>,
    },
}

impl Request {
    /// The command of the request, for messages.
    pub fn command(&self) -> &'static str {
        match self {
            Self::Backup => "restic backup",
            Self::Restore { .. } => "restic restore",
        }
    }
}

/// The mover's answer, after which the program ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "answer", deny_unknown_fields)]
pub enum Answer {
    /// Everything was read or written. A prepared snapshot is saved only if all commands succeed.
    Done { bytes: u64 },
    /// The request was refused, or failed before its end.
    Refused { message: String },
}

/// Sends a request with a file and waits for the answer.
pub fn ask(socket: &Path, request: &Request, file: BorrowedFd<'_>) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    let text = line(request)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("there is no room for the file"));
    }
    let sent = sendmsg(&stream, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    if sent < text.len() {
        return Err(io::Error::other("the request was sent only in part"));
    }
    let answer = read_line(&stream, Vec::new())?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Receives a request and its file.
pub(crate) fn receive(stream: &UnixStream) -> io::Result<(Request, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; LONGEST];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let received = recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.flatten().next().ok_or_else(|| io::Error::other("the request has no file"))?;
    buffer.truncate(received.bytes);
    let text = if buffer.contains(&b'\n') { buffer } else { read_line(stream, buffer)? };
    Ok((serde_json::from_slice(&text)?, file))
}

/// Sends the answer. A program that was killed does not get it.
pub(crate) fn answer(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    io::Write::write_all(&mut stream, &line(answer)?)
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(message)?;
    text.push(b'\n');
    if text.len() > LONGEST {
        return Err(io::Error::other("the message is too long"));
    }
    Ok(text)
}

/// Reads to the end of a line, of which `text` is the beginning.
fn read_line(mut stream: &UnixStream, mut text: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 1024];
    while !text.contains(&b'\n') {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end hung up"));
        }
        text.extend_from_slice(&buffer[..read]);
        if text.len() > LONGEST {
            return Err(io::Error::other("the message is too long"));
        }
    }
    Ok(text)
}
