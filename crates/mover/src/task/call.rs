//! A call of a service: an HTTP request or a TCP connection, as hooks describe them. It is made by a mover in the
//! user's namespace, so that it reaches what the user's own pods reach and nothing else.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A call and its time limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallWork {
    pub call: Call,
    /// The limit for connecting and for the response; at least one second.
    pub timeout_seconds: u64,
}

/// The service that is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Call {
    /// An HTTP request. It succeeds if the response has a status from 200 to 399; redirects are not followed.
    #[serde(rename_all = "camelCase")]
    Http {
        method: Method,
        /// `http://` or `https://`.
        url: String,
        /// Names may be repeated.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<Header>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
        /// The fields of a form, instead of a body.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        form: Vec<FormField>,
        /// Certificates (PEM) of authorities that are trusted in addition to the system's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
        /// Accept any certificate, as probes of Kubernetes do.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        skip_verify: bool,
    },
    /// A TCP connection, which must be accepted.
    Tcp { host: String, port: u16 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Post,
}

/// A header of a request. The value may be a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    pub name: String,
    pub value: String,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FormField {
    pub name: String,
    pub values: Vec<String>,
}
