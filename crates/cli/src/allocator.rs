//! The memory allocator of the process. Called once by `main`, before there are threads.

/// Blocks from this size are mapped from the kernel, and given back to it as soon as they are free: packs are larger, most
/// chunks of files are smaller.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: libc::c_int = 4 * 1024 * 1024;
/// Free memory at the end of an arena that is kept.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 8 * 1024 * 1024;

/// Keeps glibc from raising the size itself, up to 32 MiB, whenever a mapped block is freed: the arena of each thread would
/// keep the packs that it once held. Eight movers that wrote through the gateway left 200 MB in the server.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn give_large_blocks_back() {
    let settings = [(libc::M_MMAP_THRESHOLD, MAPPED), (libc::M_TRIM_THRESHOLD, KEPT)];
    for (setting, bytes) in settings {
        // SAFETY: sets a number of the allocator, while no other thread uses it: `main` has started none.
        unsafe { libc::mallopt(setting, bytes) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_large_blocks_back() {}
