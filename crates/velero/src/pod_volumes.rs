//! Copying the volumes of pods into repositories and back: what PodVolumeBackup and PodVolumeRestore do in their own way on
//! the way to their ends ([`crate::transfers`]).

mod copying;
mod filling;
mod gather;
#[cfg(test)]
mod tests;
