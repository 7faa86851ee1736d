//! Where a controller watches the objects of its kind: one namespace, a list of namespaces, or the whole cluster.

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use lifeboat_cluster::objects;

/// The namespaces that a controller watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespace(String),
    /// Each namespace has its own watch, because the server may have no permission to list the whole cluster.
    Namespaces(Vec<String>),
    Cluster,
}

impl Scope {
    /// Whether the objects of a namespace are watched.
    pub fn includes(&self, namespace: &str) -> bool {
        match self {
            Self::Namespace(own) => own == namespace,
            Self::Namespaces(namespaces) => namespaces.iter().any(|own| own == namespace),
            Self::Cluster => true,
        }
    }

    /// One API for each watch that this scope needs.
    pub fn apis(&self, client: &Client, resource: &ApiResource) -> Vec<Api<DynamicObject>> {
        match self {
            Self::Namespace(namespace) => vec![objects::namespaced(client, namespace, resource)],
            Self::Namespaces(namespaces) => {
                namespaces.iter().map(|namespace| objects::namespaced(client, namespace, resource)).collect()
            }
            Self::Cluster => vec![Api::all_with(client.clone(), resource)],
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing::ApiServer;

    #[rstest]
    #[case::one(Scope::Namespace("a".into()), &["/apis/g/v1/namespaces/a/things"])]
    #[case::list(
        Scope::Namespaces(vec!["a".into(), "b".into()]),
        &["/apis/g/v1/namespaces/a/things", "/apis/g/v1/namespaces/b/things"]
    )]
    #[case::all(Scope::Cluster, &["/apis/g/v1/things"])]
    #[tokio::test]
    async fn a_scope_has_one_watch_for_each_namespace_or_one_for_the_cluster(
        #[case] scope: Scope,
        #[case] expected: &[&str],
    ) {
        let client = ApiServer::default().client().await;
        let resource = objects::resource("g", "v1", "Thing", "things");
        let urls: Vec<String> =
            scope.apis(&client, &resource).iter().map(|api| api.resource_url().to_owned()).collect();
        assert_eq!(urls, expected);
        assert!(scope.includes("a"));
        assert_eq!(scope.includes("other"), scope == Scope::Cluster);
    }
}
