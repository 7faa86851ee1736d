//! Moving the data of CSI snapshots into repositories and back: what DataUpload and DataDownload do in their own way on the
//! way to their ends ([`crate::transfers`]). What is made for a mover in its namespace is named by the object's UID, and
//! everything that cannot be repeated is on record in the object before it is done, so that another server goes on.

mod downloading;
mod exposing;
mod handing;
pub(crate) mod sweep;
mod uploading;

#[cfg(test)]
mod tests;
