//! Any input gives a result or an error, never a panic.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Any bytes as an archive give a result or an error, never a panic, and never a name that leads out of the
    /// archive.
    #[test]
    fn any_damage_gives_a_result_or_an_error(
        at in 0_usize..4096,
        noise in proptest::collection::vec(any::<u8>(), 1..40),
        compressed in any::<bool>(),
        piece in 1_usize..600,
    ) {
        let mut out = plain(&[("metadata/version", b"1.1.0\n"), (POD, &pod()), (&format!("resources/a/cluster/{}.json", "y".repeat(240)), b"{}")]);
        written::end(&mut out);
        let mut stored = if compressed { out } else { compress(&out).unwrap().to_vec() };
        let at = at % stored.len();
        let end = (at + noise.len()).min(stored.len());
        stored[at..end].copy_from_slice(&noise[..end - at]);
        if compressed {
            stored = compress(&stored).unwrap().to_vec();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let result = runtime.block_on(Spool::read(reading(&stored, piece), directory.path(), SpoolLimits::default()));
        if let Ok(spool) = result {
            for item in spool.items() {
                prop_assert!(!item.name().contains('/') && item.name() != "..");
            }
        }
    }

    #[test]
    fn any_name_is_refused_or_has_its_parts_in_place(name in "[a-z./]{0,40}|resources/[a-z.]{1,5}/[a-z/.]{1,20}json") {
        if let Ok(names::Entry::Item { id, .. }) = names::parse(&name) {
            prop_assert!(name.starts_with("resources/"));
            let file = format!("/{}.json", id.path());
            prop_assert!(name.ends_with(&file));
            for part in [&id.name, &id.resource.resource] {
                prop_assert!(!part.is_empty() && !part.contains('/'));
            }
        }
    }
}
