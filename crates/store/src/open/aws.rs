//! The S3 client, its credentials, and the signer for the public endpoint.

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::client::HttpConnector;
use object_store::{ClientOptions, StaticCredentialProvider};
use secrecy::ExposeSecret;

use super::{no_retries, refused};
use crate::backends::remote::{Remote, Signing};
use crate::backends::uploads::OpenUploads;
use crate::config::aws::{Address, AwsConfig, ContainerEndpoint, Encryption, dns_suffix};
use crate::credentials::assume_role::AssumeRole;
use crate::credentials::aws_file::{AwsSource, Role};
use crate::error::{Error, ErrorResponse, Operation, Result, Site, classify, find};
use crate::http::Connector;

/// How long the request for a bucket's region may take.
const REGION_DEADLINE: Duration = Duration::from_secs(10);

pub(super) async fn remote(
    bucket: String,
    config: AwsConfig,
    options: ClientOptions,
    connector: Connector,
) -> Result<Remote> {
    let region = match &config.region {
        Some(region) => region.clone(),
        None => find_region(&bucket, &options, &connector).await?,
    };
    let address = Address::new(&bucket, &region, config.s3_url.as_ref(), config.path_style)?;
    let options = options.with_allow_http(address.endpoint.starts_with("http://"));
    let site =
        Site { bucket: bucket.clone(), endpoint: address.shown.clone(), discreet: connector.guard.is_some() };
    let credentials = Credentials {
        site: &site,
        region: &region,
        options: &options,
        connector: &connector,
        container: &config.container,
        sts_url: config.sts_url.as_deref(),
    };
    let anonymous = matches!(config.source, AwsSource::Anonymous);
    let provider = credentials.provider(&config.source).await?;
    let build = |address: &Address, single_deletes: bool| -> Result<Arc<AmazonS3>> {
        let builder = AmazonS3Builder::new()
            .with_bucket_name(&bucket)
            .with_region(&region)
            .with_endpoint(&address.endpoint)
            .with_virtual_hosted_style_request(address.virtual_hosted)
            .with_credentials(Arc::clone(&provider))
            .with_skip_signature(anonymous)
            .with_disable_bulk_delete(single_deletes)
            .with_retry(no_retries())
            .with_client_options(options.clone().with_allow_http(address.endpoint.starts_with("http://")))
            .with_http_connector(connector.clone());
        let builder = match config.checksum {
            Some(checksum) => builder.with_checksum_algorithm(checksum),
            None => builder,
        };
        encrypted(builder, &config.encryption)?.build().map(Arc::new).map_err(|e| refused(&site, &e))
    };
    let store = build(&address, false)?;
    let signing = match (&config.encryption, &config.public_url) {
        (Encryption::Customer(_), _) => {
            Signing::Refused("objects are encrypted with a customer key, which a plain link cannot carry")
        }
        (_, None) => Signing::By(store.clone()),
        (_, Some(url)) => {
            Signing::By(build(&Address::new(&bucket, &region, Some(url), config.path_style)?, false)?)
        }
    };
    let uploads = Some(OpenUploads {
        client: connector.connect(&options).map_err(|error| refused(&site, &error))?,
        credentials: (!anonymous).then(|| Arc::clone(&provider)),
        region: region.clone(),
        bucket: address.bucket_url(&bucket)?,
    });
    Ok(Remote { single: build(&address, true)?, cloud: store, signing, tags: config.tags, uploads, site })
}

/// Sets options for which object_store has no method by their names. An unknown name must be an error, because
/// otherwise objects would be written unencrypted.
fn encrypted(builder: AmazonS3Builder, encryption: &Encryption) -> Result<AmazonS3Builder> {
    let with_algorithm = |builder: AmazonS3Builder, algorithm: &str| {
        let name = AmazonS3ConfigKey::from_str("aws_server_side_encryption");
        let name = name
            .map_err(|_| Error::config("serverSideEncryption", "object_store does not know this setting"))?;
        Ok(builder.with_config(name, algorithm))
    };
    match encryption {
        Encryption::None => Ok(builder),
        Encryption::Aes256 => with_algorithm(builder, "AES256"),
        Encryption::Kms { kind, key: None } => with_algorithm(builder, kind),
        Encryption::Kms { kind: "aws:kms:dsse", key: Some(key) } => Ok(builder.with_dsse_kms_encryption(key)),
        Encryption::Kms { key: Some(key), .. } => Ok(builder.with_sse_kms_encryption(key)),
        Encryption::Customer(key) => Ok(builder.with_ssec_encryption(key.expose_secret())),
    }
}

/// What is needed to make a credential provider.
struct Credentials<'a> {
    site: &'a Site,
    region: &'a str,
    options: &'a ClientOptions,
    connector: &'a Connector,
    container: &'a ContainerEndpoint,
    sts_url: Option<&'a str>,
}

type ProviderFuture<'a> = Pin<Box<dyn Future<Output = Result<AwsCredentialProvider>> + Send + 'a>>;

