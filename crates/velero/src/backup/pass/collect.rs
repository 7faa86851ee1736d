//! Collects all items of the types that take part in blocks, hooks or an order into the spool.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use lifeboat_cluster::ApiError;
use lifeboat_cluster::list::{ItemMeta, ListQuery, Pager, RawItem, get_raw};
use lifeboat_plan::catalogue::{GroupResource, ItemId, ResourceType};
use lifeboat_plan::velero::filter::{NamespacesToList, Verdict};
use serde_json::Value;
use tokio::task::JoinSet;

use super::spool::{ItemSpool, SpoolError, SpoolOffset};
use super::{About, Pass, PassFailure};

/// One collected item.
pub(super) struct Collected {
    /// Index of its type in [`Collection::kinds`].
    pub(super) kind: usize,
    pub(super) meta: ItemMeta,
    place: SpoolOffset,
}

/// All collected items, ordered by type, each type as it was listed.
pub(super) struct Collection {
    pub(super) kinds: Vec<ResourceType>,
    pub(super) items: Vec<Collected>,
    by_id: HashMap<ItemId, usize>,
    spool: Arc<ItemSpool>,
}

impl Collection {
    pub(super) fn raw(&self, at: usize) -> Result<RawItem, SpoolError> {
        let item = &self.items[at];
        let json = self.spool.read(item.place)?;
        Ok(RawItem { meta: item.meta.clone(), json })
    }

    pub(super) fn kind(&self, at: usize) -> &ResourceType {
        &self.kinds[self.items[at].kind]
    }

    pub(super) fn id(&self, at: usize) -> ItemId {
        self.items[at].meta.id(self.kind(at))
    }

    pub(super) fn place_of(&self, id: &ItemId) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    pub(super) fn find(&self, id: &ItemId) -> Option<Result<RawItem, SpoolError>> {
        self.place_of(id).map(|at| self.raw(at))
    }

    /// The items of a type.
    pub(super) fn of(&self, resource: &GroupResource) -> Vec<usize> {
        let kind = self.kinds.iter().position(|kind| kind.id == *resource && kind.preferred);
        let of_kind = |at: &usize| Some(self.items[*at].kind) == kind;
        (0..self.items.len()).filter(of_kind).collect()
    }
}

impl Pass {
    /// The types of the backup, in the order of discovery; of types that two API groups serve, the first.
    pub(super) fn chosen_types(&self) -> Vec<ResourceType> {
        let mut groups: BTreeMap<&str, String> = BTreeMap::new();
        let all: Vec<&ResourceType> = if self.all_versions {
            self.catalogue.all().iter().collect()
        } else {
            self.catalogue.types().collect()
        };
        all.into_iter()
            .filter(|kind| kind.can_be_backed_up() && self.valid.filter.types().takes(kind))
            .filter(|kind| {
                let first =
                    cohabits(&kind.id).map(|name| groups.entry(name).or_insert(kind.id.group.clone()));
                first.is_none_or(|group| *group == kind.id.group)
            })
            .cloned()
            .collect()
    }

    /// Whether all items of a type are collected before they are processed.
    pub(super) fn is_collected(&self, kind: &ResourceType) -> bool {
        let core = |name: &str| kind.id.group.is_empty() && kind.id.resource == name;
        !core("namespaces")
            && (core("pods")
                || core("persistentvolumeclaims")
                || core("persistentvolumes")
                || self.blocks.any_for(&kind.id)
                || self.valid.orders.by_type.contains_key(&kind.id))
    }

