//! The gateway as a user of a mover's namespace reaches it: with the token in the mover's Secret, which that user can read.

use std::collections::BTreeMap;

use lifeboat_e2e::{Program, StashTest, wait_for};
use serde_json::Value;

/// A token, where it is good, and for what.
#[derive(Clone)]
pub(crate) struct Token {
    origin: String,
    repository: String,
    /// Claims and seal.
    sealed: String,
}

impl Token {
    /// The token of the mover that is at work in a namespace, which must be the only one. Its Secret is missing for a moment while the
    /// server replaces it for another attempt.
    pub(crate) fn of(test: &StashTest) -> Self {
        wait_for(&format!("a Secret of namespace {} with a token", test.tenant.name), 60, || {
            let secrets = texts_by_secret(test);
            let found = secrets.values().find_map(|texts| Self::among(texts));
            found.ok_or_else(|| seen(&secrets))
        })
    }

    /// The token among the values of one Secret: it is a value of its own, and the address is in the task.
    fn among(texts: &[String]) -> Option<Self> {
        let (sealed, repository) = texts.iter().find_map(|text| token_in(text))?;
        let origin = texts.iter().find_map(|text| origin_in(text))?;
        Some(Self { origin, repository, sealed })
    }

    /// The path of its repository.
    pub(crate) fn repository(&self) -> &str {
        &self.repository
    }

    /// The same claims under a seal that is not the server's.
    pub(crate) fn altered(&self) -> Self {
        let (claims, seal) = self.sealed.split_once('.').unwrap();
        let sealed = format!("{claims}.{}", seal.chars().rev().collect::<String>());
        Self { sealed, ..self.clone() }
    }

    /// No token at all.
    pub(crate) fn none(of: &Self) -> Self {
        Self { sealed: String::new(), ..of.clone() }
    }

    /// The status of the answer to a GET.
    pub(crate) fn get(&self, path: &str) -> u16 {
        self.send("GET", path)
    }

    /// The status of the answer to a request, whose body is short.
    pub(crate) fn send(&self, method: &str, path: &str) -> u16 {
        let body: &[&str] = if method == "POST" { &["--data-binary", "x"] } else { &[] };
        let user = if self.sealed.is_empty() {
            String::new()
        } else {
            format!("user = \"mover:{}\"\n", self.sealed)
        };
        let status = Program::new("curl")
            .args(["--silent", "--show-error", "--insecure", "--path-as-is", "--max-time", "20"])
            .args([
                "--output",
                "/dev/null",
                "--write-out",
                "%{http_code}",
                "--request",
                method,
                "--config",
                "-",
            ])
            .args(body)
            .arg(&format!("{}{path}", self.origin))
            .input(&user)
            .ok();
        status.parse().unwrap_or_else(|_| panic!("{method} {path}: {status:?}"))
    }
}

/// The decoded values of each Secret of the namespace.
fn texts_by_secret(test: &StashTest) -> BTreeMap<String, Vec<String>> {
    let mut secrets: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (secret, text) in test.decoded_secrets() {
        secrets.entry(secret).or_default().push(text);
    }
    secrets
}

/// Which Secrets there are, and which of their values are a token or have an address, without the values.
fn seen(secrets: &BTreeMap<String, Vec<String>>) -> String {
    let shown = secrets.iter().map(|(name, texts)| {
        let tokens = texts.iter().filter(|text| token_in(text).is_some()).count();
        let addresses = texts.iter().filter(|text| origin_in(text).is_some()).count();
        format!("{name} with {} values, {tokens} tokens, {addresses} addresses", texts.len())
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "there is no Secret".to_owned() } else { shown.join("; ") }
}

/// A token in a text, and the repository that its claims name.
fn token_in(text: &str) -> Option<(String, String)> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)));
    words.into_iter().find_map(|word| {
        let (claims, seal) = word.split_once('.')?;
        if claims.len() < 40 || seal.is_empty() {
            return None;
        }
        let claims: Value = serde_json::from_str(&decoded(claims)).ok()?;
        Some((word.to_owned(), format!("/{}", claims["repository"].as_str()?)))
    })
}

/// Scheme, host and port of the first URL in a text.
fn origin_in(text: &str) -> Option<String> {
    let from = &text[text.find("https://")?..];
    let end =
        from["https://".len()..].find(['/', '"', '\\', '\n']).map_or(from.len(), |at| at + "https://".len());
    let url = &from[..end];
    // A user in it is not part of the address.
    let host = url.rsplit('@').next()?;
    Some(if url.contains('@') { format!("https://{host}") } else { url.to_owned() })
}

/// Text in base64 for URLs, without padding.
fn decoded(text: &str) -> String {
    let standard = text.replace('-', "+").replace('_', "/");
    let padding = "=".repeat((4 - standard.len() % 4) % 4);
    Program::new("base64").arg("-d").input(&format!("{standard}{padding}")).run().stdout
}
