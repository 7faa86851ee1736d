//! Any bytes as a decrypted index file.
#![no_main]

use lifeboat_repository::testing::parse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parse::index(bytes));
