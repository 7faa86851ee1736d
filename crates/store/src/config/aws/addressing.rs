//! How a bucket is addressed: with its name in the host (AWS's way and Velero's default) or in the path. Follows the
//! AWS SDK that Velero uses: buckets whose names cannot be part of a host name, and endpoints that are IP addresses,
//! are always addressed by path.

use url::{Host, Url};

use crate::error::{Error, Result};

/// An endpoint in the form that object_store takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Includes the bucket if `virtual_hosted`.
    pub endpoint: String,
    pub virtual_hosted: bool,
    /// The endpoint without the bucket, for messages.
    pub shown: String,
}

impl Address {
    pub(crate) fn new(bucket: &str, region: &str, url: Option<&Url>, path_style: bool) -> Result<Self> {
        if bucket.starts_with("arn:") {
            return access_point(bucket, url);
        }
        let Some(url) = url else {
            let shown = format!("https://s3.{region}.{}", dns_suffix(region));
            // With a dot in the bucket's name, the host does not match the wildcard in AWS's certificate.
            if path_style || !fits_host(bucket) || bucket.contains('.') {
                return Ok(Self { endpoint: shown.clone(), virtual_hosted: false, shown });
            }
            let endpoint = format!("https://{bucket}.s3.{region}.{}", dns_suffix(region));
            return Ok(Self { endpoint, virtual_hosted: true, shown });
        };
        let shown = url.as_str().trim_end_matches('/').to_owned();
        let named = matches!(url.host(), Some(Host::Domain(_)));
        let dotted = bucket.contains('.') && url.scheme() == "https";
        if path_style || !named || dotted || !fits_host(bucket) {
            return Ok(Self { endpoint: shown.clone(), virtual_hosted: false, shown });
        }
        let mut hosted = url.clone();
        let host = format!("{bucket}.{}", url.host_str().unwrap_or_default());
        hosted.set_host(Some(&host)).map_err(|_| {
            Error::config("s3Url", format!("'{host}' is not a host name; set s3ForcePathStyle to 'true'"))
        })?;
        let endpoint = hosted.as_str().trim_end_matches('/').to_owned();
        Ok(Self { endpoint, virtual_hosted: true, shown })
    }
}

impl Address {
    /// The URL of the bucket itself.
    pub(crate) fn bucket_url(&self, bucket: &str) -> Result<Url> {
        let text = if self.virtual_hosted {
            format!("{}/", self.endpoint)
        } else {
            format!("{}/{bucket}", self.endpoint)
        };
        Url::parse(&text).map_err(|_| Error::config("s3Url", format!("'{text}' is not a URL")))
    }
}

/// `arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME`.
fn access_point(arn: &str, url: Option<&Url>) -> Result<Address> {
    let expected = || Error::ConfigValue {
        key: "bucket".into(),
        value: arn.into(),
        expected: "a bucket's name or 'arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME'".into(),
    };
    if url.is_some() {
        return Err(Error::config("s3Url", "it cannot be used together with an access point"));
    }
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let [_, _, "s3", region, account, resource] = parts.as_slice() else {
        return Err(expected());
    };
    let name = resource.strip_prefix("accesspoint/").or_else(|| resource.strip_prefix("accesspoint:"));
    match name {
        Some(name) if !region.is_empty() && !account.is_empty() && fits_host(name) => {
            let host = format!("s3-accesspoint.{region}.{}", dns_suffix(region));
            let endpoint = format!("https://{name}-{account}.{host}");
            Ok(Address { endpoint, virtual_hosted: true, shown: format!("https://{host}") })
        }
        // Without a region it is a multi-region access point, which needs signature version 4A.
        _ => Err(expected()),
    }
}

pub(crate) fn dns_suffix(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

fn fits_host(bucket: &str) -> bool {
    (3..=63).contains(&bucket.len())
        && bucket.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
        && bucket.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bucket.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric())
        && !bucket.contains("..")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::aws("bkt", "eu-west-1", None, false, "https://bkt.s3.eu-west-1.amazonaws.com", true)]
    #[case::china("bkt", "cn-north-1", None, false, "https://bkt.s3.cn-north-1.amazonaws.com.cn", true)]
    #[case::forced("bkt", "eu-west-1", None, true, "https://s3.eu-west-1.amazonaws.com", false)]
    #[case::dotted("b.kt", "eu-west-1", None, false, "https://s3.eu-west-1.amazonaws.com", false)]
    #[case::upper("Bucket", "eu-west-1", None, false, "https://s3.eu-west-1.amazonaws.com", false)]
    #[case::minio_path("bkt", "r", Some("http://minio:9000/"), true, "http://minio:9000", false)]
    #[case::minio_host("bkt", "r", Some("http://minio:9000"), false, "http://bkt.minio:9000", true)]
    #[case::ip("bkt", "r", Some("https://10.0.0.1:9000"), false, "https://10.0.0.1:9000", false)]
    #[case::ipv6("bkt", "r", Some("https://[::1]:9000"), false, "https://[::1]:9000", false)]
    #[case::with_path("bkt", "r", Some("https://gate/s3/"), true, "https://gate/s3", false)]
    #[case::access_point(
        "arn:aws:s3:eu-west-1:123:accesspoint/ap1",
        "eu-west-1",
        None,
        false,
        "https://ap1-123.s3-accesspoint.eu-west-1.amazonaws.com",
        true
    )]
    fn a_bucket_is_addressed(
        #[case] bucket: &str,
        #[case] region: &str,
        #[case] url: Option<&str>,
        #[case] path_style: bool,
        #[case] endpoint: &str,
        #[case] virtual_hosted: bool,
    ) {
        let url = url.map(|url| Url::parse(url).unwrap());
        let address = Address::new(bucket, region, url.as_ref(), path_style).unwrap();
        assert_eq!((address.endpoint.as_str(), address.virtual_hosted), (endpoint, virtual_hosted));
    }

    #[rstest]
    #[case::multi_region("arn:aws:s3::123:accesspoint/ap1.mrap")]
    #[case::no_access_point("arn:aws:s3:::bucket")]
    fn other_arns_are_refused(#[case] arn: &str) {
        assert!(Address::new(arn, "eu-west-1", None, false).is_err());
    }
}
