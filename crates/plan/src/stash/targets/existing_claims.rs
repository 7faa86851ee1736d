//! Claims that exist already where a restore names them in `volumeClaimTemplates`. They are used as they are: what they lack of what their
//! template asks for is remarked, because the application may not start on them, and the data may not fit.

use std::fmt;

use serde_json::Value;

use crate::json::text;
use crate::quantity::Quantity;

const ASKED_SIZE: &str = "/spec/resources/requests/storage";
const BOUND_SIZE: &str = "/status/capacity/storage";
const READ_WRITE_MANY: &str = "ReadWriteMany";
/// The access modes that a claim with ReadWriteMany allows as well.
const WITHIN_MANY: [&str; 2] = ["ReadWriteOnce", "ReadOnlyMany"];

/// A difference between a claim and its template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRemark {
    pub claim: String,
    /// The field of the claim.
    pub field: &'static str,
    pub found: String,
    /// As the template has it.
    pub expected: String,
}

impl fmt::Display for ClaimRemark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claim, field, found, expected } = self;
        write!(
            formatter,
            "PersistentVolumeClaim {claim} exists already and is used as it is: {field} is {found}, expected {expected}"
        )
    }
}

/// What an existing claim lacks. `asked`: the claim that its template describes.
pub(super) fn remarks(name: &str, existing: &Value, asked: &Value) -> Vec<ClaimRemark> {
    size(name, existing, asked).into_iter().chain(access_modes(name, existing, asked)).collect()
}

fn size(name: &str, existing: &Value, asked: &Value) -> Option<ClaimRemark> {
    let expected = text(asked, ASKED_SIZE);
    // A claim that has no volume yet has no capacity.
    let (field, found) = match text(existing, BOUND_SIZE) {
        "" => ("spec.resources.requests.storage", text(existing, ASKED_SIZE)),
        found => ("status.capacity.storage", found),
    };
    let is_smaller = Quantity::parse(found)? < Quantity::parse(expected)?;
    is_smaller.then(|| ClaimRemark {
        claim: name.to_owned(),
        field,
        found: found.to_owned(),
        expected: format!("at least {expected}"),
    })
}

fn access_modes(name: &str, existing: &Value, asked: &Value) -> Option<ClaimRemark> {
    let found = modes(existing);
    let has = |mode: &&str| {
        found.contains(mode) || (found.contains(&READ_WRITE_MANY) && WITHIN_MANY.contains(mode))
    };
    let lacking: Vec<&str> = modes(asked).into_iter().filter(|mode| !has(mode)).collect();
    (!lacking.is_empty()).then(|| ClaimRemark {
        claim: name.to_owned(),
        field: "spec.accessModes",
        found: if found.is_empty() { "empty".to_owned() } else { found.join(", ") },
        expected: lacking.join(", "),
    })
}

fn modes(claim: &Value) -> Vec<&str> {
    let modes = claim.pointer("/spec/accessModes").and_then(Value::as_array);
    modes.into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn claim(size: &str, modes: &[&str]) -> Value {
        json!({"spec": {"accessModes": modes, "resources": {"requests": {"storage": size}}}})
    }

    fn bound(capacity: &str) -> Value {
        let mut claim = claim("1Gi", &["ReadWriteOnce"]);
        claim["status"]["capacity"]["storage"] = json!(capacity);
        claim
    }

    #[rstest]
    #[case::as_asked(claim("2Gi", &["ReadWriteOnce"]), &[])]
    #[case::larger(bound("5Gi"), &[])]
    #[case::smaller(bound("1Gi"), &["status.capacity.storage is 1Gi, expected at least 2Gi"])]
    #[case::smaller_without_a_volume(claim("500Mi", &["ReadWriteOnce"]), &["spec.resources.requests.storage is 500Mi, expected at least 2Gi"])]
    #[case::another_unit(claim("2048Mi", &["ReadWriteOnce"]), &[])]
    #[case::another_mode(claim("2Gi", &["ReadOnlyMany"]), &["spec.accessModes is ReadOnlyMany, expected ReadWriteOnce"])]
    #[case::a_mode_that_allows_more(claim("2Gi", &["ReadWriteMany"]), &[])]
    #[case::both(claim("1Gi", &[]), &["expected at least 2Gi", "spec.accessModes is empty, expected ReadWriteOnce"])]
    fn what_an_existing_claim_lacks_is_remarked(#[case] existing: Value, #[case] expected: &[&str]) {
        let found = remarks("data-0", &existing, &claim("2Gi", &["ReadWriteOnce"]));
        let found: Vec<String> = found.iter().map(ClaimRemark::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                found.starts_with("PersistentVolumeClaim data-0 ") && found.contains(expected),
                "{found}"
            );
        }
    }

    #[test]
    fn a_template_that_asks_for_nothing_has_no_remarks() {
        assert_eq!(remarks("data-0", &bound("1Gi"), &json!({"spec": {}})), Vec::new());
    }
}