    pub(super) async fn collect(self: &Arc<Self>) {
        let kinds: Vec<_> = self.chosen_types().into_iter().filter(|kind| self.is_collected(kind)).collect();
        let spool = match ItemSpool::new(&self.directory) {
            Ok(spool) => Arc::new(spool),
            Err(source) => {
                return self
                    .give_up(PassFailure::Spool { action: "make a file for collected items", source });
            }
        };
        let mut lists = JoinSet::new();
        for (at, kind) in kinds.iter().enumerate() {
            let (pass, kind, spool) = (self.clone(), kind.clone(), spool.clone());
            lists.spawn(async move { (at, pass.collect_type(at, kind, &spool).await) });
        }
        let mut by_kind: Vec<Vec<Collected>> = kinds.iter().map(|_| Vec::new()).collect();
        while let Some(ended) = lists.join_next().await {
            match ended {
                Ok((at, items)) => by_kind[at] = items,
                Err(source) => self.give_up(PassFailure::Task { task: "lists objects", source }),
            }
        }
        let items: Vec<_> = by_kind.into_iter().flatten().collect();
        let preferred = |item: &&Collected| kinds[item.kind].preferred;
        let by_id = items.iter().enumerate().filter(|(_, item)| preferred(item));
        let by_id = by_id.map(|(at, item)| (item.meta.id(&kinds[item.kind]), at)).collect();
        // A pass collects only once, so the cell is empty.
        let _ = self.collected.set(Collection { kinds, items, by_id, spool });
    }

    async fn collect_type(
        self: Arc<Self>,
        at: usize,
        kind: ResourceType,
        spool: &ItemSpool,
    ) -> Vec<Collected> {
        let mut items: Vec<Collected> = Vec::new();
        let mut known: BTreeSet<(Option<String>, String)> = BTreeSet::new();
        let mut queries = VecDeque::from(self.queries(&kind));
        while let Some(query) = queries.pop_front() {
            let mut pager = Pager::new(self.client.clone(), query.clone());
            loop {
                let page = match self.unless_stopped(pager.next()).await {
                    Some(Ok(Some(page))) => page,
                    Some(Ok(None)) => break,
                    None => return items,
                    Some(Err(error)) if self.narrower(&query, &error).is_some() => {
                        queries.extend(self.narrower(&query, &error).unwrap_or_default());
                        break;
                    }
                    Some(Err(error)) => {
                        self.list_failed(&kind, query.namespace.as_deref(), &error).await;
                        break;
                    }
                };
                for item in page.items {
                    let fresh = known.insert((item.meta.namespace.clone(), item.meta.name.clone()));
                    if !fresh || !self.passes(&kind, &item) {
                        continue;
                    }
                    match spool.add(&item.json) {
                        Ok(place) => items.push(Collected { kind: at, meta: item.meta, place }),
                        Err(source) => {
                            self.give_up(PassFailure::Spool {
                                action: "write collected items to a file",
                                source,
                            });
                            return items;
                        }
                    }
                }
            }
        }
        self.counters.expect(items.len());
        items
    }

    /// The list requests that return all items of a type.
    pub(super) fn queries(&self, kind: &ResourceType) -> Vec<ListQuery> {
        let namespaces = match self.valid.filter.namespaces().to_list() {
            NamespacesToList::Only(names) if kind.namespaced => names.into_iter().map(Some).collect(),
            _ => vec![None],
        };
        let selectors = self.valid.filter.queries(kind);
        let query = |namespace: &Option<String>, selector: &String| ListQuery {
            kind: kind.clone(),
            namespace: namespace.clone(),
            selector: selector.clone(),
            page_size: self.page_size,
        };
        let each = |namespace: Option<String>| {
            selectors.iter().map(|selector| query(&namespace, selector)).collect::<Vec<_>>()
        };
        namespaces.into_iter().flat_map(each).collect()
    }

    /// The list requests per namespace that replace one for the whole cluster, if the server may not list
    /// cluster-wide.
    pub(super) fn narrower(&self, query: &ListQuery, error: &ApiError) -> Option<Vec<ListQuery>> {
        let narrow = |namespace| ListQuery { namespace: Some(namespace), ..query.clone() };
        let wide = query.kind.namespaced && query.namespace.is_none();
        (wide && error.code() == Some(403))
            .then(|| self.valid.filter.namespaces().names().into_iter().map(narrow).collect())
    }

