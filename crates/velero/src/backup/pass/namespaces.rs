//! What the pass backs up last: Namespace objects, which depend on the items that were included, and
//! CustomResourceDefinitions of included custom resources.

use std::sync::Arc;

use lifeboat_cluster::ApiError;
use lifeboat_cluster::list::{ListQuery, Pager, RawItem, get_raw};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::velero::filter::{Verdict, is_excluded};
use serde::Deserialize;

use super::{About, Pass};

impl Pass {
    /// Backs up Namespace objects, in their order if one is set.
    pub(super) async fn take_namespaces(self: &Arc<Self>) {
        let resource = GroupResource::new("", "namespaces");
        let Some(kind) = self.catalogue.get(&resource).cloned() else { return };
        if self.stop.is_cancelled() || !self.valid.filter.types().takes(&kind) {
            return;
        }
        let query = ListQuery {
            kind: kind.clone(),
            namespace: None,
            selector: String::new(),
            page_size: self.page_size,
        };
        let mut pager = Pager::new(self.client.clone(), query);
        let mut items: Vec<Option<RawItem>> = Vec::new();
        loop {
            match pager.next().await {
                Ok(Some(page)) => {
                    items.extend(page.items.into_iter().filter(|item| self.takes_namespace(item)).map(Some));
                }
                Ok(None) => break,
                Err(error) => {
                    self.list_failed(&kind, None, &error).await;
                    break;
                }
            }
        }
        self.counters.expect(items.len());
        let names: Vec<_> = items.iter().flatten().map(|item| item.meta.name.clone()).collect();
        let places = match self.valid.orders.by_type.get(&resource) {
            Some(order) => {
                let sorted = order.sort(&names);
                self.turns.know(&resource, names);
                sorted.listed.into_iter().chain(sorted.unlisted).collect()
            }
            None => (0..items.len()).collect::<Vec<_>>(),
        };
        for place in places {
            if let Some(item) = items[place].take()
                && !self.stop.is_cancelled()
            {
                self.take(&kind, item).await;
            }
        }
    }

    fn takes_namespace(&self, item: &RawItem) -> bool {
        #[derive(Deserialize)]
        struct Namespace {
            status: Option<Status>,
        }
        #[derive(Deserialize)]
        struct Status {
            phase: Option<String>,
        }
        let phase = serde_json::from_slice::<Namespace>(&item.json).ok();
        let phase = phase.and_then(|namespace| namespace.status).and_then(|status| status.phase);
        let active = phase.is_none_or(|phase| phase == "Active");
        let holds = self.made().namespaces.contains(&item.meta.name);
        let (name, labels) = (&item.meta.name, &item.meta.labels);
        if is_excluded(labels) {
            return false;
        }
        matches!(self.valid.filter.takes_namespace_object(name, labels, active, holds), Verdict::Take)
    }

    /// Backs up the CustomResourceDefinitions of included custom resources, unless the type is included anyway or
    /// excluded.
    pub(super) async fn take_definitions(&self) {
        let resource = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let Some(kind) = self.catalogue.get(&resource) else { return };
        let types = self.valid.filter.types();
        if self.stop.is_cancelled() || types.takes(kind) || types.excludes(kind) {
            return;
        }
        let taken = self.made().types.clone();
        let mut names: Vec<String> =
            taken.iter().filter(|id| id.group.contains('.')).map(ToString::to_string).collect();
        if let Some(order) = self.valid.orders.by_type.get(&resource) {
            let sorted = order.sort(&names);
            self.turns.know(&resource, names.clone());
            names = sorted.listed.into_iter().chain(sorted.unlisted).map(|at| names[at].clone()).collect();
        }
        for name in names {
            let definition = ItemId::cluster(resource.clone(), name);
            if let Err(error) = self.take_definition(kind, &definition).await {
                self.report.error(&About::Item(&definition), "Error backing up item", Some(&error.chain()));
            }
        }
    }

    async fn take_definition(
        &self,
        kind: &lifeboat_plan::catalogue::ResourceType,
        id: &ItemId,
    ) -> Result<(), ApiError> {
        // Built-in types have no definition.
        if let Some(item) = get_raw(&self.client, kind, None, &id.name).await?
            && !item.meta.deleting
        {
            self.take(kind, item).await;
        }
        Ok(())
    }
}
