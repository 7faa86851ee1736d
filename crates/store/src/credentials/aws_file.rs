//! AWS's shared credentials file: profiles with keys, or with a role to assume. Pure. Keys that are not supported
//! (programs, single sign-on, MFA) are refused by name: other credentials are never used instead.

use std::collections::BTreeMap;

use secrecy::SecretString;

use crate::error::{Error, Result};

/// Where AWS credentials come from.
#[derive(Debug, Clone)]
pub(crate) enum AwsSource {
    Static(AwsKeys),
    /// STS AssumeRoleWithWebIdentity.
    WebIdentity {
        role: Role,
        token_file: String,
    },
    /// STS AssumeRole with the credentials of `base`.
    AssumeRole {
        role: Role,
        base: Box<AwsSource>,
    },
    /// The ECS or EKS agent of the pod.
    Container,
    /// The metadata service of the machine.
    Instance,
    /// Requests are not signed.
    Anonymous,
}

#[derive(Debug, Clone)]
pub(crate) struct AwsKeys {
    pub id: String,
    pub secret: SecretString,
    pub token: Option<SecretString>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Role {
    pub arn: String,
    pub session_name: String,
    pub external_id: Option<String>,
    pub duration_seconds: u32,
}

type Profile = BTreeMap<String, String>;

/// A parsed file.
pub(crate) struct AwsFile {
    profiles: BTreeMap<String, Profile>,
}

/// The credential sources that `credential_source` may name, resolved by the caller from the environment.
pub(crate) struct OutsideSources {
    pub environment: Option<AwsKeys>,
}

impl AwsFile {
    pub(crate) fn parse(content: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(content)
            .map_err(|_| bad("expected an AWS credentials file, but this is not UTF-8 text"))?;
        let mut profiles: BTreeMap<String, Profile> = BTreeMap::new();
        let mut current = None;
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let nested = line.starts_with([' ', '\t']);
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(header) = line.strip_prefix('[') {
                let Some((name, _)) = header.split_once(']') else {
                    return Err(bad(format!("line {}: '[' without ']'", index + 1)));
                };
                let name = name.trim();
                let name = name.strip_prefix("profile ").map_or(name, str::trim).to_owned();
                profiles.entry(name.clone()).or_default();
                current = Some(name);
                continue;
            }
            // The line is not quoted: it may contain a key.
            let Some((key, value)) = line.split_once('=') else {
                return Err(bad(format!("line {}: expected 'key = value' or '[profile]'", index + 1)));
            };
            let Some(profile) = current.as_ref().and_then(|name| profiles.get_mut(name)) else {
                return Err(bad(format!("line {}: a key before the first '[profile]'", index + 1)));
            };
            // Settings nested below `s3 =` and similar keys are not used.
            if !nested {
                profile.insert(key.trim().to_lowercase(), value.trim().to_owned());
            }
        }
        if profiles.is_empty() {
            return Err(bad(
                "expected an AWS credentials file with a '[default]' profile, but it contains none",
            ));
        }
        Ok(Self { profiles })
    }

    /// The region that the profile names.
    pub(crate) fn region(&self, profile: &str) -> Option<String> {
        self.profiles.get(profile)?.get("region").filter(|region| !region.is_empty()).cloned()
    }

    /// Where the credentials of `profile` come from.
    pub(crate) fn resolve(&self, profile: &str, outside: &OutsideSources) -> Result<AwsSource> {
        self.resolve_from(profile, outside, &mut Vec::new())
    }