    /// Whether a listed item passes the filters.
    pub(super) fn passes(&self, kind: &ResourceType, item: &RawItem) -> bool {
        match self.valid.filter.takes_listed(kind, &item.meta.facts()) {
            Verdict::Take => true,
            Verdict::Leave(reason) => {
                // A list of the whole cluster contains objects of other namespaces; leaving those out is not logged.
                if item.meta.namespace.as_ref().is_none_or(|name| self.valid.filter.namespaces().takes(name))
                {
                    self.report.info_about(&item.meta.id(kind), &format!("Left out because {reason}"));
                }
                false
            }
        }
    }

    /// Reports a failed list, which makes the backup partial. Exempt are types that were removed while it ran, and groups whose
    /// servers do not answer and have nothing to back up.
    pub(super) async fn list_failed(&self, kind: &ResourceType, namespace: Option<&str>, error: &ApiError) {
        let id = ItemId {
            resource: kind.id.clone(),
            namespace: namespace.map(str::to_owned),
            name: String::new(),
        };
        let cause = error.chain();
        let may_be_down = error.is_not_found() || error.is_transient();
        let served = if may_be_down { self.served(kind).await } else { Served::Unknown };
        if error.is_not_found() && served == Served::ByTheCluster {
            let message = "The type was removed while the backup ran; the backup has no items of it";
            self.report.warning(&About::Item(&id), message, Some(&cause));
        } else if served == Served::ByOneThatIsDown {
            let message = "The server of this API group does not answer; its objects are left out (`kubectl get apiservices` shows why)";
            let types = std::slice::from_ref(kind);
            if self.valid.filter.may_miss(&kind.id.group, types, &self.catalogue) {
                self.report.error(&About::Item(&id), message, Some(&cause));
            } else {
                self.report.info_about(&id, message);
            }
        } else if let Some(namespace) = namespace
            && error.code() == Some(403)
            && !self.made().forbidden.insert(namespace.to_owned())
        {
            // One error per namespace is enough; the log names all types.
            self.report.info_about(&id, &format!("May not be listed: {cause}"));
        } else {
            self.report.error(&About::Item(&id), "Error listing items", Some(&cause));
        }
    }
}

impl Pass {
    /// Which server serves a type.
    async fn served(&self, kind: &ResourceType) -> Served {
        let services = GroupResource::new("apiregistration.k8s.io", "apiservices");
        let Some(services) = self.catalogue.get(&services) else { return Served::Unknown };
        let name = format!("{}.{}", kind.version, kind.id.group);
        let found = match get_raw(&self.client, services, None, &name).await {
            Ok(Some(found)) => found,
            // The API server deletes the APIService of CustomResourceDefinitions with the last type of the
            // group.
            Ok(None) => return Served::ByTheCluster,
            Err(_) => return Served::Unknown,
        };
        let service: Value = serde_json::from_slice(&found.json).unwrap_or_default();
        if !service["spec"]["service"].is_object() {
            return Served::ByTheCluster;
        }
        let conditions = service["status"]["conditions"].as_array();
        let available = |one: &Value| one["type"] == "Available" && one["status"] == "True";
        let is_available = conditions.into_iter().flatten().any(available);
        if is_available { Served::ByAnother } else { Served::ByOneThatIsDown }
    }
}

/// The server of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// The API server itself: built in, or by a CustomResourceDefinition.
    ByTheCluster,
    /// An aggregated API server.
    ByAnother,
    /// An aggregated API server that is reported as unavailable.
    ByOneThatIsDown,
    Unknown,
}

/// Types that two API groups serve with the same objects.
fn cohabits(id: &GroupResource) -> Option<&'static str> {
    let (group, resource) = (id.group.as_str(), id.resource.as_str());
    match (group, resource) {
        ("apps" | "extensions", "deployments") => Some("deployments"),
        ("apps" | "extensions", "daemonsets") => Some("daemonsets"),
        ("apps" | "extensions", "replicasets") => Some("replicasets"),
        ("networking.k8s.io" | "extensions", "networkpolicies") => Some("networkpolicies"),
        ("" | "events.k8s.io", "events") => Some("events"),
        _ => None,
    }
}