impl<'a> Credentials<'a> {
    fn provider(&'a self, source: &'a AwsSource) -> ProviderFuture<'a> {
        Box::pin(async move {
            match source {
                AwsSource::Static(keys) => Ok(Arc::new(StaticCredentialProvider::new(AwsCredential {
                    key_id: keys.id.clone(),
                    secret_key: keys.secret.expose_secret().to_owned(),
                    token: keys.token.as_ref().map(|token| token.expose_secret().to_owned()),
                })) as AwsCredentialProvider),
                AwsSource::WebIdentity { role, token_file } => self.web_identity(role, token_file),
                AwsSource::AssumeRole { role, base } => {
                    let base = self.provider(base).await?;
                    self.assume_role(role, base)
                }
                AwsSource::Container => self.container(),
                AwsSource::Instance => self.built(self.builder()),
                // Requests are not signed with it.
                AwsSource::Anonymous => self.built(self.builder().with_skip_signature(true)),
            }
        })
    }

    fn builder(&self) -> AmazonS3Builder {
        AmazonS3Builder::new()
            .with_bucket_name(&self.site.bucket)
            .with_region(self.region)
            .with_retry(no_retries())
            .with_client_options(self.options.clone())
            .with_http_connector(self.connector.clone())
    }

    /// object_store creates these providers itself, inside a store that is not used for anything else.
    fn built(&self, builder: AmazonS3Builder) -> Result<AwsCredentialProvider> {
        let store = builder.build().map_err(|error| refused(self.site, &error))?;
        Ok(Arc::clone(store.credentials()))
    }

    fn web_identity(&self, role: &Role, token_file: &str) -> Result<AwsCredentialProvider> {
        let builder = self
            .builder()
            .with_config(AmazonS3ConfigKey::WebIdentityTokenFile, token_file)
            .with_config(AmazonS3ConfigKey::RoleArn, &role.arn)
            .with_config(AmazonS3ConfigKey::RoleSessionName, &role.session_name)
            .with_config(AmazonS3ConfigKey::StsEndpoint, self.sts());
        self.built(builder)
    }

    fn container(&self) -> Result<AwsCredentialProvider> {
        let mut builder = self.builder();
        let settings = [
            (AmazonS3ConfigKey::ContainerCredentialsRelativeUri, &self.container.relative_uri),
            (AmazonS3ConfigKey::ContainerCredentialsFullUri, &self.container.full_uri),
            (AmazonS3ConfigKey::ContainerAuthorizationTokenFile, &self.container.token_file),
        ];
        for (key, value) in settings {
            if let Some(value) = value {
                builder = builder.with_config(key, value);
            }
        }
        self.built(builder)
    }

    fn assume_role(&self, role: &Role, base: AwsCredentialProvider) -> Result<AwsCredentialProvider> {
        let endpoint = self.sts();
        let options = self.options.clone().with_allow_http(endpoint.starts_with("http://"));
        let client = self.connector.connect(&options).map_err(|error| refused(self.site, &error))?;
        let region = self.region.to_owned();
        Ok(Arc::new(AssumeRole { role: role.clone(), base, client, endpoint, region, cached: None.into() }))
    }

    fn sts(&self) -> String {
        match self.sts_url {
            Some(url) => url.to_owned(),
            None => format!("https://sts.{}.{}", self.region, dns_suffix(self.region)),
        }
    }
}

/// Asks AWS for the bucket's region, as Velero does when none is configured. The region is in a header, even of an
/// error response.
async fn find_region(bucket: &str, options: &ClientOptions, connector: &Connector) -> Result<String> {
    if let Some(arn) = bucket.strip_prefix("arn:aws:s3:") {
        return Ok(arn.split(':').next().unwrap_or_default().to_owned());
    }
    let discreet = connector.guard.is_some();
    let site = Site { bucket: bucket.to_owned(), endpoint: "https://s3.amazonaws.com".into(), discreet };
    let client = connector.connect(options).map_err(|error| refused(&site, &error))?;
    let request = http::Request::head(format!("{}/{bucket}", site.endpoint))
        .body(object_store::client::HttpRequestBody::empty())
        .map_err(|_| Error::config("bucket", format!("'{bucket}' is not a bucket name")))?;
    let answered = tokio::time::timeout(REGION_DEADLINE, client.execute(request)).await.map_err(|_| {
        Error::Deadline {
            action: format!("finding the region of '{bucket}'"),
            seconds: REGION_DEADLINE.as_secs(),
        }
    })?;
    let region = match answered {
        Ok(response) => {
            response.headers().get("x-amz-bucket-region").and_then(|v| v.to_str().ok()).map(str::to_owned)
        }
        Err(error) => match find::<ErrorResponse>(&error) {
            Some(response) if response.status == http::StatusCode::NOT_FOUND => {
                return Err(Error::BucketNotFound { bucket: site.bucket, endpoint: site.endpoint });
            }
            Some(response) if response.region.is_some() => response.region.clone(),
            _ => return Err(classify(&site, Operation::new("find the region of", bucket), &error)),
        },
    };
    region.ok_or_else(|| Error::config("region", "AWS did not report the bucket's region; set it"))
}
