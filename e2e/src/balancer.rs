//! Plays the Service in front of the replicas of a server on this machine: takes connections at one address, which pods reach, and
//! passes each on to the first replica that accepts it. A connection ends with its replica.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::rest_server::host_for_pods;

/// A balancer without replicas until [`Balancer::set`].
pub struct Balancer {
    address: String,
    replicas: Arc<Mutex<Vec<String>>>,
}

impl Balancer {
    /// Listens at an address that pods reach.
    pub fn start() -> Self {
        let listener = TcpListener::bind((host_for_pods().as_str(), 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let replicas = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&replicas);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let addresses: Vec<String> = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let connected = addresses.iter().find_map(|address| TcpStream::connect(address).ok());
                if let Some(replica) = connected {
                    pass(&client, &replica);
                    pass(&replica, &client);
                }
            }
        });
        Self { address, replicas }
    }

    /// The replicas, as host and port, in the order in which they are tried.
    pub fn set(&self, replicas: &[String]) {
        *self.replicas.lock().unwrap_or_else(PoisonError::into_inner) = replicas.to_vec();
    }

    /// The URL for TLS connections.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

/// Copies what one side sends to the other, until it ends; then ends both.
fn pass(from: &TcpStream, to: &TcpStream) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}
