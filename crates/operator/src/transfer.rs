//! Moving the bytes of volumes, whichever API asks for it: repositories by key, with their records behind a trait.

pub(crate) mod repositories;
