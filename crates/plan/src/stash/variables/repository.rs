//! The variables of a Repository, from its backend.

use lifeboat_api::stash::Backend;

use super::RepositoryVariables;

impl RepositoryVariables {
    /// Upstream's names of providers are those of restic.
    pub fn of(namespace: &str, name: &str, backend: &Backend) -> Self {
        let of = Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            secret_name: backend.storage_secret_name.clone(),
            secret_namespace: namespace.to_owned(),
            ..Self::default()
        };
        if let Some(s3) = &backend.s3 {
            let endpoint = s3.endpoint.clone();
            let of = of.bucket("s3", &s3.bucket, s3.prefix.as_ref(), None);
            return Self { endpoint, region: text(s3.region.as_ref()), insecure_tls: s3.insecure_tls, ..of };
        }
        if let Some(gcs) = &backend.gcs {
            return of.bucket("gcs", &gcs.bucket, gcs.prefix.as_ref(), gcs.max_connections);
        }
        if let Some(azure) = &backend.azure {
            return of.bucket("azure", &azure.container, azure.prefix.as_ref(), azure.max_connections);
        }
        if let Some(swift) = &backend.swift {
            return of.bucket("swift", &swift.container, swift.prefix.as_ref(), None);
        }
        if let Some(b2) = &backend.b2 {
            return of.bucket("b2", &b2.bucket, b2.prefix.as_ref(), b2.max_connections);
        }
        if let Some(rest) = &backend.rest {
            return Self { provider: "rest".to_owned(), endpoint: rest.url.clone(), ..of };
        }
        if let Some(local) = &backend.local {
            return of.bucket("local", &local.mount_path, local.sub_path.as_ref(), None);
        }
        of
    }

    fn bucket(self, provider: &str, bucket: &str, prefix: Option<&String>, connections: Option<i64>) -> Self {
        Self {
            provider: provider.to_owned(),
            bucket: bucket.to_owned(),
            prefix: text(prefix),
            max_connections: connections.unwrap_or_default(),
            ..self
        }
    }
}

fn text(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_backend_has_a_provider_and_where_the_repository_is_in_it() {
        let of = |backend| RepositoryVariables::of("shop", "r", &serde_json::from_value(backend).unwrap());
        let s3 = of(json!({"storageSecretName": "keys", "s3": {
            "endpoint": "minio:9000", "bucket": "b", "prefix": "p", "region": "eu", "insecureTLS": true}}));
        assert_eq!((s3.provider.as_str(), s3.bucket.as_str(), s3.prefix.as_str()), ("s3", "b", "p"));
        assert_eq!((s3.endpoint.as_str(), s3.region.as_str(), s3.insecure_tls), ("minio:9000", "eu", true));
        assert_eq!((s3.secret_name.as_str(), s3.secret_namespace.as_str()), ("keys", "shop"));
        let gcs = of(json!({"storageSecretName": "keys", "gcs": {"bucket": "b", "maxConnections": 7}}));
        assert_eq!((gcs.provider.as_str(), gcs.max_connections), ("gcs", 7));
        let rest = of(json!({"storageSecretName": "keys", "rest": {"url": "https://backup/shop"}}));
        assert_eq!((rest.provider.as_str(), rest.endpoint.as_str()), ("rest", "https://backup/shop"));
    }
}
