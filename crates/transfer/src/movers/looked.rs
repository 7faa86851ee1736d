//! Collects the snapshots that a mover lists for a server that cannot open the repository itself. They come as lines of
//! the mover's log, which may be lost; the mover's result says how many there are.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use lifeboat_control::locked;
use lifeboat_mover::report::{LogLine, Looked, SnapshotLine};

use super::MoverObserver;

/// The snapshots that were seen, by their IDs.
#[derive(Default)]
pub struct ListedSnapshots(Mutex<BTreeMap<String, SnapshotLine>>);

/// Lines of the mover's log were lost: the repository has to be listed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mover listed {expected} snapshots, and {received} of them were read from its log")]
pub struct LinesLost {
    pub expected: u64,
    pub received: u64,
}

impl ListedSnapshots {
    /// All snapshots that the mover listed, the newest first.
    pub fn complete(&self, looked: &Looked) -> Result<Vec<SnapshotLine>, LinesLost> {
        let mut listed: Vec<SnapshotLine> = locked(&self.0).values().cloned().collect();
        let received = listed.len() as u64;
        if received != looked.listed {
            return Err(LinesLost { expected: looked.listed, received });
        }
        listed.sort_by(|one, other| other.time.cmp(&one.time).then_with(|| one.id.cmp(&other.id)));
        Ok(listed)
    }
}

#[async_trait]
impl MoverObserver for ListedSnapshots {
    async fn queued(&self, _message: &str) {}
    async fn preparing(&self, _message: &str) {}
    async fn running(&self, _node: &str) {}

    async fn line(&self, line: &LogLine) {
        if let LogLine::Snapshots { snapshots } = line {
            // After a lost connection a line may come twice.
            locked(&self.0).extend(snapshots.iter().map(|snapshot| (snapshot.id.clone(), snapshot.clone())));
        }
    }
}
