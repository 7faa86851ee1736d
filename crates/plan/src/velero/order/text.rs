//! The syntax of `--ordered-resources`, by upstream's rules: `type=name,name;type=name`.

use std::collections::BTreeMap;

/// Text that is malformed by upstream's rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid OrderedResources '{entry}'; write it like \"pods=ns1/pod1,ns1/pod2;persistentvolumes=pv1\"")]
pub struct OrderTextError {
    pub entry: String,
}

/// Parses the flag; empty text means no order. Each part between semicolons has exactly one `=`; if a key is given
/// twice, the last one counts.
pub fn parse_ordered_resources(text: &str) -> Result<Option<BTreeMap<String, String>>, OrderTextError> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut orders = BTreeMap::new();
    for entry in text.split(';') {
        let mut parts = entry.split('=');
        let (Some(key), Some(names), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(OrderTextError { entry: entry.to_owned() });
        };
        orders.insert(key.trim().to_owned(), names.trim().to_owned());
    }
    Ok(Some(orders))
}
