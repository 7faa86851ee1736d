//! Tests that need the box, by name: on a cluster that the user named they are skipped, and each is printed. Called by
//! `part`.

/// A test and what it needs that a named cluster lacks.
pub(crate) type Left = (&'static str, &'static str);

/// In crates/store/tests/s3.rs.
pub(crate) const STORAGE: [Left; 6] = [
    ("s3_conforms::case_2_tls", TLS),
    ("a_good_location_is_found_good::case_2_tls", TLS),
    ("without_the_authority_tls_is_refused", TLS),
    ("the_wrong_scheme_is_named", TLS),
    ("settings_of_uploads_are_accepted", TLS),
    ("what_a_customer_key_encrypts_is_read_with_it_only", TLS),
];

/// In e2e/tests.
pub(crate) const E2E: [Left; 13] = [
    ("a_good_location_is_available_over_http_and_tls", TLS),
    ("an_untrusted_certificate_is_said_to_be_untrusted", TLS),
    ("a_location_made_over_tls_with_its_authority_becomes_available", TLS),
    ("tls_without_the_authority_is_unavailable_because_of_the_certificate", TLS),
    ("set_without_cacert_erases_the_authority_and_the_location_says_so", TLS),
    (
        "a_leader_that_hangs_loses_its_lease_and_does_not_lead_when_it_wakes_up",
        "the server's process on this machine",
    ),
    ("the_server_recovers_by_itself_from_a_restart_of_the_api_server", "an API server that may be stopped"),
    ("veleros_plugin_for_s3_stores_a_whole_backup_over_tls", PLUGINS),
    ("plugins_are_added_listed_and_removed_by_both_command_lines", PLUGINS),
    ("an_image_that_does_not_exist_is_named_and_the_old_server_goes_on", PLUGINS),
    ("an_application_is_restored_when_its_database_answers", PLUGINS),
    ("the_image_is_under_40_megabytes", IMAGE),
    ("the_binary_needs_no_library_of_the_system", IMAGE),
];

const TLS: &str = "the box's S3 server over TLS";
const IMAGE: &str = "the image's archive";
const PLUGINS: &str = "images of plugins that are loaded into the box";

/// Skipped tests.
#[derive(Clone, Copy, Default)]
pub(crate) struct LeftOut(&'static [Left]);

impl LeftOut {
    pub(crate) fn skips(self, test: &str) -> bool {
        self.0.iter().any(|(name, _)| test.contains(name))
    }
}

/// Skips these tests; prints which and why.
pub(crate) fn leave_out(tests: &'static [Left]) -> LeftOut {
    for (name, needs) in tests {
        println!("skipped, needs {needs}: {name}");
    }
    LeftOut(tests)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn sources(directory: &Path) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(directory).expect("the tests are here").flatten() {
            let path = entry.path();
            text += &if path.is_dir() { sources(&path) } else { fs::read_to_string(&path).expect("text") };
        }
        text
    }

    fn assert_known(tests: &[Left], directory: &str) {
        let text = sources(&crate::run::checkout().join(directory));
        for (name, _) in tests {
            let function = name.split("::").next().unwrap_or(name);
            assert!(text.contains(&format!("fn {function}(")), "{name} is no test in {directory} any more");
        }
    }

    #[test]
    fn every_name_is_that_of_a_test() {
        assert_known(&E2E, "e2e/tests");
        assert_known(&STORAGE, "crates/store/tests");
    }

    #[test]
    fn each_test_is_left_out_by_its_name() {
        let left_out = leave_out(&[("slow", "time"), ("big", "room")]);
        assert!(left_out.skips("module::slow") && left_out.skips("module::big::case_1"));
        assert!(!left_out.skips("module::small") && !LeftOut::default().skips("module::slow"));
    }
}
