//! Copies pod volumes into repositories and back: the steps in which PodVolumeBackups and PodVolumeRestores differ
//! from other transfers ([`crate::transfers`]).

mod copying;
mod filling;
mod gather;
#[cfg(test)]
mod tests;
