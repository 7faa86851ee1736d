//! The objects of an installation: takes the options of `lifeboat install` (or the chart's values), gives the objects
//! to apply, in order. `lifeboat install`, `charts/lifeboat` and the tests all use this module.

mod deployment;
mod movers;
pub mod policies;
mod rbac;
mod service;
mod stash;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use movers::{MoverOptions, namespace_of as mover_namespace};
pub use stash::{STASH_BY_DEFAULT, StashOptions, served_namespaces};

/// The namespace of the installation unless another one is given.
pub const DEFAULT_NAMESPACE: &str = "lifeboat";
/// Name and key of the Secret with credentials for locations that name none: upstream's names.
pub const CLOUD_CREDENTIALS: (&str, &str) = ("cloud-credentials", "cloud");
/// The server's Deployment.
pub const DEPLOYMENT: &str = "lifeboat";
/// The file in the server's container with those credentials, if the Secret exists: upstream's path.
pub const CREDENTIALS_FILE: &str = "/credentials/cloud";

/// The server's permissions in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Can back up and restore anything: `cluster-admin` in effect.
    Full,
    /// Can read and write objects in these namespaces only.
    Namespaces(Vec<String>),
}

/// The options of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallOptions {
    pub namespace: String,
    pub image: String,
    pub replicas: i64,
    pub rights: Rights,
    /// The namespace existed before the installation, so uninstall must not delete it.
    pub namespace_existed: bool,
    /// Arguments after `lifeboat server`.
    pub server_args: Vec<String>,
    pub service_account_annotations: Value,
    pub pod_annotations: Value,
    pub pod_labels: Value,
    /// Variables of the server, as a list of names and values.
    pub env: Vec<Value>,
    pub resources: Value,
    pub spool: Spool,
    /// Images of Velero plugins, in the order in which they are copied.
    pub plugins: Vec<String>,
    /// The URL under which users reach the server for files of backups; None if the storage signs links itself.
    pub download_url: Option<String>,
    pub movers: MoverOptions,
    pub stash: StashOptions,
}

/// The volume on which the server unpacks archives and spools data. The fields are strings because the chart puts
/// template expressions there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spool {
    /// The size of the volume; a pod that goes beyond it is evicted.
    pub limit: String,
    /// How many MiB of it the archive of one restore may use. The remainder is for logs and running backups.
    pub archive: String,
}

impl Spool {
    pub fn mib(size: u64) -> Self {
        Self { limit: format!("{size}Mi"), archive: (size * 3 / 4).to_string() }
    }
}

/// The default size of the spool, in MiB.
pub const DEFAULT_SPOOL_MIB: u64 = 2048;

impl InstallOptions {
    pub fn new(namespace: &str, image: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            image: image.to_owned(),
            replicas: 2,
            rights: Rights::Full,
            namespace_existed: false,
            server_args: Vec::new(),
            service_account_annotations: json!({}),
            pod_annotations: json!({}),
            pod_labels: json!({}),
            env: Vec::new(),
            resources: default_resources(),
            spool: Spool::mib(DEFAULT_SPOOL_MIB),
            plugins: Vec::new(),
            download_url: None,
            movers: MoverOptions::new(namespace),
            stash: StashOptions::default(),
        }
    }
}

/// The requests cover an idle server. The limit leaves room for its concurrent work and for the processes of plugins,
/// which are Go programs of 30 to 100 MB each, one per program and operation, and count towards the server's
/// container.
pub fn default_resources() -> Value {
    json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}})
}

/// All objects except the custom resource definitions and the Secrets, in the order to apply them.
pub fn objects(options: &InstallOptions) -> Vec<Value> {
    let mut objects = vec![namespace(options), service_account(options)];
    objects.extend(rbac::objects(options));
    objects.extend(stash::objects(options));
    objects.extend(movers::objects(options));
    objects.push(deployment::object(options));
    objects.extend(service::object(options));
    objects
}

/// The name of cluster-scoped roles and bindings. It contains Lifeboat's namespace, so that two installations never
/// share, change or delete each other's permissions.
pub fn rights_name(namespace: &str) -> String {
    format!("lifeboat:{namespace}")
}

/// The labels of every object that an installation creates; uninstall finds the objects by them.
pub fn labels() -> Value {
    json!({"app.kubernetes.io/name": "lifeboat", "component": "velero"})
}

/// Whether an object, such as a namespace, carries the labels of an installation of Lifeboat.
pub fn is_marked(labels: &BTreeMap<String, String>) -> bool {
    labels.get("app.kubernetes.io/name").is_some_and(|name| name == "lifeboat")
}

