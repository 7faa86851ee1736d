//! Credentials as Velero's Secrets give them: AWS's shared credentials file, Azure's variables, and the call
//! that trades keys for those of a role.

pub(crate) mod assume_role;
pub(crate) mod aws_file;
pub(crate) mod dotenv;
