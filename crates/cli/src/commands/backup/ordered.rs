//! The value of `--ordered-resources`: `TYPE=ns/name,ns/name;TYPE=name`, parsed by `plan::order`.

use std::collections::BTreeMap;
use std::str::FromStr;

use lifeboat_plan::order::{OrderTextError, parse_ordered_resources};

/// The order in the form of the spec: for each type a list of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderedArg(pub(crate) BTreeMap<String, String>);

impl FromStr for OrderedArg {
    type Err = OrderTextError;

    fn from_str(text: &str) -> Result<Self, OrderTextError> {
        Ok(Self(parse_ordered_resources(text)?.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::of_the_design("pod=ns1/pod1,ns1/pod2;persistentvolumeclaim=n2/slavepod,ns2/primarypod",
        &[("pod", "ns1/pod1,ns1/pod2"), ("persistentvolumeclaim", "n2/slavepod,ns2/primarypod")])]
    #[case::blanks_around("pods= ns1/p1,ns1/p2 ; persistentvolumes=pv1,pv2",
        &[("pods", "ns1/p1,ns1/p2"), ("persistentvolumes", "pv1,pv2")])]
    #[case::last_of_a_type_counts("pods=a/b;pods=a/c", &[("pods", "a/c")])]
    #[case::empty_list("pods=", &[("pods", "")])]
    #[case::empty_key("=x", &[("", "x")])]
    #[case::nothing("", &[])]
    fn order_is_read(#[case] text: &str, #[case] expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|&(kind, names)| (kind.to_owned(), names.to_owned())).collect();
        assert_eq!(text.parse(), Ok(OrderedArg(expected)));
    }

    #[rstest]
    #[case::semicolon_between_names(
        "pods= ns1/p1; ns1/p2; persistentvolumeclaims=ns2/pvc1, ns2/pvc2",
        "' ns1/p2'"
    )]
    #[case::trailing_semicolon("pods=a/b;", "''")]
    #[case::two_equals("a==b", "'a==b'")]
    #[case::no_type("ns1/p1", "'ns1/p1'")]
    fn malformed_order_is_refused_with_the_part_that_is_wrong(#[case] text: &str, #[case] part: &str) {
        assert!(text.parse::<OrderedArg>().unwrap_err().to_string().contains(part));
    }
}
