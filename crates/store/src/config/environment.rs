//! The environment variables from which credentials may come. Read once by `main` and passed in: no function of this
//! crate reads the environment.

use std::fmt;

use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::Provider;

/// Variables that are used where a location does not set a value.
#[derive(Clone, Default)]
pub struct Environment {
    pub aws_shared_credentials_file: Option<String>,
    pub aws_profile: Option<String>,
    pub aws_access_key_id: Option<String>,
    pub aws_secret_access_key: Option<SecretString>,
    pub aws_session_token: Option<SecretString>,
    pub aws_region: Option<String>,
    pub aws_role_arn: Option<String>,
    pub aws_role_session_name: Option<String>,
    pub aws_web_identity_token_file: Option<String>,
    pub aws_container_credentials_relative_uri: Option<String>,
    pub aws_container_credentials_full_uri: Option<String>,
    pub aws_container_authorization_token_file: Option<String>,
    pub aws_endpoint_url_sts: Option<String>,
    pub google_application_credentials: Option<String>,
    pub azure_credentials_file: Option<String>,
    pub azure_federated_token_file: Option<String>,
    pub azure_client_id: Option<String>,
    pub azure_tenant_id: Option<String>,
}

impl Environment {
    /// Takes the known variables; empty ones count as unset. `main` passes `std::env::vars()`.
    pub fn from_vars(vars: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut environment = Self::default();
        for (name, value) in vars {
            if !value.is_empty() {
                environment.set(&name, value);
            }
        }
        environment
    }

    fn set(&mut self, name: &str, value: String) {
        match name {
            "AWS_SHARED_CREDENTIALS_FILE" => self.aws_shared_credentials_file = Some(value),
            "AWS_PROFILE" => self.aws_profile = Some(value),
            "AWS_ACCESS_KEY_ID" => self.aws_access_key_id = Some(value),
            "AWS_SECRET_ACCESS_KEY" => self.aws_secret_access_key = Some(value.into()),
            "AWS_SESSION_TOKEN" => self.aws_session_token = Some(value.into()),
            "AWS_REGION" => self.aws_region = Some(value),
            "AWS_DEFAULT_REGION" => _ = self.aws_region.get_or_insert(value),
            "AWS_ROLE_ARN" => self.aws_role_arn = Some(value),
            "AWS_ROLE_SESSION_NAME" => self.aws_role_session_name = Some(value),
            "AWS_WEB_IDENTITY_TOKEN_FILE" => self.aws_web_identity_token_file = Some(value),
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" => {
                self.aws_container_credentials_relative_uri = Some(value);
            }
            "AWS_CONTAINER_CREDENTIALS_FULL_URI" => self.aws_container_credentials_full_uri = Some(value),
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" => {
                self.aws_container_authorization_token_file = Some(value);
            }
            "AWS_ENDPOINT_URL_STS" => self.aws_endpoint_url_sts = Some(value),
            "GOOGLE_APPLICATION_CREDENTIALS" => self.google_application_credentials = Some(value),
            "AZURE_CREDENTIALS_FILE" => self.azure_credentials_file = Some(value),
            "AZURE_FEDERATED_TOKEN_FILE" => self.azure_federated_token_file = Some(value),
            "AZURE_CLIENT_ID" => self.azure_client_id = Some(value),
            "AZURE_TENANT_ID" => self.azure_tenant_id = Some(value),
            _ => {}
        }
    }

    /// AWS's static keys from the variables, in the format of a credentials file.
    pub(crate) fn aws_credentials(&self) -> Option<SecretSlice<u8>> {
        let (id, secret) = (self.aws_access_key_id.as_ref()?, self.aws_secret_access_key.as_ref()?);
        let secret = secret.expose_secret();
        let mut text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
        if let Some(token) = &self.aws_session_token {
            text = format!("{text}aws_session_token = {}\n", token.expose_secret());
        }
        Some(SecretSlice::from(text.into_bytes()))
    }

    pub(crate) fn credentials_file(&self, provider: Provider) -> Option<&str> {
        match provider {
            Provider::Aws => self.aws_shared_credentials_file.as_deref(),
            Provider::Gcp => self.google_application_credentials.as_deref(),
            Provider::Azure => self.azure_credentials_file.as_deref(),
            Provider::Local => None,
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}
