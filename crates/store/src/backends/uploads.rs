//! S3's list of unfinished multipart uploads: the one request that object_store cannot make. Google keeps such
//! uploads until a lifecycle rule removes them, Azure drops them after a week; this module covers neither.

use http::Method;
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpRequestBody};
use url::Url;

use crate::backend::UploadId;
use crate::error::{Error, ErrorResponse, Operation, Result, Site, classify, find, xml_text};
use crate::key::Key;

/// The most pages that are read before the server's list is considered endless.
const MOST_PAGES: usize = 1000;

/// Lists the uploads of one bucket.
pub(crate) struct OpenUploads {
    pub client: HttpClient,
    /// None for anonymous access.
    pub credentials: Option<AwsCredentialProvider>,
    pub region: String,
    /// The URL of the bucket, with its name in the host or in the path.
    pub bucket: Url,
}

impl OpenUploads {
    pub(crate) async fn list(&self, site: &Site, prefix: &str) -> Result<Vec<(Key, UploadId)>> {
        let mut found = Vec::new();
        let mut marker = None;
        for _ in 0..MOST_PAGES {
            let Some(page) = self.page(site, prefix, marker.as_ref()).await? else {
                return Ok(found);
            };
            for upload in page.uploads {
                if upload.0.starts_with(prefix) {
                    found.push((Key::new(upload.0)?, UploadId(upload.1)));
                }
            }
            if page.next.is_none() || page.next == marker {
                return Ok(found);
            }
            marker = page.next;
        }
        Err(Error::Listing { prefix: prefix.to_owned(), detail: "its list of uploads does not end".into() })
    }

    /// None if the server has no such list.
    async fn page(&self, site: &Site, prefix: &str, marker: Option<&Marker>) -> Result<Option<Page>> {
        let operation = Operation::new("list the uploads of", prefix);
        let mut url = self.bucket.clone();
        {
            // In alphabetical order, which the signature requires.
            let mut query = url.query_pairs_mut();
            query.clear();
            if let Some(marker) = marker {
                query.append_pair("key-marker", &marker.key);
            }
            query.append_pair("prefix", prefix);
            if let Some(marker) = marker {
                query.append_pair("upload-id-marker", &marker.upload);
            }
            query.append_pair("uploads", "");
        }
        let bad =
            |error: http::Error| Error::Other { action: "list uploads".into(), detail: error.to_string() };
        let request = http::Request::builder().method(Method::GET).uri(url.as_str());
        let mut request = request.body(HttpRequestBody::empty()).map_err(bad)?;
        if let Some(provider) = &self.credentials {
            let credential = provider.get_credential().await.map_err(|e| classify(site, operation, &e))?;
            AwsAuthorizer::new(&credential, "s3", &self.region)
                .try_authorize(&mut request, None)
                .map_err(|e| classify(site, operation, &e))?;
        }
        let response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => {
                return match find::<ErrorResponse>(&error) {
                    Some(response) if matches!(response.status.as_u16(), 405 | 501) => Ok(None),
                    _ => Err(classify(site, operation, &error)),
                };
            }
        };
        let body = response.into_body().bytes().await.map_err(|e| classify(site, operation, &e))?;
        Ok(Some(parse(&String::from_utf8_lossy(&body))))
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    /// Key and ID.
    uploads: Vec<(String, String)>,
    next: Option<Marker>,
}

/// Where the next page begins.
#[derive(Debug, PartialEq, Eq)]
struct Marker {
    key: String,
    upload: String,
}

fn parse(body: &str) -> Page {
    let uploads = body.split("<Upload>").skip(1).filter_map(|upload| {
        let upload = upload.split("</Upload>").next()?;
        Some((xml_text(upload, "Key")?, xml_text(upload, "UploadId")?))
    });
    let head = body.split("<Upload>").next().unwrap_or_default();
    let tail = body.rsplit("</Upload>").next().unwrap_or_default();
    let text = |name| xml_text(head, name).or_else(|| xml_text(tail, name));
    let next = (text("IsTruncated").as_deref() == Some("true")).then(|| Marker {
        key: text("NextKeyMarker").unwrap_or_default(),
        upload: text("NextUploadIdMarker").unwrap_or_default(),
    });
    Page { uploads: uploads.collect(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_uploads_is_read() {
        let page = parse(
            "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>b</NextKeyMarker>\
             <NextUploadIdMarker>2</NextUploadIdMarker><Upload><Key>a &amp; b</Key><UploadId>1</UploadId></Upload>\
             <Upload><UploadId>2</UploadId><Key>b</Key></Upload></ListMultipartUploadsResult>",
        );
        let pair = |key: &str, id: &str| (key.to_owned(), id.to_owned());
        assert_eq!(page.uploads, [pair("a & b", "1"), pair("b", "2")]);
        assert_eq!(page.next, Some(Marker { key: "b".into(), upload: "2".into() }));
        assert_eq!(parse("<html/>"), Page::default());
    }
}
