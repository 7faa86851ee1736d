//! Any bytes as a decrypted tree.
#![no_main]

use lifeboat_repository::testing::parse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parse::tree(bytes));
