//! A proxy that simulates a distant server: takes the address of a server and returns one that forwards to it, with
//! every byte delayed by half a round trip in each direction. Bandwidth is not limited. `bench repository` puts it in
//! front of the S3 server.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The maximum size of one read, and how many of them may be in transit in one direction. Their product, 64 MiB, fills
/// a delay of 15 ms at 4 GB/s, which is more than loopback achieves.
const PIECE: usize = 64 << 10;
const ON_THE_WAY: usize = 1024;

/// Bytes, and when they are delivered.
type Late = (Instant, Vec<u8>);

/// Listens on loopback until the process ends; returns the address.
pub(crate) fn proxy(server: SocketAddr, round_trip: Duration) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port for the delay")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // If the server cannot be reached, the connection is closed, as the client would see it without a proxy.
            let _ = connect(client, server, round_trip);
        }
    });
    Ok(address)
}

fn connect(client: TcpStream, server: SocketAddr, round_trip: Duration) -> Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    // On a real network, opening the connection takes a round trip before the first byte is sent.
    let opened = Instant::now() + round_trip;
    carry(client.try_clone()?, server.try_clone()?, round_trip / 2, opened);
    carry(server, client, round_trip / 2, opened);
    Ok(())
}

/// One direction: one thread reads and adds the time, another waits and writes.
fn carry(from: TcpStream, to: TcpStream, delay: Duration, opened: Instant) {
    let (send, receive) = sync_channel(ON_THE_WAY);
    thread::spawn(move || read(from, &send, delay, opened));
    thread::spawn(move || write(&receive, to));
}

fn read(mut from: TcpStream, send: &SyncSender<Late>, delay: Duration, opened: Instant) {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(length) if length > 0 => {
                let arrives = Instant::now().max(opened) + delay;
                if send.send((arrives, piece[..length].to_vec())).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return, // dropping the sender ends the writer
        }
    }
}

fn write(receive: &Receiver<Late>, mut to: TcpStream) {
    for (arrives, piece) in receive {
        thread::sleep(arrives.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that returns everything it receives, until the client has closed its side.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || std::io::copy(&mut stream.try_clone().expect("cloned"), &mut &stream));
            }
        });
        address
    }

    #[test]
    fn bytes_arrive_whole_in_order_and_never_early() {
        let address = proxy(echo(), Duration::from_millis(30)).expect("a proxy");
        let sent: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let began = Instant::now();
        let mut stream = TcpStream::connect(address).expect("connected");
        let mut writer = stream.try_clone().expect("cloned");
        let text = sent.clone();
        thread::spawn(move || {
            writer.write_all(&text).expect("sent");
            writer.shutdown(Shutdown::Write).expect("ended");
        });
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("received");
        assert!(received == sent, "what came back differs");
        // One round trip to open the connection, one for the bytes. Only a lower bound, because the machine may be
        // busy.
        assert!(began.elapsed() >= Duration::from_millis(60));
    }
}
