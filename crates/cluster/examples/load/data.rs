//! The data sets: which types, which namespaces, how many objects of each. The same number always gives the same
//! objects.

use crate::error::Result;
use crate::types::{CONFIG, DEFINITIONS, Type, custom, mixed};

/// The label of every object and namespace.
pub(crate) const LABEL: &str = "bench.lifeboat.io/data";
const NAMESPACES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// ConfigMaps and Secrets of 1.5 kB.
    Config,
    /// 40 types.
    Mixed,
}

/// One object to create.
pub(crate) struct Planned {
    pub(crate) kind: Type,
    pub(crate) number: usize,
    pub(crate) namespace: Option<String>,
}

impl Data {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        match name {
            "config" => Ok(Self::Config),
            "mixed" => Ok(Self::Mixed),
            other => Err(format!("{other:?} is not a data set; use config or mixed").into()),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Mixed => "mixed",
        }
    }

    pub(crate) fn selector(self) -> String {
        format!("{LABEL}={}", self.name())
    }

    pub(crate) fn namespaces(self) -> Vec<String> {
        (0..NAMESPACES).map(|number| format!("bench-{}-{number:02}", self.name())).collect()
    }

    /// Every type that has objects; custom resource definitions come before their custom types.
    pub(crate) fn types(self) -> Vec<Type> {
        match self {
            Self::Config => CONFIG.to_vec(),
            Self::Mixed => [vec![DEFINITIONS], mixed(), custom()].concat(),
        }
    }

    /// The objects: one definition for each custom type, and equally many objects of every other type.
    pub(crate) fn plan(self, objects: usize) -> Vec<Planned> {
        let namespaces = self.namespaces();
        let (definitions, others): (Vec<Type>, Vec<Type>) =
            self.types().into_iter().partition(|kind| *kind == DEFINITIONS);
        let count = if definitions.is_empty() { 0 } else { custom().len().min(objects) };
        let first = (0..count).map(|number| Planned { kind: DEFINITIONS, number, namespace: None });
        let rest = (0..objects - count).map(|number| {
            let kind = others[number % others.len()];
            let number = number / others.len();
            let namespace = kind.namespaced.then(|| namespaces[number % NAMESPACES].clone());
            Planned { kind, number, namespace }
        });
        first.chain(rest).collect()
    }
}
