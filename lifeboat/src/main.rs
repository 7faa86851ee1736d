//! The binary: everything is in crate `cli`, which dispatches by subcommand and by the name it was called with.

fn main() -> std::process::ExitCode {
    lifeboat_cli::main()
}
