//! From the gathered objects to a location that can be opened, or the reason why not, as a message for people. The
//! rules are those of every opening of a location (`locations`).

use lifeboat_plugin::host::PluginHost;

use super::gather::Gathered;
use crate::locations;

pub(super) use crate::locations::{Opening, Problem};

pub(super) fn validate(gathered: &Gathered, plugins: &PluginHost) -> Result<Opening, Problem> {
    let location = gathered.location.as_ref().map_err(locations::unreadable_problem)?;
    locations::opening(location, &gathered.secrets, plugins)
}
