//! Checks after a cycle, without faults: the repositories open, dead processes left nothing that blocks, every snapshot
//! of the ledger exists and is complete. Some are restored and compared each time, all of them now and then.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use lifeboat_repository::Error;
use lifeboat_repository::check::{CheckOptions, check};
use lifeboat_repository::files::FileKind;
use lifeboat_repository::lock::{LockOptions, remove_stale_locks};
use lifeboat_repository::remove_key::remove_key;
use lifeboat_repository::repository::{Identity, Options, Repository};
use lifeboat_repository::restore::{RestoreOptions, restore};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::child;
use super::cycle::{After, Harness};
use super::ledger::{Expected, Kept};
use super::place;
use super::task::{STREAM, WhichRepository};
use crate::tree::Listing;

impl Harness {
    /// Checks everything that must hold after a cycle.
    pub(super) async fn verify(&mut self) -> Result<()> {
        let after = std::mem::take(&mut self.after);
        let description = format!("after {}", self.description);
        self.look(&after).await.context(description)
    }

    async fn look(&mut self, after: &[After]) -> Result<()> {
        for each in after {
            self.settle_password(each).await?;
        }
        if !after.iter().all(|each| each.leave_locks) {
            self.remove_locks().await?;
        }
        for place in [WhichRepository::Main, WhichRepository::Second] {
            let repository = self.open(place).await?;
            self.compare_with_ledger(&repository, place, after).await?;
            let outcome =
                check(&repository, &CheckOptions::default(), None, Arc::default(), CancellationToken::new())
                    .await?;
            ensure!(outcome.is_ok(), "our check of {place:?} finds {:#?}", outcome.errors);
        }
        for (id, target) in
            after.iter().filter(|each| each.ended_well).filter_map(|each| each.restored.as_ref())
        {
            let kept = self.ledger.find(id).context("what was restored is in the ledger")?;
            compare(&kept.expected, target)
                .with_context(|| format!("the restore of {id} that ended well"))?;
        }
        for kept in &self.ledger.0.clone() {
            self.restore(kept).await?;
        }
        self.restic_check()
    }

    /// Determines which password opens the repository; keys that an interrupted change left are removed, because there
    /// would be too many.
    async fn settle_password(&mut self, after: &After) -> Result<()> {
        let Some(new) = &after.password else { return Ok(()) };
        let store = place::open(&self.repository(WhichRepository::Main)).await?;
        let opens = |password: &str| {
            let (password, store) = (SecretString::from(password), store.clone());
            async move { Repository::open(store, &password, Options::default()).await }
        };
        let (by_old, by_new) = (opens(&self.password).await, opens(new).await);
        if after.ended_well {
            ensure!(matches!(by_old, Err(Error::WrongPassword { .. })), "the old password still opens");
        }
        let (repository, password) = match (by_old, by_new) {
            (_, Ok(repository)) => (repository, new.clone()),
            (Ok(repository), Err(Error::WrongPassword { .. })) if !after.ended_well => {
                (repository, self.password.clone())
            }
            (_, Err(error)) => return Err(error).context("no password opens the repository"),
        };
        // No process is running any more, so the owner of every lock is dead.
        let dead_owners = self.dead.iter().cloned().chain([Identity::of_system().host]).collect();
        let lock = LockOptions { dead_owners, ..LockOptions::default() };
        for key in repository.keys().await? {
            if key.id != repository.key_id() {
                remove_key(&repository, key.id, &lock).await?;
            }
        }
        self.password = password;
        Ok(())
    }

    /// Removes the locks of dead workers, by their names; no other lock may exist.
    pub(super) async fn remove_locks(&mut self) -> Result<()> {
        self.dead.push(Identity::of_system().host); // restic's, which was killed
        for place in [WhichRepository::Main, WhichRepository::Second] {
            let repository = self.open(place).await?;
            remove_stale_locks(&repository, &self.dead).await?;
            let left = repository.list(FileKind::Lock).await?;
            // Empty files are not locks.
            ensure!(left.iter().all(|lock| lock.size == 0), "locks without an owner: {left:?}");
        }
        self.dead.clear();
        Ok(())
    }

