//! Group `velero.io` against its upstream: schemas, objects as stock clients write them, and what users see.

mod compare;
mod facts;
mod objects;
mod schema;
mod table;
