//! Credentials as Velero's Secrets contain them: AWS's shared credentials file, Azure's variables, and the request
//! that exchanges keys for those of a role.

pub(crate) mod assume_role;
pub(crate) mod aws_file;
pub(crate) mod dotenv;
