//! A restore action that waits: an application with the annotation `example.io/database` is created only when its
//! PostgreSQL answers.
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     example.io/database: orders-db:5432          # a Service of the same namespace
//!     example.io/database-workload: statefulsets.apps/orders-db   # restored before the application, if it is in the backup
//! ```
//!
//! Where the server cannot resolve names of Services, `example.io/database-address: 10.0.0.7:5432` says what to ask instead.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lifeboat_plugin_sdk::{
    Error, Object, Plugin, ResourceId, RestoreInput, RestoreItemAction, RestoreOutput, Result, Selector,
    Served, async_trait,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const DATABASE: &str = "example.io/database";
const WORKLOAD: &str = "example.io/database-workload";
const ADDRESS: &str = "example.io/database-address";
const TIMEOUT: &str = "example.io/database-timeout-seconds";
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Served {
    Plugin::new().restore_item_action("example.io/wait-for-database", WaitForDatabase::default()).serve()
}

/// Remembers where each database is, because only its Service is named when readiness is asked for.
#[derive(Default)]
struct WaitForDatabase {
    databases: Mutex<HashMap<(String, String), Database>>,
}

#[async_trait]
impl RestoreItemAction for WaitForDatabase {
    fn applies_to(&self) -> Selector {
        Selector::resources(["deployments.apps", "statefulsets.apps", "pods"])
    }

    async fn execute(&self, input: RestoreInput) -> Result<RestoreOutput> {
        let Some(database) = Database::of(&input.item)? else {
            return Ok(RestoreOutput::new(input.item));
        };
        let mut items = vec![ResourceId::new("services", input.item.namespace(), &database.service)];
        items.extend(workload(&input.item)?);
        tracing::info!(item = input.item.name(), database = database.service, "waits for its database");
        self.remember(input.item.namespace(), database);
        let seconds = input.item.annotation(TIMEOUT).map(str::parse).transpose()?;
        let output = RestoreOutput::new(input.item).with_additional_items(items);
        Ok(match seconds {
            Some(seconds) => output.with_items_wait_for(Duration::from_secs(seconds)),
            None => output.with_items_wait(),
        })
    }

    async fn are_additional_items_ready(&self, items: &[ResourceId], restore: &Object) -> Result<bool> {
        for item in items.iter().filter(|item| item.resource == "services") {
            // Items carry the names of the backup; the restore may put them into another namespace.
            let namespace =
                restore["spec"]["namespaceMapping"][&item.namespace].as_str().unwrap_or(&item.namespace);
            if !answers(&self.address(item, namespace)).await {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl WaitForDatabase {
    fn remember(&self, namespace: &str, database: Database) {
        let key = (namespace.to_owned(), database.service.clone());
        self.databases.lock().unwrap_or_else(PoisonError::into_inner).insert(key, database);
    }

    /// `namespace`: where the Service is now.
    fn address(&self, service: &ResourceId, namespace: &str) -> String {
        let key = (service.namespace.clone(), service.name.clone());
        let databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        let known = databases.get(&key);
        let port = known.map_or(5432, |database| database.port);
        let address = known.and_then(|database| database.address.clone());
        address.unwrap_or_else(|| format!("{}.{namespace}.svc:{port}", service.name))
    }
}

struct Database {
    service: String,
    port: u16,
    /// What to ask instead of the Service.
    address: Option<String>,
}

impl Database {
    fn of(item: &Object) -> Result<Option<Self>> {
        let Some(text) = item.annotation(DATABASE) else { return Ok(None) };
        let wrong =
            || Error::new(format!("annotation {DATABASE} is {text:?}; it must look like orders-db:5432"));
        let (service, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Some(Self {
            service: service.to_owned(),
            port,
            address: item.annotation(ADDRESS).map(str::to_owned),
        }))
    }
}

/// `statefulsets.apps/orders-db`
fn workload(item: &Object) -> Result<Option<ResourceId>> {
    let Some(text) = item.annotation(WORKLOAD) else { return Ok(None) };
    let wrong = || {
        Error::new(format!(
            "annotation {WORKLOAD} is {text:?}; it must look like statefulsets.apps/orders-db"
        ))
    };
    let (resource, name) = text.split_once('/').ok_or_else(wrong)?;
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    Ok(Some(ResourceId::new(resource, item.namespace(), name).in_group(group)))
}

/// PostgreSQL answers the question for TLS with one byte as soon as it takes connections.
async fn answers(address: &str) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await?;
        stream.read_u8().await
    };
    matches!(timeout(PATIENCE, ask).await, Ok(Ok(b'S' | b'N')))
}

#[cfg(test)]
mod tests {
    use lifeboat_plugin_sdk::serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    fn application(annotations: &lifeboat_plugin_sdk::serde_json::Value) -> RestoreInput {
        let item = json!({"kind": "Deployment", "metadata": {"name": "shop", "namespace": "web", "annotations": annotations}});
        RestoreInput { item: item.into(), ..RestoreInput::default() }
    }

    #[tokio::test]
    async fn an_application_without_the_annotation_does_not_wait() {
        let output = WaitForDatabase::default().execute(application(&json!({}))).await.expect("executed");
        assert!(!output.wait && output.additional_items.is_empty());
    }

    #[tokio::test]
    async fn service_and_workload_come_first_and_are_waited_for() {
        let input = application(&json!({
            "example.io/database": "db:5433",
            "example.io/database-workload": "statefulsets.apps/db",
            "example.io/database-timeout-seconds": "30",
        }));
        let output = WaitForDatabase::default().execute(input).await.expect("executed");
        let expected = [
            ResourceId::new("services", "web", "db"),
            ResourceId::new("statefulsets", "web", "db").in_group("apps"),
        ];
        assert_eq!(output.additional_items, expected);
        assert!(output.wait);
        assert_eq!(output.wait_at_most, Some(Duration::from_secs(30)));
    }

    #[tokio::test]
    async fn a_wrong_annotation_is_named() {
        let input = application(&json!({"example.io/database": "db"}));
        let error = WaitForDatabase::default().execute(input).await.expect_err("refused").to_string();
        assert!(error.contains("example.io/database") && error.contains("\"db\""), "{error}");
    }

    #[tokio::test]
    async fn a_port_that_only_listens_is_no_database() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Some(listener.local_addr().expect("an address").to_string());
        let action = WaitForDatabase::default();
        action.remember("web", Database { service: "db".into(), port: 1, address });
        let items = [ResourceId::new("services", "web", "db")];
        let ready =
            || async { action.are_additional_items_ready(&items, &Object::default()).await.expect("asked") };
        let silent = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            drop(stream);
            listener
        });
        assert!(!ready().await);
        let listener = silent.await.expect("accepted");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.write_all(b"N").await.expect("answered");
            let mut question = [0; 8];
            let _ = stream.read_exact(&mut question).await;
        });
        assert!(ready().await);
    }

    #[test]
    fn a_service_is_asked_in_the_namespace_of_the_restore() {
        let action = WaitForDatabase::default();
        action.remember("web", Database { service: "db".into(), port: 1, address: None });
        let service = ResourceId::new("services", "web", "db");
        assert_eq!(action.address(&service, "copy"), "db.copy.svc:1");
    }
}
