//! Azure Blob Storage: the keys of Velero's azure plugin and the variables of its Secret.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use super::keys::{Keys, value};
use super::{Environment, Files, StoreConfig};
use crate::credentials::dotenv;
use crate::error::{Error, Result};

const KNOWN: [&str; 10] = [
    "resourceGroup",
    "storageAccount",
    "storageAccountKeyEnvVar",
    "subscriptionId",
    "blockSizeInBytes",
    "storageAccountURI",
    "useAAD",
    "activeDirectoryAuthorityURI",
    "cloudName",
    "credentialsFile",
];

/// The variables that hold a storage account's key, if the config does not name one.
const ACCOUNT_KEYS: [&str; 2] = ["AZURE_STORAGE_ACCOUNT_ACCESS_KEY", "AZURE_STORAGE_KEY"];

/// The variable that holds a shared access signature, as in restic.
const ACCOUNT_SAS: &str = "AZURE_ACCOUNT_SAS";

/// Checked settings for Azure.
#[derive(Debug)]
pub(crate) struct AzureConfig {
    pub account: String,
    /// `https://ACCOUNT.blob.core.windows.net`.
    pub endpoint: String,
    pub authority: String,
    pub part_size: Option<usize>,
    pub auth: AzureAuth,
}

/// How we authenticate at Azure.
#[derive(Debug)]
pub(crate) enum AzureAuth {
    AccountKey(SecretString),
    /// A shared access signature.
    Sas(SecretString),
    ClientSecret {
        tenant: String,
        client: String,
        secret: SecretString,
    },
    WorkloadIdentity {
        tenant: String,
        client: String,
        token_file: String,
    },
    ManagedIdentity {
        client: Option<String>,
    },
}

impl AzureAuth {
    /// Whether the secret is part of the settings, and not an identity of the machine or pod.
    pub(crate) fn is_given(&self) -> bool {
        match self {
            Self::AccountKey(_) | Self::Sas(_) | Self::ClientSecret { .. } => true,
            Self::WorkloadIdentity { .. } | Self::ManagedIdentity { .. } => false,
        }
    }
}

type Variables = BTreeMap<String, SecretString>;

pub(super) fn validate(
    config: &StoreConfig,
    environment: &Environment,
    files: &Files,
) -> Result<AzureConfig> {
    let keys = Keys::new("azure", &config.config, &KNOWN, &[])?;
    let variables = match config.credentials(environment, files)? {
        Some(content) => dotenv::parse(content)?,
        None => Variables::new(),
    };
    let Some(account) = keys.owned("storageAccount") else {
        return Err(Error::config(
            "storageAccount",
            "it is missing; set it to the name of the storage account",
        ));
    };
    if !account.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        return Err(value("storageAccount", &account, "lower-case letters and digits"));
    }
    let name = keys.get("cloudName").map(str::to_owned).or_else(|| plain(&variables, "AZURE_CLOUD_NAME"));
    let cloud = Cloud::parse(name.as_deref().unwrap_or_default())?;
    let endpoint = match keys.get("storageAccountURI") {
        None => format!("https://{account}.{}", cloud.blob),
        Some(text) => endpoint(text)?,
    };
    let authority = match keys.url("activeDirectoryAuthorityURI")? {
        Some(url) => url.as_str().trim_end_matches('/').to_owned(),
        None => cloud.authority.to_owned(),
    };
    let part_size = keys.get("blockSizeInBytes").map(block_size).transpose()?;
    let auth = auth(keys, &variables, environment)?;
    Ok(AzureConfig { account, endpoint, authority, part_size, auth })
}