    /// Compares the listed snapshots with the ledger; new ones that were not acknowledged are added to it.
    async fn compare_with_ledger(
        &mut self,
        repository: &Repository,
        place: WhichRepository,
        after: &[After],
    ) -> Result<()> {
        let cycle = self.summary.cycles;
        let snapshots = repository.load_snapshots().await?;
        let listed: BTreeSet<String> = snapshots.iter().map(|(id, _)| id.to_string()).collect();
        for each in after {
            for (_, id) in each.forgotten.iter().filter(|(at, _)| *at == place) {
                ensure!(!(each.ended_well && listed.contains(id)), "{id} was forgotten and is there");
                if !listed.contains(id) {
                    self.ledger.0.retain(|kept| kept.place != place || kept.id != *id);
                    self.summary.forgotten += 1;
                }
            }
        }
        if let Some(lost) = self.ledger.at(place).iter().find(|kept| !listed.contains(&kept.id)) {
            bail!("LOST: snapshot {} of {place:?} is not there", lost.id);
        }
        let copies: Vec<&String> = after.iter().flat_map(|each| &each.copies).collect();
        if place == WhichRepository::Second
            && let Some(lost) = copies.iter().find(|id| !listed.contains(**id))
        {
            bail!("LOST: copy {lost} is not there");
        }
        for (id, snapshot) in snapshots {
            let id = id.to_string();
            if self.ledger.has(place, &id) {
                continue;
            }
            let original = snapshot.original.map_or_else(|| id.clone(), |original| original.to_string());
            let mut made = after.iter().filter_map(|each| each.made.as_ref());
            let found = match place {
                WhichRepository::Main => {
                    made.find(|made| snapshot.paths == [made.path()]).map(|made| (made, cycle))
                }
                WhichRepository::Second => {
                    self.ledger.find(&original).map(|kept| (&kept.expected, kept.cycle))
                }
            };
            let (expected, cycle) = found.with_context(|| format!("no process created snapshot {id}"))?;
            let expected = expected.clone();
            if !copies.contains(&&id) {
                self.summary.found += 1;
            }
            self.ledger.0.push(Kept { id, place, expected, original, cycle });
        }
        Ok(())
    }

    async fn restore(&mut self, kept: &Kept) -> Result<()> {
        let repository = self.open(kept.place).await?;
        let target = self.path("restored");
        let description = format!("snapshot {} of {:?}", kept.id, kept.place);
        let snapshot = repository.load_snapshot(kept.id.parse()?).await?;
        let options = RestoreOptions { target: target.clone(), ..RestoreOptions::default() };
        let outcome =
            restore(&repository, &snapshot, options, Arc::default(), CancellationToken::new()).await;
        let outcome = outcome.with_context(|| format!("LOST: {description}"))?;
        ensure!(!outcome.is_incomplete(), "LOST: {description}: {:?}", outcome.problems);
        compare(&kept.expected, &target).with_context(|| format!("LOST: {description}"))?;
        fs::remove_dir_all(target)?;
        self.summary.restored += 1;
        Ok(())
    }

    fn restic_check(&mut self) -> Result<()> {
        // Without a lock, because locks of dead processes are sometimes left for the next cycle.
        let arguments = ["check", "--read-data", "--no-lock"].map(str::to_owned);
        for place in [WhichRepository::Main, WhichRepository::Second] {
            let ended = child::run(&mut self.restic(place, &arguments), None)?;
            let said = format!("{}{}", ended.stdout, ended.stderr);
            ensure!(ended.code == Some(0), "restic check of {place:?} ended with {:?}:\n{said}", ended.code);
        }
        self.summary.restic_checks += 1;
        Ok(())
    }

    async fn open(&self, place: WhichRepository) -> Result<Repository> {
        let password = SecretString::from(self.password(place));
        let store = place::open(&self.repository(place)).await?;
        let opened = Repository::open(store, &password, Options::default()).await;
        opened.with_context(|| format!("LOST: {place:?} does not open"))
    }
}

/// Compares content and metadata.
fn compare(expected: &Expected, target: &Path) -> Result<()> {
    match expected {
        Expected::Tree { source, listing } => {
            let found = Listing::of(&target.join(source.strip_prefix("/")?));
            let lines = listing.differences(&found);
            let shown = lines.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
            ensure!(lines.is_empty(), "{} differences:\n{shown}", lines.len());
        }
        Expected::Stream(content) => {
            let found = Listing::of(target).0.remove(Path::new(STREAM)).context("the stream is missing")?;
            ensure!(found.content == *content, "it is {}, expected {content}", found.content);
        }
    }
    Ok(())
}
