//! Decides which server serves a namespace: takes the label of the namespace and the flags of the server, gives
//! whether the server acts on the objects in the namespace. Called by the server, and by `lifeboat uninstall`, which
//! removes the finalizers of objects that no server serves any more.

use crate::install::STASH_BY_DEFAULT;

/// The label of a namespace that gives it to the server of this name.
pub const SERVED_BY: &str = "lifeboat.io/served-by";

/// The settings of a server, from its flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// `--served-by`: the name of the server. One without a name serves namespaces without the label.
    pub own: Option<String>,
    /// `--tenant-namespaces`; empty for all.
    pub tenants: Vec<String>,
}

impl Served {
    /// From the arguments of `lifeboat server`; None if it does not serve Stash's API. As there, the last one of a kind counts.
    pub fn of_args<'a>(args: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let (mut served, mut is_on) = (Self::default(), STASH_BY_DEFAULT);
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let (flag, value) = match arg.split_once('=') {
                Some((flag, value)) => (flag, value),
                None if ["--served-by", "--tenant-namespaces"].contains(&arg) => {
                    (arg, args.next().unwrap_or_default())
                }
                None => (arg, ""),
            };
            let flag = if flag == "--experimental-stash" { "--stash" } else { flag };
            match flag {
                "--stash" => is_on = value != "false",
                "--served-by" => served.own = Some(value.to_owned()).filter(|name| !name.is_empty()),
                "--tenant-namespaces" => served.tenants = value.split(',').map(str::to_owned).collect(),
                _ => {}
            }
        }
        is_on.then_some(served)
    }

    /// Whether the server may serve a namespace, whatever its label says.
    pub fn may_serve(&self, namespace: &str) -> bool {
        self.tenants.is_empty() || self.tenants.iter().any(|tenant| tenant == namespace)
    }

    /// Whether a namespace with this label belongs to the server. An empty label is none.
    pub fn is_own(&self, label: Option<&str>) -> bool {
        label.filter(|label| !label.is_empty()) == self.own.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::unnamed_takes_unlabelled("", None, true)]
    #[case::unnamed_takes_empty("", Some(""), true)]
    #[case::unnamed_leaves_labelled("", Some("test-1"), false)]
    #[case::named_takes_its_own("--served-by=test-1", Some("test-1"), true)]
    #[case::named_leaves_unlabelled("--served-by=test-1", None, false)]
    #[case::named_leaves_others("--served-by=test-1", Some("test-10"), false)]
    #[case::name_in_two_words("--served-by test-1", Some("test-1"), true)]
    #[case::last_name("--served-by=test-1 --served-by=test-2", Some("test-2"), true)]
    #[case::empty_name("--served-by=", None, true)]
    #[case::one_of_the_listed("--tenant-namespaces=bank,shop", None, true)]
    #[case::not_listed("--tenant-namespaces=bank", None, false)]
    #[case::a_part_of_a_listed_name("--tenant-namespaces shop-2", None, false)]
    #[case::last_list("--tenant-namespaces=shop --tenant-namespaces=bank", None, false)]
    #[case::listed_and_given_to_another("--tenant-namespaces=shop", Some("test-1"), false)]
    #[case::listed_and_its_own("--log-level=debug --tenant-namespaces=shop --served-by=a", Some("a"), true)]
    fn a_namespace_has_one_server(#[case] args: &str, #[case] label: Option<&str>, #[case] expected: bool) {
        let served = Served::of_args(args.split(' ').chain(["--stash=true"])).unwrap();
        assert_eq!(served.may_serve("shop") && served.is_own(label), expected, "{served:?}");
    }

    #[rstest]
    #[case::by_default("--served-by=a", STASH_BY_DEFAULT)]
    #[case::told("--stash=true", true)]
    #[case::told_in_short("--stash", true)]
    #[case::told_not_to("--stash=false", false)]
    #[case::by_its_old_name("--stash=false --experimental-stash", true)]
    #[case::taken_back("--stash=true --served-by=a --stash=false", false)]
    fn the_last_flag_decides_whether_a_server_serves_the_api(#[case] args: &str, #[case] expected: bool) {
        assert_eq!(Served::of_args(args.split(' ')).is_some(), expected);
    }
}
