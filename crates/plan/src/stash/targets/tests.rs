//! Objects for the tests of `targets`.
