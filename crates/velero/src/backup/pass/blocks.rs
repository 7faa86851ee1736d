//! Blocks: items that are processed together, with the pre hooks of all their pods before and the post hooks after.
//! One task makes the blocks, several process them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lifeboat_plan::catalogue::{GroupResource, ItemId};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::chains::value;
use super::collect::Collection;
use super::hooks::Hooked;
use super::{About, Pass, PassFailure};

/// How long an action may take to name the related items of an item; blocks are made one after the other.
const RELATED: Duration = Duration::from_mins(10);

/// A block whose items are written: the copies it waits for, and the post hooks that follow.
pub(super) struct Settling {
    hooked: Hooked,
    /// The PodVolumeBackups of its pods.
    copies: Vec<String>,
}

/// The items of one block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Listed items that were not collected, such as volumes that only claims name; processed first.
    first: Vec<ItemId>,
    /// Indexes into the collection.
    pub(super) items: Vec<usize>,
    /// Related items that were not collected.
    pub(super) others: Vec<ItemId>,
}

impl Block {
    /// All of its items.
    pub(super) fn ids(&self, collected: &Collection) -> impl Iterator<Item = ItemId> {
        let items = self.items.iter().map(|at| collected.id(*at));
        items.chain(self.others.iter().cloned())
    }

    /// Moves items to the beginning, in this order.
    pub(super) fn beginning_with<'a>(
        mut self,
        collected: &Collection,
        first: impl Iterator<Item = &'a ItemId>,
    ) -> Self {
        let mut items = Vec::new();
        for id in first {
            match collected.place_of(id) {
                Some(at) => items.push(at),
                None => self.first.push(id.clone()),
            }
        }
        let moved: BTreeSet<usize> = items.iter().copied().collect();
        items.extend(self.items.into_iter().filter(|at| !moved.contains(at)));
        Self { items, ..self }
    }
}

impl Pass {
    /// Processes all collected items that are not in a chain.
    pub(super) async fn run_blocks(self: &Arc<Self>) {
        let (sender, receiver) = mpsc::channel::<Block>(self.workers);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut workers = JoinSet::new();
        let (settle, mut settling) = mpsc::unbounded_channel::<Settling>();
        for _ in 0..self.workers {
            let (pass, receiver, settle) = (self.clone(), receiver.clone(), settle.clone());
            workers.spawn(async move {
                loop {
                    let block = receiver.lock().await.recv().await;
                    match block {
                        Some(block) => {
                            let rest = pass.run_block(&block).await;
                            // Copies take long: other blocks continue in the meantime.
                            if rest.copies.is_empty() {
                                pass.settle(rest).await;
                            } else if settle.send(rest).is_err() {
                                return;
                            }
                        }
                        None => return,
                    }
                }
            });
        }
        let pass = self.clone();
        workers.spawn(async move { pass.make_blocks(sender).await });
        drop(settle);
        let mut more = true;
        loop {
            tokio::select! {
                rest = settling.recv(), if more => match rest {
                    Some(rest) => {
                        let pass = self.clone();
                        workers.spawn(async move { pass.settle(rest).await });
                    }
                    None => more = false,
                },
                Some(ended) = workers.join_next(), if !workers.is_empty() => {
                    if let Err(source) = ended {
                        self.give_up(PassFailure::Task { task: "backs up items", source });
                    }
                }
                else => break,
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
            let seeds = [at];
            let grown = self.grow(collected, &seeds, &mut in_block, |_| false);
            let Some(block) = self.unless_stopped(grown).await else { return };
            if self.stop.is_cancelled() || sender.send(block).await.is_err() {
                return;
            }
        }
    }

    /// The block of some items: all items related to them, directly or through others. `elsewhere`: types whose items are
    /// not in this block even if they are related.
    pub(super) async fn grow(
        &self,
        collected: &Collection,
        seeds: &[usize],
        in_block: &mut [bool],
        elsewhere: impl Fn(&GroupResource) -> bool,
    ) -> Block {
        let mut block = Block::default();
        let mut queue = VecDeque::new();
        for seed in seeds {
            if !std::mem::replace(&mut in_block[*seed], true) {
                queue.push_back(*seed);
            }
        }
        while let Some(at) = queue.pop_front() {
            block.items.push(at);
            for id in self.related(collected, at).await {
                match collected.place_of(&id) {
                    _ if elsewhere(&id.resource) => {}
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

    /// Runs the pre hooks and writes the items. A pod whose pre hooks ran gets its post hooks even if the pass is
    /// stopped: see [`Self::settle`].
    pub(super) async fn run_block(&self, block: &Block) -> Settling {
        let Some(collected) = self.collected.get() else {
            return Settling { hooked: Hooked::default(), copies: Vec::new() };
        };
        let hooked = self.run_pre_hooks(collected, block).await;
        self.take_others(&block.first).await;
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
                        Some(&error.to_string()),
                    );
                }
            }
        }
        self.take_others(&block.others).await;
        let pods: BTreeSet<(String, String)> = block
            .ids(collected)
            .filter(|id| id.resource == GroupResource::new("", "pods"))
            .map(|id| (id.namespace.unwrap_or_default(), id.name))
            .collect();
        let copies = if pods.is_empty() { Vec::new() } else { self.copies_of(&pods) };
        Settling { hooked, copies }
    }

    /// Backs up items of a block that were not collected.
    async fn take_others(&self, others: &[ItemId]) {
        for id in others {
            if self.stop.is_cancelled() {
                break;
            }
            if let Some(Err(error)) = self.soon(self.take_additional(id, false, 1)).await {
                let error = error.to_string();
                self.report.error(&About::Item(id), "Error backing up related item", Some(&error));
            }
        }
    }

    /// Waits for the copies of a block, gives its place in the queue back, and runs its post hooks.
    pub(super) async fn settle(&self, mut rest: Settling) {
        self.await_copies(&rest.copies, rest.hooked.place.is_some()).await;
        // The next pod may be quiesced while the post hooks of this one run.
        rest.hooked.place = None;
        if rest.hooked.has_open() {
            self.let_go(&rest.copies).await;
        }
        self.run_post_hooks(rest.hooked).await;
    }
}
