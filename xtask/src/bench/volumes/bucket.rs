//! The prefix in the box's bucket that a run uses: counts the bytes below a prefix, and deletes everything when it is
//! dropped. Sends S3 requests with curl, which gets the credentials on its standard input.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

pub(in crate::bench) struct Bucket {
    url: String,
    access: String,
    prefix: String,
}

/// One page of a listing.
#[derive(Debug, Default, PartialEq)]
struct Listing {
    objects: Vec<(String, u64)>,
    more: bool,
}

impl Bucket {
    pub(in crate::bench) fn new(environment: &BTreeMap<String, String>, prefix: String) -> Self {
        let url = format!("{}/lifeboat", environment["LIFEBOAT_S3_ENDPOINT"]);
        let access = format!(
            "user = \"{}:{}\"\naws-sigv4 = \"aws:amz:{}:s3\"\n",
            environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], environment["AWS_REGION"]
        );
        Self { url, access, prefix }
    }

    /// The prefix in the bucket for the data of a product.
    pub(in crate::bench) fn prefix(&self, product: &str) -> String {
        format!("{}/{product}", self.prefix)
    }

    /// The prefix of a product in restic's syntax.
    pub(in crate::bench) fn restic(&self, product: &str) -> String {
        format!("s3:{}/{}", self.url, self.prefix(product))
    }

    /// Bytes of all objects of a product.
    pub(in crate::bench) fn size(&self, product: &str) -> Result<u64> {
        Ok(self.objects(&format!("{}/", self.prefix(product)))?.iter().map(|(_, size)| size).sum())
    }

    fn objects(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            // The signature covers the query as it is written here: sorted, with every slash encoded.
            let query = format!("list-type=2&max-keys=1000&prefix={}{after}", encoded(prefix));
            let config = format!("{}url = \"{}?{query}\"\n", self.access, self.url);
            let text = run::with_input(&mut curl(), &config).context("cannot list the bucket")?;
            let Listing { objects, more } = parse(&text);
            all.extend(objects);
            let Some((last, _)) = all.last().filter(|_| more) else { return Ok(all) };
            after = format!("&start-after={}", encoded(last));
        }
    }

    /// Removes all objects of a product.
    pub(in crate::bench) fn clear(&self, product: &str) -> Result<()> {
        self.remove(&format!("{}/", self.prefix(product)))
    }

    fn remove(&self, prefix: &str) -> Result<()> {
        let objects = self.objects(prefix)?;
        let request = |(key, _): &(String, u64)| {
            format!("{}request = \"DELETE\"\nurl = \"{}/{key}\"\n", self.access, self.url)
        };
        let requests: Vec<String> = objects.iter().map(request).collect();
        if requests.is_empty() {
            return Ok(());
        }
        run::with_input(&mut curl(), &requests.join("next\nsilent\nshow-error\nfail\n")).map(drop)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Err(error) = self.remove(&format!("{}/", self.prefix)) {
            eprintln!("cannot remove {} from the bucket: {error:#}", self.prefix);
        }
    }
}

fn curl() -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--config", "-"]);
    command
}

fn encoded(text: &str) -> String {
    text.replace('/', "%2F")
}

/// Parses the response to ListObjectsV2.
fn parse(xml: &str) -> Listing {
    let field = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0.to_owned())
    };
    let object = |text: &str| Some((field(text, "Key")?, field(text, "Size")?.parse().ok()?));
    Listing {
        objects: xml.split("<Contents>").skip(1).filter_map(object).collect(),
        more: field(xml, "IsTruncated").is_some_and(|value| value == "true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_tells_names_sizes_and_whether_there_is_more() {
        let xml = "<ListBucketResult><Name>b</Name><IsTruncated>true</IsTruncated><Contents><Key>a/1</Key>\
                   <ETag>x</ETag><Size>27</Size></Contents><Contents><Key>a/2</Key><Size>3</Size></Contents>\
                   </ListBucketResult>";
        let objects = vec![("a/1".to_owned(), 27), ("a/2".to_owned(), 3)];
        assert_eq!(parse(xml), Listing { objects, more: true });
        assert_eq!(parse("<ListBucketResult></ListBucketResult>"), Listing::default());
    }
}
