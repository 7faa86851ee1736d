//! Group `velero.io` compared with Velero: schemas, objects as stock clients write them, and the names and columns
//! that users see.

mod compare;
mod facts;
mod objects;
mod schema;
mod table;