/// Annotation of a namespace that existed before the installation.
pub const EXISTED_ANNOTATION: &str = "lifeboat.io/existed-before";

/// The server's namespace. It enforces the strictest Pod Security level.
fn namespace(options: &InstallOptions) -> Value {
    let mut namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": options.namespace,
            "labels": {
                "app.kubernetes.io/name": "lifeboat",
                "component": "velero",
                "pod-security.kubernetes.io/enforce": "restricted",
                "pod-security.kubernetes.io/enforce-version": "latest",
                "pod-security.kubernetes.io/audit": "restricted",
                "pod-security.kubernetes.io/warn": "restricted",
            }
        }
    });
    if options.namespace_existed {
        namespace["metadata"]["annotations"] = json!({EXISTED_ANNOTATION: "true"});
    }
    namespace
}

fn service_account(options: &InstallOptions) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": "lifeboat",
            "namespace": options.namespace,
            "labels": labels(),
            "annotations": options.service_account_annotations,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(rights: Rights) -> Vec<Value> {
        let options = InstallOptions { rights, ..InstallOptions::new("lifeboat", "localhost/lifeboat:dev") };
        objects(&options)
    }

    #[test]
    fn full_installation() {
        insta::assert_yaml_snapshot!(rendered(Rights::Full));
    }

    #[test]
    fn downloads_are_served_where_a_url_is_given() {
        let options = InstallOptions {
            download_url: Some("https://backups.example".to_owned()),
            spool: Spool::mib(100),
            ..InstallOptions::new("lifeboat", "localhost/lifeboat:dev")
        };
        let objects = objects(&options);
        let named = |object: &&Value| object["metadata"]["name"] == "lifeboat-downloads";
        let service = objects.iter().filter(|object| object["kind"] == "Service").find(named).unwrap();
        assert_eq!(service["spec"]["ports"][0]["port"], 8086);
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let args = pod["containers"][0]["args"].as_array().unwrap();
        assert!(args.contains(&json!("--download-url=https://backups.example")), "{args:?}");
        assert!(args.contains(&json!("--spool-size=75")), "{args:?}");
        assert_eq!(pod["volumes"][1]["emptyDir"]["sizeLimit"], "100Mi");
    }

    #[test]
    fn images_of_plugins_become_init_containers_that_a_restricted_namespace_takes() {
        let images = ["velero/velero-plugin-for-aws:v1.14.3", "velero/velero-plugin-for-aws:v1.14.2"];
        let options = InstallOptions {
            plugins: images.map(str::to_owned).to_vec(),
            ..InstallOptions::new("lifeboat", "localhost/lifeboat:dev")
        };
        let objects = objects(&options);
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let containers = crate::plugin_images::containers(deployment);
        let names: Vec<_> = containers.iter().map(|container| container["name"].clone()).collect();
        assert_eq!(names, ["velero-velero-plugin-for-aws", "velero-velero-plugin-for-aws-2"]);
        assert_eq!(crate::plugin_images::completion(deployment), crate::plugin_images::Completion::default());
    }

    #[test]
    fn stock_tools_find_the_deployment_and_its_plugins_volume() {
        let objects = rendered(Rights::Full);
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        assert_eq!(deployment["metadata"]["labels"]["component"], "velero");
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["name"], "velero");
        let volumes = pod["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|volume| volume["name"] == "plugins"), "{volumes:?}");
    }

    #[test]
    fn installation_limited_to_named_namespaces() {
        let rights = Rights::Namespaces(vec!["shop".into(), "blog".into()]);
        let objects: Vec<_> = rendered(rights).into_iter().filter(|o| o["kind"] != "Deployment").collect();
        insta::assert_yaml_snapshot!(objects);
    }

    #[test]
    fn a_limited_installation_binds_nothing_cluster_wide_that_writes() {
        let objects = rendered(Rights::Namespaces(vec!["shop".into()]));
        let cluster_wide: Vec<_> = objects
            .iter()
            .filter(|o| o["kind"] == "ClusterRoleBinding")
            .map(|o| o["roleRef"]["name"].clone())
            .collect();
        assert_eq!(cluster_wide, ["lifeboat:lifeboat:view", "lifeboat:lifeboat:stash:server-view"]);
        for name in cluster_wide {
            let is_bound = |o: &&Value| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name;
            let rules = objects.iter().find(is_bound).unwrap()["rules"].as_array().unwrap();
            let mut verbs = rules.iter().flat_map(|rule| rule["verbs"].as_array().unwrap());
            assert!(verbs.all(|verb| ["get", "list", "watch"].contains(&verb.as_str().unwrap())), "{name}");
        }
    }
}
