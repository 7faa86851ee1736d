//! What everything here returns: this program only prints what went wrong.

use std::error::Error;

pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;
