//! Tests of host names and collisions.
