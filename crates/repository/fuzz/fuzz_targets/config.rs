//! Any bytes as the decrypted config.
#![no_main]

use lifeboat_repository::testing::parse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parse::config(bytes));
