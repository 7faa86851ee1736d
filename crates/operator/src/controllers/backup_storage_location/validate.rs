//! From what was gathered to a location that can be opened, or the reason why not, in words for a person.

use lifeboat_plan::install::CLOUD_CREDENTIALS;
use lifeboat_plan::location::{self, CaSource, SecretKey, ValidLocation};
use lifeboat_store::StoreConfig;
use secrecy::SecretSlice;

use super::gather::Gathered;

/// All that is needed to open the bucket.
pub(super) struct Opening {
    pub(super) config: StoreConfig,
}

/// Why the bucket cannot be used: a word for machines (`plan::conditions::reason`) and words for a person.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) category: &'static str,
    pub(super) message: String,
}

pub(super) fn validate(gathered: &Gathered) -> Result<Opening, Problem> {
    let location = gathered.location.as_ref().map_err(|error| {
        let message =
            format!("the object cannot be read: {error}; correct it with `kubectl edit`, or make it anew");
        Problem { category: "unreadable", message }
    })?;
    let valid = location::validate(&location.spec).map_err(|problems| {
        let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Problem { category: "config", message }
    })?;
    let mut config = StoreConfig {
        provider: valid.provider.clone(),
        bucket: valid.bucket.clone(),
        prefix: valid.prefix.clone(),
        config: valid.config.clone(),
        ca_pem: authority(gathered, &valid)?,
        credentials: credentials(gathered, &valid)?,
        customer_key: None,
    };
    let named = config
        .customer_key_secret()
        .map_err(|error| Problem { category: error.category(), message: error.to_string() })?;
    config.customer_key =
        match named.map(|(secret, key)| SecretKey { secret: secret.into(), key: key.into() }) {
            Some(wanted) => Some(SecretSlice::from(secret_value(
                gathered,
                "spec.config[customerKeyEncryptionSecret]",
                &wanted,
            )?)),
            None => None,
        };
    Ok(Opening { config })
}

fn authority(gathered: &Gathered, valid: &ValidLocation) -> Result<Option<Vec<u8>>, Problem> {
    match &valid.ca {
        CaSource::System => Ok(None),
        CaSource::Inline(pem) => Ok(Some(pem.clone())),
        CaSource::Secret(wanted) => secret_value(gathered, "spec.objectStorage.caCertRef", wanted).map(Some),
    }
}

/// The location's own credentials; else the installation's, where there are some.
fn credentials(gathered: &Gathered, valid: &ValidLocation) -> Result<Option<SecretSlice<u8>>, Problem> {
    if let Some(wanted) = &valid.credential {
        return secret_value(gathered, "spec.credential", wanted).map(|value| Some(SecretSlice::from(value)));
    }
    // A file in the server that the location names goes before the installation's credentials.
    if valid.config.get("credentialsFile").is_some_and(|path| !path.is_empty()) {
        return Ok(None);
    }
    let (name, key) = CLOUD_CREDENTIALS;
    let installation = gathered.secrets.get(name).and_then(Option::as_ref);
    Ok(installation.and_then(|secret| secret.values.get(key)).map(|value| SecretSlice::from(value.clone())))
}

fn secret_value(gathered: &Gathered, field: &str, wanted: &SecretKey) -> Result<Vec<u8>, Problem> {
    let SecretKey { secret: name, key } = wanted;
    let Some(Some(secret)) = gathered.secrets.get(name) else {
        return Err(no_secret(format!(
            "{field} names Secret {name:?}, which does not exist in Lifeboat's namespace"
        )));
    };
    secret.values.get(key).cloned().ok_or_else(|| {
        let keys = secret.values.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        no_secret(format!("{field} names key {key:?} of Secret {name:?}, which has only: {keys}"))
    })
}

fn no_secret(message: String) -> Problem {
    Problem { category: "secret_not_found", message }
}
