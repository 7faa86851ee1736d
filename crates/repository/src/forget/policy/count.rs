//! How many snapshots to keep: a number, or `unlimited`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// How many; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    Limited(u64),
    Unlimited,
}

impl Count {
    pub(super) fn is_left(self) -> bool {
        self != Self::Limited(0)
    }

    pub(super) fn use_one(&mut self) {
        if let Self::Limited(number) = self {
            *number = number.saturating_sub(1);
        }
    }

    /// As restic shows it: -1 for unlimited.
    pub fn number(self) -> i64 {
        match self {
            Self::Limited(number) => i64::try_from(number).unwrap_or(i64::MAX),
            Self::Unlimited => -1,
        }
    }
}

impl Default for Count {
    fn default() -> Self {
        Self::Limited(0)
    }
}

impl FromStr for Count {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let problem = |_| {
            Error::invalid(
                format!("count '{text}'"),
                "expected a number that is not negative, or 'unlimited'",
            )
        };
        text.parse().map(Self::Limited).map_err(problem)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(number) => write!(f, "{number}"),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_number_or_unlimited() {
        assert_eq!("7".parse::<Count>().unwrap(), Count::Limited(7));
        assert_eq!("unlimited".parse::<Count>().unwrap().number(), -1);
        for wrong in ["", "-1", "all", "99999999999999999999"] {
            assert!(wrong.parse::<Count>().is_err(), "{wrong}");
        }
    }
}
