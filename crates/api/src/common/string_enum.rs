//! `string_enum!`: an enum that is a string on the wire and never fails to decode.
//!
//! A newer server, an older backup or a third-party plugin may write an unknown value. With a derived
//! enum that value would make the whole object, and with it every list that holds it, unreadable. So each
//! of these enums ends in `Other(String)`, while the CRD's schema still lists the known values.

/// Declares a string enum: `string_enum! { /// doc
/// pub enum Phase { /// doc
/// New = "New", } }`.
///
/// Gives `KNOWN`, `as_str`, `Display`, `From<&str>`, `From<String>`, serde and a schema with the known values.
/// `pub open enum` leaves the values out of the schema, for fields where upstream takes any string.
macro_rules! string_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($body:tt)* }) => {
        $crate::common::string_enum!(@type $(#[$meta])* $vis $name { $($body)* });
        $crate::common::string_enum!(@schema closed $name);
    };
    ($(#[$meta:meta])* $vis:vis open enum $name:ident { $($body:tt)* }) => {
        $crate::common::string_enum!(@type $(#[$meta])* $vis $name { $($body)* });
        $crate::common::string_enum!(@schema open $name);
    };
    (@type $(#[$meta:meta])* $vis:vis $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        $vis enum $name {
            $($(#[$vmeta])* $variant,)+
            /// A value that this version does not know, kept as it was written.
            Other(String),
        }

        impl $name {
            /// Every value this version knows, in the order of the schema.
            $vis const KNOWN: &'static [Self] = &[$(Self::$variant),+];

            /// The value as written in the object.
            $vis fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::from(text.as_str())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }
    };
    (@schema closed $name:ident) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let known: Vec<&str> = Self::KNOWN.iter().map(Self::as_str).collect();
                schemars::json_schema!({ "type": "string", "enum": known })
            }
        }
    };
    (@schema open $name:ident) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    };
}
pub(crate) use string_enum;

#[cfg(test)]
mod tests {
    string_enum! {
        /// A colour.
        enum Colour {
            /// Like the sky.
            Blue = "blue",
            /// Nothing chosen.
            Unset = "",
        }
    }

    #[test]
    fn an_unknown_value_survives_a_round_trip() {
        let colours: Vec<Colour> = serde_json::from_str(r#"["blue","","mauve"]"#).expect("strings");
        assert_eq!(colours, [Colour::Blue, Colour::Unset, Colour::Other("mauve".into())]);
        assert_eq!(serde_json::to_string(&colours).expect("strings"), r#"["blue","","mauve"]"#);
        assert_eq!(format!("{:>5}|", Colour::Blue), " blue|");
    }

    #[test]
    fn the_schema_lists_the_known_values_only() {
        let schema = schemars::schema_for!(Colour);
        assert_eq!(schema.get("enum"), Some(&serde_json::json!(["blue", ""])));
    }
}
