//! Newtypes for names and IDs that must not be mixed up: the name of a location with that of a namespace, the ID of a task
//! with the UID of a Backup. They are created where text is read (an object's spec, a label, an annotation). None of them
//! is a `&str` by itself: [`LocationName::as_str`] shows where a name becomes plain text.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether the field that it was read from was missing or empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }
    };
}

identity! {
    /// The name of a BackupStorageLocation.
    LocationName
}

identity! {
    /// The name of a namespace.
    NamespaceName
}

identity! {
    /// The ID of one attempt of a mover: the UID of the object that the mover works for, and the number of the attempt. The
    /// names of its Job and Secret and the tag of its snapshot contain it.
    TaskId
}

identity! {
    /// The UID of a Backup. UIDs are never reused, so an object or snapshot that has it belongs to no other backup.
    BackupUid
}

identity! {
    /// One half of the key of a repository: where it is stored. Each API has its own texts: the name of a
    /// BackupStorageLocation, or a word of another API.
    StorageName
}

identity! {
    /// The other half of the key of a repository: its name in that storage, which is unique there.
    RepositoryName
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_identity_is_plain_text_in_json_and_is_found_by_text() {
        let task = TaskId::new("u-1");
        assert_eq!(serde_json::to_value(&task).unwrap(), "u-1");
        assert_eq!(serde_json::from_str::<TaskId>("\"u-1\"").unwrap(), task);
        assert_eq!(format!("{task:>5}"), "  u-1");
        assert!(BTreeSet::from([task]).contains("u-1"));
    }
}
