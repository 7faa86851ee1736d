//! The builds of Lifeboat that tests run: its program on this machine and its image in the cluster, as `cargo xtask test` names
//! them in the environment. Every test runs the new one; those of upgrades begin with the old one.

use crate::{Program, variable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The build that is replaced; only in `cargo xtask test upgrade`.
    Old,
    /// The build under test.
    New,
}

impl Release {
    pub fn program(self) -> String {
        variable(match self {
            Self::Old => "LIFEBOAT_OLD_BIN",
            Self::New => "LIFEBOAT_BIN",
        })
    }

    pub fn image(self) -> String {
        variable(match self {
            Self::Old => "LIFEBOAT_OLD_IMAGE",
            Self::New => "LIFEBOAT_IMAGE",
        })
    }

    /// Its command line, on the cluster under test.
    pub fn command(self) -> Program {
        let program = Program::new(&self.program());
        match std::env::var("LIFEBOAT_CONTEXT") {
            Ok(context) => program.args(["--context", &context]),
            Err(_) => program,
        }
    }
}
