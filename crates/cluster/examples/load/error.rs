//! The result type of this program, which only prints errors.

use std::error::Error;

pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;