fn auth(keys: Keys<'_>, variables: &Variables, environment: &Environment) -> Result<AzureAuth> {
    if let Some(name) = keys.get("storageAccountKeyEnvVar") {
        let problem = || format!("the credentials contain no variable '{name}'");
        let key = variables.get(name).ok_or_else(|| Error::config("storageAccountKeyEnvVar", problem()))?;
        return account_key(key);
    }
    if !keys.boolean("useAAD")? {
        if let Some(key) = ACCOUNT_KEYS.iter().find_map(|name| variables.get(*name)) {
            return account_key(key);
        }
        if let Some(token) = variables.get(ACCOUNT_SAS) {
            return Ok(AzureAuth::Sas(token.clone()));
        }
        return Err(Error::config(
            "storageAccountKeyEnvVar",
            "it is missing, and so is 'useAAD': name the variable that holds the storage account's key, or set \
             'useAAD' to 'true' (asking Azure's management API for the key is not supported)",
        ));
    }
    for name in ["AZURE_CLIENT_CERTIFICATE", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_USERNAME"] {
        if variables.contains_key(name) {
            return Err(Error::credentials_format(format!(
                "'{name}' is not supported: use AZURE_CLIENT_SECRET, workload identity or a managed identity"
            )));
        }
    }
    let client = plain(variables, "AZURE_CLIENT_ID");
    let tenant = plain(variables, "AZURE_TENANT_ID");
    if let Some(secret) = variables.get("AZURE_CLIENT_SECRET") {
        let need = |value: Option<String>, name: &str| {
            value.ok_or_else(|| Error::credentials_format(format!("AZURE_CLIENT_SECRET also needs '{name}'")))
        };
        let (tenant, client) = (need(tenant, "AZURE_TENANT_ID")?, need(client, "AZURE_CLIENT_ID")?);
        return Ok(AzureAuth::ClientSecret { tenant, client, secret: secret.clone() });
    }
    let client = client.or_else(|| environment.azure_client_id.clone());
    let tenant = tenant.or_else(|| environment.azure_tenant_id.clone());
    match (&environment.azure_federated_token_file, tenant, client) {
        (Some(token_file), Some(tenant), Some(client)) => {
            Ok(AzureAuth::WorkloadIdentity { tenant, client, token_file: token_file.clone() })
        }
        (Some(_), _, _) => Err(Error::credentials_format(
            "workload identity needs AZURE_TENANT_ID and AZURE_CLIENT_ID in the credentials or the environment",
        )),
        (None, _, client) => Ok(AzureAuth::ManagedIdentity { client }),
    }
}

fn account_key(key: &SecretString) -> Result<AzureAuth> {
    use base64::Engine;
    match base64::engine::general_purpose::STANDARD.decode(key.expose_secret()) {
        Ok(bytes) if !bytes.is_empty() => Ok(AzureAuth::AccountKey(key.clone())),
        _ => Err(Error::credentials_format("the storage account's key is not base64")),
    }
}

fn plain(variables: &Variables, name: &str) -> Option<String> {
    variables.get(name).map(|value| value.expose_secret().to_owned()).filter(|value| !value.is_empty())
}

/// Without a scheme, as in Velero's example, or a URL.
fn endpoint(text: &str) -> Result<String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    match url::Url::parse(&with_scheme) {
        Ok(url)
            if matches!(url.scheme(), "http" | "https")
                && url.host_str().is_some()
                && url.query().is_none() =>
        {
            Ok(with_scheme.trim_end_matches('/').to_owned())
        }
        _ => Err(Error::config("storageAccountURI", "expected a host name or a URL without a query")),
    }
}

fn block_size(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(size) if (1..=104_857_600).contains(&size) => Ok(size),
        _ => Err(value("blockSizeInBytes", text, "a number from 1 to 104857600")),
    }
}

struct Cloud {
    blob: &'static str,
    authority: &'static str,
}

