//! Blocks: items that are processed together, pre hooks of all their pods before, post hooks after. One task makes the
//! blocks, several carry them out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lifeboat_plan::catalogue::ItemId;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::chains::value;
use super::collect::Collection;
use super::{About, Pass};

/// How long an action may take to say what is related to an item; blocks are made one after the other.
const RELATED: Duration = Duration::from_mins(10);

/// Items of one block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Places in the collection.
    pub(super) items: Vec<usize>,
    /// Related items that were not collected.
    pub(super) others: Vec<ItemId>,
}

impl Block {
    pub(super) fn of(items: Vec<usize>) -> Self {
        Self { items, others: Vec::new() }
    }
}

impl Pass {
    /// All collected items that no chain took.
    pub(super) async fn run_blocks(self: &Arc<Self>) {
        let (sender, receiver) = mpsc::channel::<Block>(self.workers);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let (pass, receiver) = (self.clone(), receiver.clone());
            workers.spawn(async move {
                loop {
                    let block = receiver.lock().await.recv().await;
                    match block {
                        Some(block) => pass.run_block(&block).await,
                        None => return,
                    }
                }
            });
        }
        let pass = self.clone();
        workers.spawn(async move { pass.make_blocks(sender).await });
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                self.give_up(format!("a task that backs up items ended: {error}"));
            }
        }
    }

    async fn make_blocks(&self, sender: mpsc::Sender<Block>) {
        let Some(collected) = self.collected.get() else { return };
        let mut in_block = vec![false; collected.items.len()];
        for at in 0..collected.items.len() {
            if in_block[at] || self.is_written(collected, at) {
                continue;
            }
            let Some(block) = self.unless_stopped(self.grow(collected, at, &mut in_block)).await else {
                return;
            };
            if self.stop.is_cancelled() || sender.send(block).await.is_err() {
                return;
            }
        }
    }

    /// The block of an item: all that is related to it, and to that.
    async fn grow(&self, collected: &Collection, first: usize, in_block: &mut [bool]) -> Block {
        let mut block = Block::default();
        let mut queue = VecDeque::from([first]);
        in_block[first] = true;
        while let Some(at) = queue.pop_front() {
            block.items.push(at);
            for id in self.related(collected, at).await {
                match collected.place_of(&id) {
                    Some(other) if in_block[other] || self.is_written(collected, other) => {}
                    Some(other) => {
                        in_block[other] = true;
                        queue.push_back(other);
                    }
                    None => block.others.push(id),
                }
            }
        }
        block
    }

    async fn related(&self, collected: &Collection, at: usize) -> Vec<ItemId> {
        let (kind, meta) = (collected.kind(at), &collected.items[at].meta);
        let actions = self.blocks.of(&kind.id, meta);
        if actions.is_empty() {
            return Vec::new();
        }
        let object = value(collected, at);
        let mut related = Vec::new();
        for action in actions {
            let asked = action.related_items(&object, &self.backup, &self.lookup);
            let problem = match timeout(RELATED, asked).await {
                Ok(Ok(items)) => {
                    related.extend(items);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_elapsed) => format!("it did not answer within {} minutes", RELATED.as_secs() / 60),
            };
            let message = format!("Error executing item block action {}", action.name());
            self.report.error(&About::Item(&meta.id(kind)), &message, Some(&problem));
        }
        related
    }

    fn is_written(&self, collected: &Collection, at: usize) -> bool {
        self.written.has(&collected.id(at), &collected.kind(at).version)
    }

    /// Pre hooks, items, post hooks. What began a pre hook ends with its post hooks, also when told to stop.
    pub(super) async fn run_block(&self, block: &Block) {
        let Some(collected) = self.collected.get() else { return };
        let hooked = self.run_pre_hooks(collected, block).await;
        for at in &block.items {
            if self.stop.is_cancelled() || hooked.left_out.contains(at) {
                continue;
            }
            match collected.raw(*at) {
                Ok(raw) => {
                    self.soon(self.take(collected.kind(*at), raw)).await;
                }
                Err(error) => {
                    self.report.error(
                        &About::Item(&collected.id(*at)),
                        "Error backing up item",
                        Some(&error),
                    );
                }
            }
        }
        for id in &block.others {
            if self.stop.is_cancelled() {
                break;
            }
            if let Some(Err(error)) = self.soon(self.take_additional(id, false, 1)).await {
                self.report.error(&About::Item(id), "Error backing up related item", Some(&error));
            }
        }
        self.run_post_hooks(hooked).await;
    }
}
