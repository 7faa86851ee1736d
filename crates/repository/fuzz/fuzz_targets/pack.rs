//! Any bytes as a pack, its header and a blob of it.
#![no_main]

use lifeboat_repository::testing::parse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parse::pack(bytes));
