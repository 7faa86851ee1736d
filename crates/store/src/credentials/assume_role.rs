//! STS AssumeRole: exchanges the keys of `base` for temporary keys of a role, which are cached until shortly before
//! they expire. object_store implements the variant with a web identity token; this one is for `source_profile`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan};
use object_store::CredentialProvider;
use object_store::aws::{AwsAuthorizer, AwsCredential, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpRequest};
use tokio::sync::Mutex;

use super::aws_file::Role;
use crate::error::ErrorResponse;

/// How long before their expiry the credentials are renewed.
const SPARE: Duration = Duration::from_mins(5);

/// Credentials of an assumed role.
#[derive(Debug)]
pub(crate) struct AssumeRole {
    pub role: Role,
    pub base: AwsCredentialProvider,
    pub client: HttpClient,
    /// `https://sts.REGION.amazonaws.com`.
    pub endpoint: String,
    pub region: String,
    pub cached: Mutex<Option<Temporary>>,
}

#[derive(Debug)]
pub(crate) struct Temporary {
    credential: Arc<AwsCredential>,
    expires: Timestamp,
}

#[async_trait]
impl CredentialProvider for AssumeRole {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        // Held during the request, so that a hundred waiting requests cause one call.
        let mut cached = self.cached.lock().await;
        if let Some(temporary) = &*cached
            && temporary.expires.duration_since(Timestamp::now()).unsigned_abs() > SPARE
            && temporary.expires > Timestamp::now()
        {
            return Ok(Arc::clone(&temporary.credential));
        }
        let fresh = self.fetch().await?;
        Ok(Arc::clone(&cached.insert(fresh).credential))
    }
}

impl AssumeRole {
    async fn fetch(&self) -> object_store::Result<Temporary> {
        let base = self.base.get_credential().await?;
        let mut request = http::Request::builder()
            .method(http::Method::POST)
            .uri(format!("{}/", self.endpoint.trim_end_matches('/')))
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8")
            .body(self.form().into())
            .map_err(failure)?;
        AwsAuthorizer::new(&base, "sts", &self.region).try_authorize(&mut request, None)?;
        let response = self.client.execute(request as HttpRequest).await.map_err(failure)?;
        let body = response.into_body().bytes().await.map_err(failure)?;
        parse(&String::from_utf8_lossy(&body)).ok_or_else(|| {
            // The body contains credentials, so it is not quoted.
            failure(ErrorResponse::new(
                self.endpoint.clone(),
                http::StatusCode::OK,
                None,
                "not a response to AssumeRole",
            ))
        })
    }

    fn form(&self) -> String {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", "AssumeRole")
            .append_pair("Version", "2011-06-15")
            .append_pair("RoleArn", &self.role.arn)
            .append_pair("RoleSessionName", &self.role.session_name)
            .append_pair("DurationSeconds", &self.role.duration_seconds.to_string());
        if let Some(id) = &self.role.external_id {
            form.append_pair("ExternalId", id);
        }
        form.finish()
    }
}

fn failure(source: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic { store: "STS", source: Box::new(source) }
}

fn parse(body: &str) -> Option<Temporary> {
    let text = |name| crate::error::xml_text(body, name);
    let credential = AwsCredential {
        key_id: text("AccessKeyId")?,
        secret_key: text("SecretAccessKey")?,
        token: Some(text("SessionToken")?),
    };
    // If the time cannot be parsed: the shortest lifetime that STS grants.
    let expires = text("Expiration").and_then(|time| time.parse().ok());
    let expires = expires.unwrap_or_else(|| Timestamp::now() + 15.minutes());
    Some(Temporary { credential: Arc::new(credential), expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_sts_is_read() {
        let body = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA1</AccessKeyId>\
            <SecretAccessKey>s/+=</SecretAccessKey><SessionToken>t==</SessionToken>\
            <Expiration>2030-01-02T03:04:05Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
        let temporary = parse(body).unwrap();
        assert_eq!(temporary.credential.key_id, "ASIA1");
        assert_eq!(temporary.credential.token.as_deref(), Some("t=="));
        assert_eq!(temporary.expires.to_string(), "2030-01-02T03:04:05Z");
        assert!(parse("<html/>").is_none());
    }
}
