//! Whether a namespace admits a mover's pod: the answer of the API server to a dry run.

/// The answer to the dry run of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRun {
    Allowed,
    /// Not admitted, with the message of the API server or of a webhook.
    Refused(String),
    /// A webhook or policy of the cluster refuses dry runs as such, so nothing is known about the pod.
    DryRunsRefused,
}

/// What a refusal of dry runs as such names: `does not support dry run` if it is the API server's own, and whatever a webhook or policy says
/// that refuses each request with `dryRun`.
const DRY_RUN: [&str; 3] = ["dry run", "dry-run", "dryrun"];

/// Part of the API server's message if the server may not create pods at all; it says nothing about the pod.
const NOT_PERMITTED: &str = "cannot create resource";

/// Parts of the API server's messages about resources: quotas, the ranges of a LimitRange. Their admission plugins run
/// after those for permissions, so such a pod is admitted in every other respect.
const ABOUT_RESOURCES: [&str; 6] = [
    "exceeded quota",
    "failed quota",
    "insufficient quota",
    "usage per Container",
    "usage per Pod",
    "limit to request ratio",
];

/// Those of them about quotas that have no room now.
const USED_UP: [&str; 2] = ["exceeded quota", "insufficient quota"];

impl DryRun {
    /// Reads the refusal of a pod; None if the code is not one of a refusal.
    pub fn refused(code: u16, message: &str) -> Option<Self> {
        match code {
            403 if message.contains(NOT_PERMITTED) => None,
            400 | 403 | 422 if is_about_dry_runs(message) => Some(Self::DryRunsRefused),
            400 | 403 | 422 => Some(Self::Refused(message.to_owned())),
            _ => None,
        }
    }

    /// Whether the pod's permissions were refused, and not the resources that it asks for.
    pub fn refuses_permissions(&self) -> bool {
        match self {
            Self::Refused(message) => !ABOUT_RESOURCES.iter().any(|text| message.contains(text)),
            Self::Allowed | Self::DryRunsRefused => false,
        }
    }

    /// Why no pod with these resources is admitted, however long it is waited for: the ranges of a LimitRange, a quota that wants more to be
    /// set. A quota that is used up may have room later.
    pub fn never_admits_resources(&self) -> Option<&str> {
        match self {
            Self::Refused(message) if !self.refuses_permissions() && !self.requires_cpu_limit() => {
                let is_used_up = USED_UP.iter().any(|text| message.contains(text));
                (!is_used_up).then_some(message.as_str())
            }
            _ => None,
        }
    }

    /// Whether a quota requires that the pod limits its CPU.
    pub fn requires_cpu_limit(&self) -> bool {
        match self {
            Self::Refused(message) => message.contains("must specify") && message.contains("limits.cpu"),
            Self::Allowed | Self::DryRunsRefused => false,
        }
    }
}

fn is_about_dry_runs(message: &str) -> bool {
    let message = message.to_lowercase();
    DRY_RUN.iter().any(|text| message.contains(text))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const POD_SECURITY: &str =
        "pods \"mover-x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true";
    const WEBHOOK: &str = "admission webhook \"validate.kyverno.svc\" denied the request: no root";
    const NO_LIMIT: &str =
        "pods \"mover-x\" is forbidden: failed quota: team: must specify limits.cpu for: mover";
    const QUOTA: &str = "pods \"mover-x\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=9, limited: pods=9";
    const RANGE: &str =
        "pods \"mover-x\" is forbidden: maximum memory usage per Container is 512Mi, but limit is 1Gi";

    const MORE: &str =
        "pods \"mover-x\" is forbidden: failed quota: team: must specify limits.ephemeral-storage for: mover";

    #[rstest]
    #[case::pod_security(POD_SECURITY, false)]
    #[case::quota_that_wants_a_limit_for_cpu(NO_LIMIT, false)]
    #[case::quota_that_is_used_up(QUOTA, false)]
    #[case::limit_range(RANGE, true)]
    #[case::quota_that_wants_something_else(MORE, true)]
    fn waiting_does_not_help_where_the_resources_never_fit(#[case] message: &str, #[case] expected: bool) {
        let refused = DryRun::refused(403, message).unwrap();
        assert_eq!(refused.never_admits_resources(), expected.then_some(message));
        assert_eq!(DryRun::Allowed.never_admits_resources(), None);
    }

    #[rstest]
    #[case::pod_security(403, POD_SECURITY, true, false)]
    #[case::policy(403, WEBHOOK, true, false)]
    #[case::policy_that_answers_400(400, WEBHOOK, true, false)]
    #[case::quota_that_wants_a_limit(403, NO_LIMIT, false, true)]
    #[case::quota_that_is_used_up(403, QUOTA, false, false)]
    #[case::limit_range(403, RANGE, false, false)]
    fn a_refusal_is_about_permissions_or_about_resources(
        #[case] code: u16,
        #[case] message: &str,
        #[case] permissions: bool,
        #[case] cpu_limit: bool,
    ) {
        let refused = DryRun::refused(code, message).unwrap();
        assert_eq!(refused, DryRun::Refused(message.to_owned()));
        assert_eq!((refused.refuses_permissions(), refused.requires_cpu_limit()), (permissions, cpu_limit));
    }

    #[rstest]
    #[case::by_the_api_server(400, "admission webhook \"inject.mesh.io\" does not support dry run")]
    #[case::by_a_webhook(403, "admission webhook \"audit.example\" denied the request: no Dry-Run here")]
    #[case::by_a_policy(
        422,
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: dryRun is not allowed"
    )]
    fn a_webhook_or_policy_without_dry_runs_is_no_refusal_of_the_pod(
        #[case] code: u16,
        #[case] message: &str,
    ) {
        assert_eq!(DryRun::refused(code, message), Some(DryRun::DryRunsRefused));
        assert_eq!(DryRun::refused(500, message), None);
    }
}
