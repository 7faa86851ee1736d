//! Tests on what genuine Velero wrote (`golden/`), and of what it has to read.
#![allow(clippy::unwrap_used, clippy::panic)]

mod it {
    mod documents;
    mod golden;
    mod support;
}