impl Cloud {
    fn parse(name: &str) -> Result<Self> {
        let (blob, authority) = match name.to_uppercase().as_str() {
            "" | "AZURECLOUD" | "AZUREPUBLICCLOUD" => {
                ("blob.core.windows.net", "https://login.microsoftonline.com")
            }
            "AZURECHINACLOUD" => ("blob.core.chinacloudapi.cn", "https://login.chinacloudapi.cn"),
            "AZUREUSGOVERNMENT" | "AZUREUSGOVERNMENTCLOUD" => {
                ("blob.core.usgovcloudapi.net", "https://login.microsoftonline.us")
            }
            _ => {
                let expected = "'AzurePublicCloud', 'AzureChinaCloud' or 'AzureUSGovernmentCloud'";
                return Err(value("cloudName", name, expected));
            }
        };
        Ok(Self { blob, authority })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const KEY: &str = "AZURE_STORAGE_ACCOUNT_ACCESS_KEY=Q0FOQVJZ\n";

    fn check(entries: &[(&str, &str)], credentials: &str, environment: &Environment) -> Result<AzureConfig> {
        let mut config: BTreeMap<String, String> =
            entries.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        config.entry("storageAccount".into()).or_insert_with(|| "acct".into());
        let config = StoreConfig {
            provider: "azure".into(),
            bucket: "b".into(),
            config,
            credentials: Some(credentials.as_bytes().to_vec().into()),
            ..StoreConfig::default()
        };
        validate(&config, environment, &Files::default())
    }

    #[rstest]
    #[case::public(&[], "https://acct.blob.core.windows.net", "https://login.microsoftonline.com")]
    #[case::china(&[("cloudName", "AzureChinaCloud")], "https://acct.blob.core.chinacloudapi.cn", "https://login.chinacloudapi.cn")]
    #[case::uri(&[("storageAccountURI", "my.blob.example")], "https://my.blob.example", "https://login.microsoftonline.com")]
    #[case::authority(&[("activeDirectoryAuthorityURI", "https://login.microsoftonline.us/")],
        "https://acct.blob.core.windows.net", "https://login.microsoftonline.us")]
    fn endpoints_follow_cloud_and_config(
        #[case] entries: &[(&str, &str)],
        #[case] endpoint: &str,
        #[case] authority: &str,
    ) {
        let valid = check(entries, KEY, &Environment::default()).unwrap();
        assert_eq!((valid.endpoint.as_str(), valid.authority.as_str()), (endpoint, authority));
    }

    #[rstest]
    #[case::named_key(&[("storageAccountKeyEnvVar", "MINE")], "MINE=Q0FOQVJZ", "AccountKey")]
    #[case::usual_key(&[], KEY, "AccountKey")]
    #[case::principal(&[("useAAD", "true")], "AZURE_TENANT_ID=t\nAZURE_CLIENT_ID=c\nAZURE_CLIENT_SECRET=CANARY", "ClientSecret")]
    #[case::managed(&[("useAAD", "true")], "AZURE_CLIENT_ID=c", "ManagedIdentity")]
    fn the_way_to_authenticate_is_chosen(
        #[case] entries: &[(&str, &str)],
        #[case] credentials: &str,
        #[case] way: &str,
    ) {
        let valid = check(entries, credentials, &Environment::default()).unwrap();
        let debug = format!("{:?}", valid.auth);
        assert!(debug.starts_with(way), "{debug}");
        assert!(!debug.contains("CANARY") && !debug.contains("Q0FOQVJZ"), "{debug}");
    }

    #[rstest]
    #[case::no_way(&[], "AZURE_TENANT_ID=t", "management API")]
    #[case::missing_key(&[("storageAccountKeyEnvVar", "MINE")], KEY, "no variable 'MINE'")]
    #[case::bad_key(&[], "AZURE_STORAGE_KEY=CANARY!", "not base64")]
    #[case::half_principal(&[("useAAD", "true")], "AZURE_CLIENT_SECRET=CANARY", "AZURE_TENANT_ID")]
    #[case::certificate(&[("useAAD", "true")], "AZURE_CLIENT_CERTIFICATE=CANARY", "not supported")]
    #[case::bad_bool(&[("useAAD", "yes")], KEY, "'useAAD'")]
    #[case::block_size(&[("blockSizeInBytes", "0")], KEY, "'blockSizeInBytes'")]
    #[case::cloud(&[("cloudName", "Mars")], KEY, "'Mars'")]
    #[case::account(&[("storageAccount", "My_Account")], KEY, "'My_Account'")]
    fn what_cannot_be_done_is_refused(
        #[case] entries: &[(&str, &str)],
        #[case] credentials: &str,
        #[case] expected: &str,
    ) {
        let error = check(entries, credentials, &Environment::default()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!format!("{error} {error:?}").contains("CANARY"), "{error:?}");
    }

    #[test]
    fn workload_identity_comes_from_the_environment() {
        let environment = Environment {
            azure_federated_token_file: Some("/token".into()),
            azure_client_id: Some("c".into()),
            azure_tenant_id: Some("t".into()),
            ..Environment::default()
        };
        let valid = check(&[("useAAD", "true")], "", &environment).unwrap();
        assert!(matches!(valid.auth, AzureAuth::WorkloadIdentity { .. }), "{:?}", valid.auth);
    }
}
