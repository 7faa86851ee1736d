//! Types without blocks, hooks or order: streamed from the list's pages to the archive, several types at once. Memory
//! holds only the pages in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use lifeboat_cluster::ApiError;
use lifeboat_cluster::list::{ListQuery, Pager};
use tokio::task::JoinSet;

use super::{Pass, PassFailure};

/// How many lists are in flight. More would only load the API server, because writing takes most of the time.
const AT_ONCE: usize = 8;

impl Pass {
    pub(super) async fn run_streams(self: &Arc<Self>) {
        let namespaces =
            |query: &ListQuery| query.kind.id.group.is_empty() && query.kind.id.resource == "namespaces";
        let kinds = self.chosen_types().into_iter().filter(|kind| !self.is_collected(kind));
        let mut queries: VecDeque<ListQuery> =
            kinds.flat_map(|kind| self.queries(&kind)).filter(|query| !namespaces(query)).collect();
        let mut lists = JoinSet::new();
        loop {
            while lists.len() < AT_ONCE && !self.stop.is_cancelled() {
                let Some(query) = queries.pop_front() else { break };
                let pass = self.clone();
                lists.spawn(async move { pass.stream(query).await });
            }
            match lists.join_next().await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(source)) => self.give_up(PassFailure::Task { task: "lists objects", source }),
            }
        }
    }

    async fn stream(&self, query: ListQuery) {
        let mut queries = VecDeque::from([query]);
        while let Some(query) = queries.pop_front() {
            let Err(error) = self.stream_list(query.clone()).await else { continue };
            match self.narrower(&query, &error) {
                Some(narrower) => queries.extend(narrower),
                None => self.list_failed(&query.kind, query.namespace.as_deref(), &error).await,
            }
        }
    }

    async fn stream_list(&self, query: ListQuery) -> Result<(), ApiError> {
        let kind = query.kind.clone();
        let mut pager = Pager::new(self.client.clone(), query);
        loop {
            let page = match self.unless_stopped(pager.next()).await {
                Some(Ok(Some(page))) => page,
                Some(Ok(None)) | None => return Ok(()),
                Some(Err(error)) => return Err(error),
            };
            self.counters.expect_at_least(usize::try_from(page.remaining).unwrap_or_default());
            for item in page.items {
                if self.stop.is_cancelled() {
                    return Ok(());
                }
                if self.passes(&kind, &item) {
                    // A list that was restarted returns items that are written already.
                    let fresh = !self.written.has(&item.meta.id(&kind), &kind.version);
                    self.counters.expect(usize::from(fresh));
                    self.soon(self.take(&kind, item)).await;
                }
            }
        }
    }
}
