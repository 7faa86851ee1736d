//! The binary: everything is in crate `cli`, which dispatches by subcommand and by the name it was called with.

/// Many threads pass large buffers to each other; glibc keeps freed ones in an arena for each thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    lifeboat_cli::main()
}