    fn resolve_from(
        &self,
        name: &str,
        outside: &OutsideSources,
        seen: &mut Vec<String>,
    ) -> Result<AwsSource> {
        let Some(profile) = self.profiles.get(name) else {
            let names: Vec<String> = self.profiles.keys().cloned().collect();
            return Err(bad(format!("there is no profile '{name}', only {}", crate::error::quoted(&names))));
        };
        refuse_unsupported(name, profile)?;
        let get = |key: &str| profile.get(key).filter(|value| !value.is_empty());
        let Some(arn) = get("role_arn") else {
            return keys(name, profile).map(AwsSource::Static);
        };
        // A profile may name itself as the source of its role, which means its own keys.
        if seen.iter().any(|earlier| earlier == name) {
            return keys(name, profile).map(AwsSource::Static);
        }
        seen.push(name.to_owned());
        let role = role(name, arn, profile)?;
        if let Some(token_file) = get("web_identity_token_file") {
            return Ok(AwsSource::WebIdentity { role, token_file: token_file.clone() });
        }
        let base = match (get("source_profile"), get("credential_source").map(String::as_str)) {
            (Some(source), None) => self.resolve_from(source, outside, seen)?,
            (None, Some("Ec2InstanceMetadata")) => AwsSource::Instance,
            (None, Some("EcsContainer")) => AwsSource::Container,
            (None, Some("Environment")) => match &outside.environment {
                Some(keys) => AwsSource::Static(keys.clone()),
                None => {
                    return Err(bad(format!(
                        "profile '{name}': credential_source is 'Environment', but AWS_ACCESS_KEY_ID and \
                         AWS_SECRET_ACCESS_KEY are not set"
                    )));
                }
            },
            (None, Some(other)) => {
                return Err(bad(format!(
                    "profile '{name}': credential_source is '{other}', expected 'Environment', \
                     'Ec2InstanceMetadata' or 'EcsContainer'"
                )));
            }
            (Some(_), Some(_)) => {
                return Err(bad(format!("profile '{name}' has both source_profile and credential_source")));
            }
            (None, None) => {
                return Err(bad(format!(
                    "profile '{name}' has role_arn, but none of source_profile, credential_source and \
                     web_identity_token_file says with whose credentials to assume it"
                )));
            }
        };
        Ok(AwsSource::AssumeRole { role, base: Box::new(base) })
    }
}

fn refuse_unsupported(name: &str, profile: &Profile) -> Result<()> {
    let unsupported = [
        ("credential_process", "external programs are not run to get credentials"),
        ("mfa_serial", "the code cannot be entered without a user"),
        ("sso_session", "single sign-on needs an interactive login"),
        ("sso_start_url", "single sign-on needs an interactive login"),
        ("sso_account_id", "single sign-on needs an interactive login"),
    ];
    match unsupported.iter().find(|(key, _)| profile.contains_key(*key)) {
        Some((key, reason)) => Err(bad(format!("profile '{name}': '{key}' is not supported: {reason}"))),
        None => Ok(()),
    }
}

fn keys(name: &str, profile: &Profile) -> Result<AwsKeys> {
    let get = |key: &str| profile.get(key).filter(|value| !value.is_empty()).cloned();
    match (get("aws_access_key_id"), get("aws_secret_access_key")) {
        (Some(id), Some(secret)) => {
            if id.chars().chain(secret.chars()).any(|c| !c.is_ascii_graphic()) {
                return Err(bad(format!(
                    "profile '{name}': the keys contain characters that no AWS key has"
                )));
            }
            Ok(AwsKeys { id, secret: secret.into(), token: get("aws_session_token").map(Into::into) })
        }
        (Some(_), None) => Err(bad(format!("profile '{name}' has no aws_secret_access_key"))),
        (None, Some(_)) => Err(bad(format!("profile '{name}' has no aws_access_key_id"))),
        (None, None) => Err(bad(format!("profile '{name}' has neither aws_access_key_id nor role_arn"))),
    }
}

fn role(name: &str, arn: &str, profile: &Profile) -> Result<Role> {
    if !arn.starts_with("arn:") {
        return Err(bad(format!(
            "profile '{name}': role_arn is '{arn}', expected 'arn:aws:iam::ACCOUNT:role/NAME'"
        )));
    }
    let get = |key: &str| profile.get(key).filter(|value| !value.is_empty());
    let duration_seconds = match get("duration_seconds") {
        None => 3600,
        Some(text) => match text.parse() {
            Ok(seconds @ 900..=43_200) => seconds,
            _ => {
                return Err(bad(format!(
                    "profile '{name}': duration_seconds is '{text}', expected 900 to 43200"
                )));
            }
        },
    };
    Ok(Role {
        arn: arn.to_owned(),
        session_name: get("role_session_name").cloned().unwrap_or_else(|| "lifeboat".to_owned()),
        external_id: get("external_id").cloned(),
        duration_seconds,
    })
}

fn bad(problem: impl Into<String>) -> Error {
    Error::credentials_format(problem)
}

#[cfg(test)]
mod tests;
