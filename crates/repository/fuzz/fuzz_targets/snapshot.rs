//! Any bytes as a decrypted snapshot or lock, or a key.
#![no_main]

use lifeboat_repository::testing::parse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parse::snapshot(bytes));
